package archive

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"sara/translate"
)

// month is a property's whole month in a mutable form.
type month struct {
	ledger
	rows [dimensionCount][longestMonth][]row // in the order of compareRows
}

// storedRow is a row of the Parquet file. It uses only the oldest encodings, which every reader supports.
type storedRow struct {
	Date        int32   `parquet:"date,dict,date"`
	Dimension   string  `parquet:"dimension,dict"`
	Key         string  `parquet:"key,dict"`
	Clicks      int64   `parquet:"clicks,dict"`
	Impressions int64   `parquet:"impressions,dict"`
	Position    float64 `parquet:"position,plain"`
}

func sortingColumns() parquet.WriterOption {
	return parquet.SortingWriterConfig(parquet.SortingColumns(parquet.Ascending("dimension"), parquet.Ascending("date"),
		parquet.Descending("clicks"), parquet.Ascending("key")))
}

// encode returns the month as an object. It is deterministic.
func (m *month) encode() ([]byte, error) {
	options := []parquet.WriterOption{
		// Measured: no larger than with the default level, and with far smaller tables in memory.
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}),
		parquet.CreatedBy("sara", formatVersion, ""),
		parquet.DataPageVersion(1),
		parquet.KeyValueMetadata(checksumKey, checksumMark+noChecksum),
		sortingColumns(),
	}
	for key, value := range m.metadata() {
		options = append(options, parquet.KeyValueMetadata(key, value))
	}
	var out bytes.Buffer
	writer := parquet.NewGenericWriter[storedRow](&out, options...)
	for _, by := range Dimensions() {
		if err := m.encodeDimension(writer, by); err != nil {
			return nil, fmt.Errorf("encode %s of %s: %w", DimensionName(by), m.month, err)
		}
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("encode %s: %w", m.month, err)
	}
	if err := writeChecksum(out.Bytes()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// encodeDimension writes one row group, or none if there are no rows.
func (m *month) encodeDimension(writer *parquet.GenericWriter[storedRow], by translate.Dimension) error {
	var stored []storedRow
	for day := range m.rows[by] {
		for _, r := range m.rows[by][day] {
			stored = append(stored, storedRow{
				Date:        int32(m.month) + int32(day),
				Dimension:   DimensionName(by),
				Key:         string(r.key),
				Clicks:      r.clicks,
				Impressions: r.impressions,
				Position:    r.position,
			})
		}
	}
	if len(stored) == 0 {
		return nil
	}
	_, err := writer.Write(stored)
	return errors.Join(err, writer.Flush())
}

// The checksum is in the file's metadata, as a mark and sixteen hexadecimal digits. It covers every byte of the file, with
// zeros in place of the digits.
const (
	checksumMark = "xxh64-of-the-file-with-zeros-here:"
	noChecksum   = "0000000000000000"
)

// findChecksum returns the range of the digits in a file. User text may contain the mark, but the metadata comes after all
// user text, so the last mark is the right one.
func findChecksum(data []byte) (start, end int, ok bool) {
	at := bytes.LastIndex(data, []byte(checksumMark))
	start = at + len(checksumMark)
	end = start + len(noChecksum)
	return start, end, at >= 0 && end <= len(data)
}

// checksum returns the digits for the range from start to end of a file.
func checksum(data []byte, start, end int) string {
	digest := xxhash.New()
	for _, part := range [][]byte{data[:start], []byte(noChecksum), data[end:]} {
		_, _ = digest.Write(part) // it never fails
	}
	return fmt.Sprintf("%016x", digest.Sum64())
}

func writeChecksum(data []byte) error {
	start, end, ok := findChecksum(data)
	if !ok {
		return errors.New("BUG: the encoded file has no checksum mark")
	}
	copy(data[start:end], checksum(data, start, end))
	return nil
}

package tablefile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// A rawPage is a page as it is in a file.
type rawPage struct {
	header format.PageHeader
	data   []byte
	start  []byte // instead of the header
}

// dataPage returns a page whose header matches its data, except for what change sets.
func dataPage(values int32, encoding format.Encoding, data []byte, change func(*format.PageHeader)) rawPage {
	p := rawPage{data: data}
	p.header.Type, p.header.CompressedPageSize, p.header.UncompressedPageSize = format.DataPage, int32(len(data)), int32(len(data))
	p.header.DataPageHeader.Valid = true
	p.header.DataPageHeader.V = format.DataPageHeader{NumValues: values, Encoding: encoding, DefinitionLevelEncoding: format.RLE,
		RepetitionLevelEncoding: format.RLE}
	if change != nil {
		change(&p.header)
	}
	return p
}

func dictionaryPage(values int32, data []byte) rawPage {
	p := rawPage{data: data}
	p.header.Type, p.header.CompressedPageSize, p.header.UncompressedPageSize = format.DictionaryPage, int32(len(data)), int32(len(data))
	p.header.DictionaryPageHeader.Valid = true
	p.header.DictionaryPageHeader.V = format.DictionaryPageHeader{NumValues: values, Encoding: format.Plain}
	return p
}

// A rawColumn is the only column of a file.
type rawColumn struct {
	kind       format.Type
	repetition format.FieldRepetitionType
	codec      format.CompressionCodec
	rows       int64
	pages      []rawPage
	offset     int64 // from the first data page to where it would be
}

// file returns a Parquet file of the column, named count.
func (c rawColumn) file(t *testing.T) []byte {
	t.Helper()
	marshal := func(v any) []byte {
		text, err := thrift.Marshal(new(thrift.CompactProtocol), v)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	file := []byte(parquetMagic)
	meta := format.ColumnMetaData{Type: c.kind, Encoding: []format.Encoding{format.Plain}, PathInSchema: []string{"count"}, Codec: c.codec,
		NumValues: c.rows, DataPageOffset: int64(len(file))}
	for _, p := range c.pages {
		if p.header.Type == format.DictionaryPage {
			meta.DictionaryPageOffset = int64(len(file))
		}
		if p.start == nil {
			p.start = marshal(&p.header)
		}
		file = append(append(file, p.start...), p.data...)
		if p.header.Type == format.DictionaryPage {
			meta.DataPageOffset = int64(len(file))
		}
	}
	meta.DataPageOffset += c.offset
	meta.TotalCompressedSize = int64(len(file) - len(parquetMagic))
	root, leaf := format.SchemaElement{Name: "row"}, format.SchemaElement{Name: "count"}
	root.NumChildren.Valid, root.NumChildren.V = true, 1
	leaf.Type.Valid, leaf.Type.V = true, c.kind
	leaf.RepetitionType.Valid, leaf.RepetitionType.V = true, c.repetition
	footer := marshal(&format.FileMetaData{Version: 1, Schema: []format.SchemaElement{root, leaf}, NumRows: c.rows,
		RowGroups: []format.RowGroup{{Columns: []format.ColumnChunk{{MetaData: meta}}, NumRows: c.rows}}})
	file = append(file, footer...)
	return append(binary.LittleEndian.AppendUint32(file, uint32(len(footer))), parquetMagic...)
}

// readCounts reads all of a file's column.
func readCounts(t *testing.T, data []byte) (n int, err error) {
	t.Helper()
	f, err := openBytes(t, data)
	if err == nil {
		err = f.Choose("count")
	}
	cells := make([]Cell, 1)
	for err == nil {
		if err = f.Read(cells); err == nil {
			n++
		}
	}
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return n, err
}

// zeros returns a Zstandard frame for a multiple of 128 KiB, four bytes each, which does not declare its size.
func zeros(blocks int) []byte {
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 7 << 3}
	for i := range blocks {
		head := uint32(1<<17)<<3 | 1<<1 // a block of one repeated byte
		if i == blocks-1 {
			head |= 1
		}
		frame = append(frame, byte(head), byte(head>>8), byte(head>>16), 0)
	}
	return frame
}

// The claims of a small file cost no memory: neither the sizes in its page headers, nor the sizes of what is packed and repeated.
func TestPagesThatClaimTooMuch(t *testing.T) {
	const huge, tooMuch = math.MaxInt32, "MiB of memory"
	number := make([]byte, 8)
	run := binary.AppendUvarint(nil, huge/4<<1) // of one value, which follows
	levels := append(append(binary.LittleEndian.AppendUint32(nil, uint32(len(run)+1)), run...), 1)
	delta := append(binary.AppendUvarint([]byte{0x80, 0x01, 0x04}, huge/4), 0)
	text := binary.AppendUvarint([]byte{0x15, 0, 0x15, 16, 0x15, 16, 0x48}, huge) // of a header
	dictionary := dictionaryPage(1, number)
	plain := func(values int32, data []byte, change func(*format.PageHeader)) rawPage {
		return dataPage(values, format.Plain, data, change)
	}
	unpacked := func(size int32) func(*format.PageHeader) {
		return func(h *format.PageHeader) { h.UncompressedPageSize = size }
	}
	check := func(name, want string, file rawColumn, pages ...rawPage) {
		t.Helper()
		file.rows, file.pages = 1, pages
		data := file.file(t)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		n, err := readCounts(t, data)
		runtime.ReadMemStats(&after)
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 16 {
			t.Errorf("%s: %d MiB", name, took)
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "column count") {
			t.Errorf("%s: %d rows, %v", name, n, err)
		}
	}
	numbers, texts := rawColumn{kind: format.Int64}, rawColumn{kind: format.ByteArray}
	optional := rawColumn{kind: format.Int64, repetition: format.Optional}
	packedWith := func(codec format.CompressionCodec) rawColumn { return rawColumn{kind: format.Int64, codec: codec} }

	check("a compressed size", "exceeds its column", numbers, plain(1, number, func(h *format.PageHeader) { h.CompressedPageSize = huge }))
	check("an uncompressed size", tooMuch, packedWith(format.Snappy), plain(1, snappy.Encode(nil, number), unpacked(huge)))
	check("a number of texts", tooMuch, texts, plain(huge, number, nil))
	check("a number of levels", tooMuch, optional, plain(huge, number, nil))
	check("a number of texts in a dictionary", tooMuch, texts, dictionaryPage(huge, number), dataPage(1, format.RLEDictionary, []byte{0, 2}, nil))
	check("a text in a header", "header", numbers, rawPage{start: text})
	check("a page after enough rows", tooMuch, numbers, plain(1, number, nil), plain(huge, number, nil))
	check("a page within another", "is within another", rawColumn{kind: format.Int64, offset: 1}, dictionary, plain(1, number, nil))

	check("a size in Snappy", "unpack", packedWith(format.Snappy), plain(1, binary.AppendUvarint(nil, math.MaxUint32), nil))
	check("a gigabyte in Zstandard", "unpack", packedWith(format.Zstd), plain(1, zeros(1<<13), nil))
	check("much in gzip", "unpack", packedWith(format.Gzip), plain(1, packed(t, make([]byte, 1<<27)), nil))
	check("a codec without a bound", "LZ4_RAW", packedWith(format.Lz4Raw), plain(1, []byte{0xff}, nil))

	check("repeated places", tooMuch, numbers, dictionary, dataPage(1, format.RLEDictionary, append([]byte{1}, append(run, 0)...), nil))
	check("repeated levels", tooMuch, optional, plain(1, append(levels, number...), nil))
	check("repeated truth", tooMuch, rawColumn{kind: format.Boolean}, dataPage(1, format.RLE, levels, nil))
	check("repeated numbers", "RLE", rawColumn{kind: format.Int32}, dataPage(1, format.RLE, run, nil))
	check("differences", tooMuch, numbers, dataPage(1, format.DeltaBinaryPacked, delta, nil))
	check("lengths as differences", tooMuch, texts, dataPage(1, format.DeltaLengthByteArray, delta, nil))
	check("repeated beginnings", "DELTA_BYTE_ARRAY", texts, dataPage(1, format.DeltaByteArray, delta, nil))
}

// The files above are refused for their claims: without those, they can be read.
func TestPagesThatAreRead(t *testing.T) {
	number := make([]byte, 8)
	numbers := bytes.Repeat([]byte{1, 0, 0, 0, 0, 0, 0, 0}, 1<<14)
	check := func(name string, rows int32, file rawColumn, pages ...rawPage) {
		t.Helper()
		file.rows, file.pages = int64(rows), pages
		if n, err := readCounts(t, file.file(t)); err != nil || n != int(rows) {
			t.Errorf("%s: %d rows, %v", name, n, err)
		}
	}
	whole := rawColumn{kind: format.Int64}
	check("plain", 2, whole, dataPage(1, format.Plain, number, nil), dataPage(1, format.Plain, number, nil))
	check("no rows", 0, whole)
	check("dictionary", 9, whole, dictionaryPage(1, number), dataPage(9, format.RLEDictionary, []byte{1, 9 << 1, 0}, nil))
	check("levels", 1, rawColumn{kind: format.Int64, repetition: format.Optional},
		dataPage(1, format.Plain, append([]byte{2, 0, 0, 0, 1 << 1, 1}, number...), nil))
	check("truth", 9, rawColumn{kind: format.Boolean}, dataPage(9, format.RLE, []byte{2, 0, 0, 0, 9 << 1, 1}, nil))
	for codec, data := range map[format.CompressionCodec][]byte{
		format.Uncompressed: numbers, format.Snappy: snappy.Encode(nil, numbers), format.Gzip: packed(t, numbers), format.Zstd: zeros(1),
	} {
		page := dataPage(1<<14, format.Plain, data, func(h *format.PageHeader) { h.UncompressedPageSize = int32(len(numbers)) })
		check(codec.String(), 1<<14, rawColumn{kind: format.Int64, codec: codec}, page)
	}
}

// No row is lost because a damaged file claims fewer than its columns have.
func TestMoreValuesThanRows(t *testing.T) {
	t.Parallel()
	for _, rows := range []int64{0, 1, 255, 256, 299} {
		page := dataPage(300, format.Plain, make([]byte, 300*8), nil)
		data := rawColumn{kind: format.Int64, rows: rows, pages: []rawPage{page}}.file(t)
		if n, err := readCounts(t, data); err == nil || !strings.Contains(err.Error(), "column count has more values than its row group has rows") {
			t.Errorf("%d of 300 rows: %d, %v", rows, n, err)
		}
	}
}

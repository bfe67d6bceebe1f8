package tablefile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// oldDictionary is PLAIN_DICTIONARY: old writers' name for PLAIN in a dictionary page, and for RLE_DICTIONARY in others.
const oldDictionary format.Encoding = 2

// repeated returns how many values, or levels if there are more, the library would decode from a page's bytes, whatever its header says.
func (c *pageCheck) repeated(column *parquet.Column, h *format.PageHeader) (n int64, err error) {
	data, encoding, levels := c.packed, format.Plain, int64(0)
	isPacked := true
	switch h.Type {
	case format.DataPageV2: // with levels before the packed part
		v2 := &h.DataPageHeaderV2.V
		repetition, definition := int(v2.RepetitionLevelsByteLength), int(v2.DefinitionLevelsByteLength)
		if min(repetition, definition) < 0 || repetition+definition > len(data) {
			return 0, errPage
		}
		if levels, err = runs(data[repetition:repetition+definition], 1); err != nil {
			return 0, err
		}
		data, encoding, isPacked = data[repetition+definition:], v2.Encoding, !v2.IsCompressed.Valid || v2.IsCompressed.V
	case format.DataPage:
		encoding = h.DataPageHeader.V.Encoding
	case format.DictionaryPage:
		if encoding = h.DictionaryPageHeader.V.Encoding; encoding == oldDictionary {
			encoding = format.Plain
		}
	}
	if codec := column.Compression().CompressionCodec(); isPacked && codec != format.Uncompressed {
		if data, err = c.unpack(codec, data, int(h.UncompressedPageSize)); err != nil {
			return 0, fmt.Errorf("unpack a page: %w", err)
		}
	}
	if h.Type == format.DataPage && column.MaxDefinitionLevel() > 0 {
		var part []byte
		if part, data, err = prefixed(data); err == nil {
			levels, err = runs(part, 1)
		}
		if err != nil {
			return 0, err
		}
	}
	n, err = decoded(column.Type().Kind(), encoding, data)
	return max(n, levels), err
}

var errPage = errors.New("a page is damaged")

// prefixed splits off a part that is preceded by its length.
func prefixed(data []byte) (part, rest []byte, err error) {
	if len(data) < 4 || uint64(binary.LittleEndian.Uint32(data)) > uint64(len(data)-4) {
		return nil, nil, errPage
	}
	end := 4 + binary.LittleEndian.Uint32(data)
	return data[4:end], data[end:], nil
}

// decoded returns how many values an encoding repeats; 0 if they cannot exceed the page's bytes or what the header says.
func decoded(kind parquet.Kind, encoding format.Encoding, data []byte) (int64, error) {
	switch {
	case encoding == format.RLEDictionary, encoding == oldDictionary:
		if len(data) == 0 {
			return 0, nil
		}
		return runs(data[1:], int64(data[0]))
	case encoding == format.RLE && kind == parquet.Boolean:
		part, _, err := prefixed(data)
		if err != nil {
			return 0, err
		}
		return runs(part, 1)
	case encoding == format.DeltaBinaryPacked, encoding == format.DeltaLengthByteArray:
		return differences(data)
	case encoding == format.Plain, encoding == format.ByteStreamSplit:
		return 0, nil
	}
	// This includes DELTA_BYTE_ARRAY, which repeats the beginning of one text in those that follow.
	return 0, fmt.Errorf("it is encoded as %s: write the file with the encodings PLAIN and RLE_DICTIONARY", encoding)
}

// runs returns how many values are in runs of one value, or of bit-packed values.
func runs(data []byte, bits int64) (n int64, err error) {
	for len(data) > 0 {
		head, used := binary.Uvarint(data)
		count, length := int64(head>>1), (bits+7)/8
		if used <= 0 || count > math.MaxInt32 {
			return 0, errPage
		}
		if data = data[used:]; count == 0 {
			continue
		}
		if head&1 != 0 {
			length = count * bits
			count *= 8
		}
		n += count
		data = data[min(length, int64(len(data))):]
	}
	return n, nil
}

// differences returns how many values are stored as differences, according to their third number.
func differences(data []byte) (int64, error) {
	var n uint64
	for range 3 {
		var used int
		if n, used = binary.Uvarint(data); used <= 0 || n > math.MaxInt32 {
			return 0, errPage
		}
		data = data[used:]
	}
	return int64(n), nil
}

// unpack returns at most size bytes, valid until the next call. More is an error, raised before they take memory.
func (c *pageCheck) unpack(codec format.CompressionCodec, packed []byte, size int) ([]byte, error) {
	c.unpacked = slices.Grow(c.unpacked[:0], size+1)
	to := c.unpacked[:size]
	switch codec {
	case format.Snappy:
		n, err := snappy.DecodedLen(packed)
		if err != nil || n > size {
			return nil, errors.Join(err, errSize)
		}
		return snappy.Decode(to, packed)
	case format.Gzip:
		in, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return nil, err
		}
		n, err := io.ReadFull(in, c.unpacked[:size+1])
		if err == nil {
			return nil, errSize
		}
		return to[:min(n, size)], ignoreEnd(err)
	case format.Zstd:
		if c.zstd == nil {
			var err error
			if c.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true)); err != nil {
				return nil, err
			}
		}
		return c.zstd.DecodeAll(packed, to[:0:size])
	}
	return nil, fmt.Errorf("it is compressed with %s: write the file with SNAPPY, GZIP or ZSTD", codec)
}

var errSize = errors.New("it is longer than its header says")

// ignoreEnd returns nil for the end of the packed data.
func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

package tablefile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

const (
	// mostMemory bounds the memory of the pages that are read side by side. Writers make pages of about 1 MiB, with up to a million values.
	mostMemory = 256 << 20
	// valueMemory is what the library allocates for a value besides the page's bytes: eight for a number, or an offset and a length, and its level.
	valueMemory = 12
	// longestHeader bounds the header of a page, which may contain its least and greatest value.
	longestHeader = 1 << 18
)

// A pageCheck refuses pages of an untrusted Parquet file that would take more than mostMemory. Before it reads a page, the library allocates
// whatever the header says, up to 8 GiB, and it does not bound what it then unpacks and repeats. So before a row group is read, a pageCheck
// reads and unpacks its pages, but decodes no values; this costs a few percent of the time to read the rows.
type pageCheck struct {
	file     *parquet.File
	in       *bufio.Reader
	left     int64 // bytes of the column not read yet
	packed   []byte
	unpacked []byte
	zstd     *zstd.Decoder // created on first use
}

// newPageCheck returns a check of a file's pages.
func newPageCheck(file *parquet.File) *pageCheck {
	return &pageCheck{file: file, in: bufio.NewReaderSize(nil, longestHeader)}
}

// Check returns an error if reading some columns of a row group together would take too much memory for their pages.
func (c *pageCheck) Check(group int, columns []int) error {
	memory := int64(0)
	chunks := c.file.RowGroups()[group].ColumnChunks()
	for _, i := range columns {
		chunk, ok := chunks[i].(*parquet.FileColumnChunk)
		if !ok {
			return errors.New("BUG: the column of a file has an unexpected type")
		}
		column, ok := chunk.Node().(*parquet.Column) // the library uses its codec, whatever the row group says
		if !ok {
			return errors.New("BUG: the column of a row group has an unexpected type")
		}
		n, err := c.column(column, &c.file.Metadata().RowGroups[group].Columns[i].MetaData, mostMemory-memory)
		if err != nil {
			return fmt.Errorf("column %s: %w", column.Name(), err)
		}
		memory += n
	}
	return nil
}

// column returns the memory of a column's dictionary and its largest page, which must not exceed most.
func (c *pageCheck) column(column *parquet.Column, chunk *format.ColumnMetaData, most int64) (int64, error) {
	start := chunk.DataPageOffset
	if chunk.DictionaryPageOffset != 0 {
		start = chunk.DictionaryPageOffset
	}
	c.left = min(chunk.TotalCompressedSize, c.file.Size()-start)
	if start < 0 || c.left < 0 {
		return 0, fmt.Errorf("it would have %d bytes from byte %d of the file", chunk.TotalCompressedSize, start)
	}
	end := start + c.left
	c.in.Reset(io.NewSectionReader(c.file, start, c.left))
	var dictionary, largest int64
	isPage := chunk.DataPageOffset == start || chunk.DataPageOffset == end
	for c.left > 0 {
		isPage = isPage || chunk.DataPageOffset == end-c.left
		header, err := c.header()
		if err != nil {
			return 0, fmt.Errorf("the header of a page: %w", err)
		}
		n, err := c.page(column, header, most-dictionary)
		if err != nil {
			return 0, err
		}
		if header.Type == format.DictionaryPage {
			dictionary += n
		} else {
			largest = max(largest, n)
		}
	}
	if !isPage { // the library may start reading there
		return 0, fmt.Errorf("byte %d of the file, where its first page would be, is within another", chunk.DataPageOffset)
	}
	return dictionary + largest, nil
}

// header reads the header of the next page.
func (c *pageCheck) header() (*format.PageHeader, error) {
	text, err := c.in.Peek(int(min(c.left, longestHeader)))
	if err != nil {
		return nil, err
	}
	rest := thriftText{text: text}
	if err := rest.skip(typeStruct, 0); err != nil { // before the library allocates memory
		return nil, err
	}
	text = text[:len(text)-len(rest.text)]
	header := new(format.PageHeader)
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), text, header); err != nil {
		return nil, err
	}
	c.left -= int64(len(text))
	_, err = c.in.Discard(len(text))
	return header, err
}

// page reads a page and returns the memory it takes, which must not exceed most.
func (c *pageCheck) page(column *parquet.Column, h *format.PageHeader, most int64) (int64, error) {
	values, size := int64(valuesOf(h)), int64(h.CompressedPageSize)
	if size > c.left {
		return 0, fmt.Errorf("a page of %d bytes exceeds its column", size)
	}
	memory := func() int64 { return size + int64(h.UncompressedPageSize) + valueMemory*values }
	if min(size, int64(h.UncompressedPageSize), values) < 0 || memory() > most {
		return 0, tooLarge(memory())
	}
	c.left -= size
	c.packed = slices.Grow(c.packed[:0], int(size))[:size]
	if _, err := io.ReadFull(c.in, c.packed); err != nil {
		return 0, err
	}
	n, err := c.repeated(column, h)
	if err != nil {
		return 0, err
	}
	if values = max(values, n); memory() > most {
		return 0, tooLarge(memory())
	}
	return memory(), nil
}

func tooLarge(memory int64) error {
	return fmt.Errorf("its pages would take %d MiB of memory, exceeding %d MiB together with the other columns: write the file with smaller pages",
		memory>>20, mostMemory>>20)
}

// valuesOf returns how many values a page has according to its header.
func valuesOf(h *format.PageHeader) int32 {
	switch h.Type {
	case format.DataPage:
		return h.DataPageHeader.V.NumValues
	case format.DataPageV2:
		return h.DataPageHeaderV2.V.NumValues
	case format.DictionaryPage:
		return h.DictionaryPageHeader.V.NumValues
	}
	return 0
}

// Package tablefile reads the rows of table files by column name. The formats are Parquet, Avro object containers, JSON with one object
// per line, and CSV with a header line; all but Parquet may be compressed with gzip. The format is detected from the content, not from
// the name. Memory is bounded for any file: a page or block of each column that is read, or one line. Files are untrusted: a damaged
// file is an error. So is a Parquet file whose pages would take more than 256 MiB, or whose codec or encoding does not show, before
// decoding, how much memory it takes: Brotli, LZ4, DELTA_BYTE_ARRAY.
package tablefile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
)

// A Format is the format of a file.
type Format string

// The formats. Empty is the format of a file without content, which has no columns and no rows.
const (
	Parquet Format = "Parquet"
	Avro    Format = "Avro"
	JSON    Format = "JSON"
	CSV     Format = "CSV"
	Empty   Format = "empty"
)

// A File is an open table file. It is not safe for concurrent use.
type File struct {
	format Format
	source source
	file   *os.File // nil for that of OpenParquet's caller
	size   int64
	text   *countingReader // nil for Parquet
	rows   int64           // read
}

// source reads the rows of a format.
type source interface {
	// columns returns the names of the columns. For JSON these are the members of the first lines; later lines may have more.
	columns() []string
	// choose sets the columns to read, some of which may be absent.
	choose(names []string) error
	// read reads the next row into a cell for each chosen column, or returns io.EOF.
	read(cells []Cell) error
	close() error
}

// Open opens a file and determines its format and columns.
func Open(path string) (_ *File, err error) {
	info, err := os.Stat(path) // opening a named pipe would block until a program writes to it
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	f := &File{file: file, size: info.Size()}
	defer func() {
		if err != nil {
			_ = file.Close() // opened for reading only
		}
	}()
	err = f.open()
	return f, err
}

// OpenParquet opens a Parquet file of size bytes. Closing it leaves in open.
func OpenParquet(in io.ReaderAt, size int64) (_ *File, err error) {
	defer damaged(&err)
	f := &File{format: Parquet, size: size}
	f.source, err = openParquet(in, size)
	return f, err
}

const (
	parquetMagic = "PAR1"
	avroMagic    = "Obj\x01"
	gzipMagic    = "\x1f\x8b"
	byteOrder    = "\ufeff"
	// peeked is how many bytes of a text file are examined to find its columns.
	peeked = 1 << 16
)

func (f *File) open() (err error) {
	defer damaged(&err)
	f.text = &countingReader{in: f.file}
	in := bufio.NewReaderSize(f.text, peeked)
	start, _ := in.Peek(len(parquetMagic)) // an error returns with the first read
	if string(start) == parquetMagic {
		f.format, f.text = Parquet, nil
		f.source, err = openParquet(f.file, f.size)
		return err
	}
	if bytes.HasPrefix(start, []byte(gzipMagic)) {
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return fmt.Errorf("gzip: %w", err)
		}
		in = bufio.NewReaderSize(unpacked, peeked)
		if start, err = in.Peek(len(parquetMagic)); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("gzip: %w", err)
		}
	}
	switch text := bytes.TrimLeft(bytes.TrimPrefix(start, []byte(byteOrder)), " \t\r\n"); {
	case string(start) == parquetMagic:
		return errors.New("a Parquet file cannot be read within gzip: unpack it first")
	case string(start) == avroMagic:
		f.format = Avro
		f.source, err = openAvro(in)
	case len(start) == 0:
		f.format, f.source = Empty, emptySource{}
	case bytes.HasPrefix(text, []byte("{")):
		f.format, f.source = JSON, openJSON(in)
	default:
		f.format = CSV
		f.source, err = openCSV(in)
	}
	return err
}

// Format returns the file's format.
func (f *File) Format() Format { return f.format }

// Columns returns the names of the file's columns. For CSV it is the first line, and for JSON the members of the first lines, so members
// that are rarely set may be missing.
func (f *File) Columns() []string { return f.source.columns() }

// Choose sets the columns that Read reads. Columns that the file lacks are null in all rows. Others are not decoded.
func (f *File) Choose(names ...string) (err error) {
	defer damaged(&err)
	return f.source.choose(names)
}

// Read reads the next row, a cell for each chosen column, or returns io.EOF. The cells are valid until the next call.
func (f *File) Read(cells []Cell) (err error) {
	defer damaged(&err)
	if err = f.source.read(cells); err == nil {
		f.rows++
	}
	return err
}

// Place describes the last row that was read, for messages.
func (f *File) Place() string { return fmt.Sprintf("row %d", f.rows) }

// Position returns how many bytes of the file have been read, approximately for Parquet.
func (f *File) Position() int64 {
	if f.text != nil {
		return f.text.n
	}
	if p, ok := f.source.(*parquetSource); ok && p.total > 0 {
		return int64(float64(f.size) * float64(f.rows) / float64(p.total))
	}
	return f.size
}

// Close closes the file.
func (f *File) Close() error {
	err := f.source.close()
	if f.file != nil {
		err = errors.Join(err, f.file.Close())
	}
	return err
}

// damaged turns a panic into an error, because the Parquet library panics on some malformed files.
func damaged(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the file is damaged: %v", p)
	}
}

// countingReader counts the bytes that are read.
type countingReader struct {
	in io.Reader
	n  int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.n += int64(n)
	return n, err
}

type emptySource struct{}

func (emptySource) columns() []string     { return nil }
func (emptySource) choose([]string) error { return nil }
func (emptySource) read([]Cell) error     { return io.EOF }
func (emptySource) close() error          { return nil }

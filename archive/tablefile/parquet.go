package tablefile

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// parquetSource reads the chosen columns of a Parquet file side by side. The pages of other columns are not read.
type parquetSource struct {
	file   *parquet.File
	pages  *pageCheck
	total  int64 // rows
	group  int   // the next row group
	left   int64 // rows of the current one
	names  []string
	chosen []parquetColumn
}

// parquetColumn is a column of the current row group.
type parquetColumn struct {
	name      string
	leaf      int // -1 if the file lacks the column
	isDecimal bool
	reader    parquet.ColumnChunkValueReader
	batch     []parquet.Value // read but not yet used; they refer to the reader's page
	buffer    []parquet.Value
}

// openParquet opens an untrusted file, ignoring its indexes.
func openParquet(in io.ReaderAt, size int64) (*parquetSource, error) {
	const readBuffer = 1 << 18
	err := checkFooter(in, size)
	var file *parquet.File
	if err == nil {
		file, err = parquet.OpenFile(in, size, parquet.ReadBufferSize(readBuffer), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	}
	if err != nil {
		return nil, fmt.Errorf("not a Parquet file: %w", err)
	}
	s := &parquetSource{file: file, pages: newPageCheck(file), total: file.NumRows()}
	for _, field := range file.Schema().Fields() {
		s.names = append(s.names, field.Name())
	}
	return s, nil
}

func (s *parquetSource) columns() []string { return s.names }

func (s *parquetSource) choose(names []string) error {
	for _, name := range names {
		column := parquetColumn{name: name, leaf: -1}
		if leaf, ok := s.file.Schema().Lookup(name); ok {
			if leaf.MaxRepetitionLevel > 0 || !leaf.Node.Leaf() {
				return fmt.Errorf("column %s is nested or repeated", name)
			}
			if err := checkType(leaf.Node.Type()); err != nil {
				return fmt.Errorf("column %s is %w", name, err)
			}
			column.leaf, column.buffer = leaf.ColumnIndex, make([]parquet.Value, 256)
			_, column.isDecimal = logicalType(leaf.Node.Type()).(*format.DecimalType)
		}
		s.chosen = append(s.chosen, column)
	}
	return nil
}

func (s *parquetSource) read(cells []Cell) error {
	for s.left == 0 {
		if err := s.next(); err != nil {
			return err
		}
	}
	s.left--
	for i := range s.chosen {
		c := &s.chosen[i]
		if c.leaf < 0 {
			cells[i].setNull()
			continue
		}
		if len(c.batch) == 0 {
			if err := c.fill(); err != nil {
				return err
			}
		}
		if err := setParquet(&cells[i], c.batch[0]); err != nil {
			return fmt.Errorf("column %s: %w", c.name, err)
		}
		if c.isDecimal && cells[i].kind == whole {
			cells[i].setDecimal(cells[i].number)
		}
		c.batch = c.batch[1:]
	}
	return nil
}

// checkType refuses the types whose stored numbers are not the values: they are divided by a power of ten, or count from midnight or 1970.
func checkType(t parquet.Type) error {
	switch logical := logicalType(t).(type) {
	case *format.DecimalType:
		switch {
		case logical.Scale != 0:
			return errors.New("a decimal with a fraction: make it a double")
		case t.Kind() == parquet.ByteArray: // which could be read as digits
			return errors.New("a decimal in bytes: make it a double")
		}
	case *format.TimeType, *format.TimestampType:
		return fmt.Errorf("of type %s: make it a DATE", t)
	}
	if kind := t.Kind(); kind == parquet.FixedLenByteArray || kind == parquet.Int96 {
		return fmt.Errorf("of type %s", kind)
	}
	return nil
}

// logicalType returns the type of a column's values beyond how they are stored; nil if there is none.
func logicalType(t parquet.Type) any {
	if logical := t.LogicalType(); logical != nil {
		return logical.Value
	}
	return nil
}

// next moves to the next row group.
func (s *parquetSource) next() error {
	for i := range s.chosen {
		if err := s.chosen[i].end(); err != nil {
			return err
		}
	}
	if err := s.closeColumns(); err != nil {
		return err
	}
	groups := s.file.RowGroups()
	if s.group == len(groups) {
		return io.EOF
	}
	var leaves []int
	for _, c := range s.chosen {
		if c.leaf >= 0 {
			leaves = append(leaves, c.leaf)
		}
	}
	if err := s.pages.Check(s.group, leaves); err != nil {
		return err
	}
	group := groups[s.group]
	s.group++
	s.left = group.NumRows()
	chunks := group.ColumnChunks()
	for i := range s.chosen {
		if c := &s.chosen[i]; c.leaf >= 0 {
			c.reader, c.batch = parquet.NewColumnChunkValueReader(chunks[c.leaf]), nil
		}
	}
	return nil
}

// fill reads the next values once the previous ones are used.
func (c *parquetColumn) fill() error {
	n, err := c.reader.ReadValues(c.buffer)
	if n == 0 && err == nil {
		err = io.ErrNoProgress
	}
	if n == 0 {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("column %s: %w", c.name, err)
	}
	c.batch = c.buffer[:n]
	return nil
}

// end returns an error if there are values after those of the last row: a damaged file may claim fewer rows than it has.
func (c *parquetColumn) end() error {
	if c.reader == nil {
		return nil
	}
	n := len(c.batch)
	if n == 0 {
		var err error
		if n, err = c.reader.ReadValues(c.buffer); n == 0 && !errors.Is(err, io.EOF) {
			return fmt.Errorf("column %s: %w", c.name, cmp.Or(err, io.ErrNoProgress))
		}
	}
	if n > 0 {
		return fmt.Errorf("column %s has more values than its row group has rows", c.name)
	}
	return nil
}

func setParquet(cell *Cell, v parquet.Value) error {
	switch {
	case v.IsNull():
		cell.setNull()
	case v.Kind() == parquet.Int32:
		cell.setInt(int64(v.Int32()))
	case v.Kind() == parquet.Int64:
		cell.setInt(v.Int64())
	case v.Kind() == parquet.Double:
		cell.setFloat(v.Double())
	case v.Kind() == parquet.Float:
		cell.setFloat(float64(v.Float()))
	case v.Kind() == parquet.Boolean:
		cell.setBool(v.Boolean())
	case v.Kind() == parquet.ByteArray:
		cell.setText(v.ByteArray())
	default:
		return fmt.Errorf("it is of type %s", v.Kind())
	}
	return nil
}

func (s *parquetSource) closeColumns() (err error) {
	for i := range s.chosen {
		if c := &s.chosen[i]; c.reader != nil {
			err = errors.Join(err, c.reader.Close())
			c.reader, c.batch = nil, nil
		}
	}
	return err
}

func (s *parquetSource) close() error { return s.closeColumns() }

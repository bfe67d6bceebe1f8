package archive

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"

	"github.com/dustin/go-humanize/english"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"sara/archive/tablefile"
	"sara/translate"
)

// exportedGroup is the number of rows in a row group of an exported file.
const exportedGroup = 100_000

func writeParquet(w io.Writer, records iter.Seq2[Record, error]) error {
	out := parquet.NewGenericWriter[storedRow](w, parquet.Compression(&parquet.Zstd), parquet.CreatedBy("sara", formatVersion, ""),
		parquet.DataPageVersion(1), parquet.MaxRowsPerRowGroup(exportedGroup))
	for r, err := range records {
		if err != nil {
			return err
		}
		_, err = out.Write([]storedRow{{
			Date:        int32(r.Date),
			Dimension:   DimensionName(r.Dimension),
			Key:         r.Key,
			Clicks:      r.Clicks,
			Impressions: r.Impressions,
			Position:    r.Position,
		}})
		if err != nil {
			return err
		}
	}
	return out.Close()
}

// readParquet reads an untrusted file.
func readParquet(in io.ReaderAt, size int64, yield func(FileRecord, error) bool) (err error) {
	// The library panics on some malformed files. A panic of the consumer of the records is passed on.
	yielding := false
	defer func() {
		if p := recover(); p != nil {
			if yielding {
				panic(p)
			}
			err = fmt.Errorf("the Parquet file is damaged: %v", p)
		}
	}()
	file, err := tablefile.OpenParquet(in, size)
	if err != nil {
		return err
	}
	columns, err := findColumns(file.Schema())
	if err != nil {
		return err
	}
	at := Place{IsRow: true}
	return eachRow(file, columns[:], func(values parquet.Row) error {
		at.Number++
		r, err := columns.record(at, values)
		if err != nil {
			return err
		}
		yielding = true
		more := yield(r, nil)
		yielding = false
		if !more {
			return errStopped
		}
		return nil
	})
}

func eachRow(file *parquet.File, columns []int, use func(parquet.Row) error) error {
	pages := tablefile.NewPageCheck(file)
	for i, group := range file.RowGroups() {
		if err := pages.Check(i, columns); err != nil {
			return err
		}
		if err := eachRowOf(group, use); err != nil {
			return err
		}
	}
	return nil
}

func eachRowOf(group parquet.RowGroup, use func(parquet.Row) error) (err error) {
	rows := group.Rows()
	defer func() { err = errors.Join(err, rows.Close()) }()
	batch := make([]parquet.Row, 256)
	for {
		n, err := rows.ReadRows(batch)
		for _, row := range batch[:n] {
			if err := use(row); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case n == 0:
			return io.ErrNoProgress
		}
	}
}

// fileColumns maps the columns of a record to those of a file.
type fileColumns [columnCount]int

// findColumns finds the columns of a record in a file, which must have no others.
func findColumns(schema *parquet.Schema) (fileColumns, error) {
	var c fileColumns
	names := columnNames()
	fields := schema.Fields()
	for _, f := range fields {
		if !slices.Contains(names[:], f.Name()) {
			return c, fmt.Errorf("%.40q is not a column: the columns are %v", f.Name(), names)
		}
		if !f.Leaf() || f.Repeated() {
			return c, fmt.Errorf("column %s is nested or repeated", f.Name())
		}
	}
	for i, name := range names {
		leaf, ok := schema.Lookup(name)
		if !ok {
			return c, fmt.Errorf("column %s is missing", name)
		}
		c[i] = leaf.ColumnIndex
		kind := leaf.Node.Type().Kind()
		isDate := false
		if logical := leaf.Node.Type().LogicalType(); logical != nil {
			_, isDate = logical.Value.(*format.DateType)
		}
		switch {
		case tablefile.IsFraction(leaf.Node.Type()):
			return c, fmt.Errorf("column %s is a decimal with a fraction: make it a double", name)
		case i == 0 && isDate:
		case i <= keyColumn && kind == parquet.ByteArray:
		case i > keyColumn && (kind == parquet.Int32 || kind == parquet.Int64 || kind == parquet.Double || kind == parquet.Float):
		default:
			return c, fmt.Errorf("column %s is of type %s", name, leaf.Node.Type())
		}
	}
	if len(fields) != len(names) {
		return c, fmt.Errorf("the file has %s: they must be %v", english.Plural(len(fields), "column", ""), names)
	}
	return c, nil
}

func (c *fileColumns) record(at Place, values parquet.Row) (FileRecord, error) {
	names := columnNames()
	var columns [columnCount]string
	for i, column := range c {
		if column >= len(values) || values[column].IsNull() {
			return FileRecord{}, recordError(at, names[i], "it is missing")
		}
		columns[i] = c.text(i, values[column])
	}
	return parseRecord(at, columns)
}

// text returns a value in the text form that the other formats have.
func (c *fileColumns) text(column int, v parquet.Value) string {
	switch v.Kind() {
	case parquet.Int32:
		if column == 0 {
			return translate.Date(v.Int32()).String()
		}
		return strconv.FormatInt(int64(v.Int32()), 10)
	case parquet.Int64:
		return strconv.FormatInt(v.Int64(), 10)
	case parquet.Double:
		return strconv.FormatFloat(v.Double(), 'g', -1, 64)
	case parquet.Float:
		return strconv.FormatFloat(float64(v.Float()), 'g', -1, 64)
	}
	return string(v.ByteArray())
}

package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/dustin/go-humanize/english"
	"github.com/parquet-go/parquet-go"

	"sara/translate"
)

// An ObjectError is an object of the bucket that cannot be used: truncated, altered, of another property or month, or of an unknown
// version. It is neither served nor overwritten: an operator must restore it, or set it aside with SetAside.
type ObjectError struct {
	Name   string         // of the object
	Month  translate.Date // its first day
	Reason error
}

func (e *ObjectError) Error() string { return fmt.Sprintf("object %s: %v", e.Name, e.Reason) }
func (e *ObjectError) Unwrap() error { return e.Reason }

// object is a stored month whose checksum has been verified. A dimension is decoded when it is first read. It is
// safe for concurrent use.
type object struct {
	ledger
	name   string
	size   int // memory of the object and its decoded tables, in bytes
	groups [dimensionCount]parquet.RowGroup
	tables [dimensionCount]struct {
		once sync.Once
		*table
		err     error
		decoded atomic.Bool // decoded without an error
	}
}

// openObject verifies data as the month of a property. The object keeps a reference to data.
func openObject(property string, first translate.Date, data []byte) (*object, error) {
	o := &object{name: objectName(property, first), size: len(data)}
	if err := o.open(property, first, data); err != nil {
		return nil, &ObjectError{Name: o.name, Month: first, Reason: err}
	}
	return o, nil
}

func (o *object) open(property string, first translate.Date, data []byte) error {
	// The checksum comes first, so no parser sees altered bytes.
	start, end, ok := findChecksum(data)
	if !ok {
		return errors.New("it has no checksum, so it is not a history object")
	}
	if checksum(data, start, end) != string(data[start:end]) {
		return errors.New("its bytes have changed since they were written: the checksum differs")
	}
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)), parquet.SkipPageIndex(true),
		parquet.SkipBloomFilters(true), parquet.OptimisticRead(true))
	if err != nil {
		return err
	}
	if o.ledger, err = parseLedger(property, first, file.Lookup); err != nil {
		return err
	}
	return o.openGroups(file)
}

func (o *object) openGroups(file *parquet.File) error {
	for _, group := range file.RowGroups() {
		columns := group.ColumnChunks()
		if len(columns) != columnCount {
			return fmt.Errorf("it has %s", english.Plural(len(columns), "column", ""))
		}
		chunk, ok := columns[dimensionColumn].(*parquet.FileColumnChunk)
		if !ok {
			return errors.New("BUG: the column of a file has an unexpected type")
		}
		low, high, ok := chunk.Bounds()
		by, known := parseDimension(string(low.ByteArray()))
		if !ok || !known || !parquet.Equal(low, high) {
			return fmt.Errorf("a row group holds %q to %q", low, high)
		}
		o.groups[by] = group
		o.size += groupOverhead + int(group.NumRows())*(int(unsafe.Sizeof(tableRow{}))+usualKeySize)
	}
	return nil
}

// usualKeySize estimates the size of the distinct keys, with their sums, for each row.
const usualKeySize = 24

// errPanicked is the error of a dimension whose decoding once panicked.
var errPanicked = errors.New("BUG: decoding it panicked")

// table decodes a dimension on first use and memoizes it.
func (o *object) table(by translate.Dimension) (*table, error) {
	t := &o.tables[by]
	t.once.Do(func() {
		t.err = o.damaged(by, errPanicked) // for later callers if decoding panics
		t.table, _, t.err = o.decode(by)
		t.err = o.damaged(by, t.err)
		t.decoded.Store(t.err == nil)
	})
	return t.table, t.err
}

// decodeFor decodes the dimensions that a range of days is read from.
func (o *object) decodeFor(by translate.Dimension, r translate.DateRange) error {
	for source, used := range o.sources(by, r) {
		if !used {
			continue
		}
		if _, err := o.table(translate.Dimension(source)); err != nil {
			return err
		}
	}
	return nil
}

// isDecodedFor reports whether decodeFor has succeeded.
func (o *object) isDecodedFor(by translate.Dimension, r translate.DateRange) bool {
	for source, used := range o.sources(by, r) {
		if used && !o.tables[source].decoded.Load() {
			return false
		}
	}
	return true
}

// damaged returns the error of a dimension that cannot be decoded; nil if err is nil.
func (o *object) damaged(by translate.Dimension, err error) error {
	if err == nil {
		return nil
	}
	return &ObjectError{Name: o.name, Month: o.month, Reason: fmt.Errorf("%s: %w", DimensionName(by), err)}
}

// decode returns the rows of a dimension, and their positions.
func (o *object) decode(by translate.Dimension) (*table, []float64, error) {
	group := o.groups[by]
	if group == nil {
		return new(table), nil, nil
	}
	t := &table{rows: make([]tableRow, group.NumRows())}
	positions := make([]float64, len(t.rows))
	columns := group.ColumnChunks()
	buffer := make([]parquet.Value, 256)
	column := func(number int, set func(i int, v parquet.Value)) error {
		n := 0
		err := eachValue(columns[number], buffer, func(v parquet.Value) {
			if n < len(t.rows) {
				set(n, v)
			}
			n++
		})
		return errors.Join(err, t.checkLength(n))
	}
	keys := 0
	err := eachPage(columns[keyColumn], func(page parquet.Page) (err error) {
		keys, err = t.addKeys(keys, page)
		return err
	})
	err = errors.Join(err, t.checkLength(keys),
		column(dateColumn, func(i int, v parquet.Value) { t.rows[i].day = o.dayOf(v.Int32()) }),
		column(clicksColumn, func(i int, v parquet.Value) { t.rows[i].clicks = v.Int64() }),
		column(impressionsColumn, func(i int, v parquet.Value) { t.rows[i].impressions = v.Int64() }),
		column(positionColumn, func(i int, v parquet.Value) { positions[i] = v.Double() }),
	)
	if err == nil {
		err = o.check(by, t)
	}
	if err != nil {
		return nil, nil, err
	}
	t.complete(positions)
	return t, positions, nil
}

// dayOf returns the day of the month, from 0, or a day that exists in no month.
func (o *object) dayOf(date int32) uint8 {
	if n := int64(date) - int64(o.month); n >= 0 && n < longestMonth {
		return uint8(n)
	}
	return math.MaxUint8
}

// check refuses rows whose day is not archived, or whose key does not exist.
func (o *object) check(by translate.Dimension, t *table) error {
	for i := range t.rows {
		switch r := &t.rows[i]; {
		case r.day >= longestMonth || o.states[by][r.day] == absent:
			return fmt.Errorf("it has rows of day %d, which is not archived", int(r.day)+1)
		case r.key < 0 || int(r.key) >= len(t.keys):
			return fmt.Errorf("a row refers to key %d of %d", r.key, len(t.keys))
		}
	}
	return nil
}

// eachValue calls add with every value of a column. A value is valid only during the call. The buffer sets how many are read at once.
func eachValue(column parquet.ColumnChunk, buffer []parquet.Value, add func(parquet.Value)) error {
	return eachPage(column, func(page parquet.Page) error {
		reader := page.Values()
		for {
			n, err := reader.ReadValues(buffer)
			for _, v := range buffer[:n] {
				add(v)
			}
			if err != nil {
				return endIsNil(err)
			}
		}
	})
}

// eachPage calls use with every page of a column. A page is valid only during the call.
func eachPage(column parquet.ColumnChunk, use func(parquet.Page) error) (err error) {
	pages := column.Pages()
	defer func() { err = errors.Join(err, pages.Close()) }()
	for {
		page, err := pages.ReadPage()
		if err != nil {
			return endIsNil(err)
		}
		err = use(page)
		parquet.Release(page)
		if err != nil {
			return err
		}
	}
}

// unpack decodes the whole month into a mutable form.
func (o *object) unpack() (*month, error) {
	m := &month{ledger: o.ledger}
	for _, by := range Dimensions() {
		t, positions, err := o.decode(by)
		if err != nil {
			return nil, o.damaged(by, err)
		}
		for i := range t.rows {
			r := &t.rows[i]
			m.rows[by][r.day] = append(m.rows[by][r.day], row{key: t.keys[r.key], clicks: r.clicks, impressions: r.impressions, position: positions[i]})
		}
	}
	return m, nil
}

func endIsNil(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

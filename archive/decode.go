package archive

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/parquet-go/parquet-go"

	"sara/translate"
)

// ObjectError tells that an object of the bucket cannot be used: it is torn, altered, of another property or month, or of
// an unknown version. It is neither served nor written over: someone has to restore or remove it.
type ObjectError struct {
	Name   string // of the object
	Reason error
}

func (e *ObjectError) Error() string { return fmt.Sprintf("object %s: %v", e.Name, e.Reason) }
func (e *ObjectError) Unwrap() error { return e.Reason }

// object is a month as it lies in the bucket, checked. Its dimensions are decoded when they are asked for. It may be used
// by many goroutines.
type object struct {
	ledger
	name   string
	size   int // of the object and of what it decodes to, in bytes of memory
	groups [dimensionCount]parquet.RowGroup
	tables [dimensionCount]struct {
		once sync.Once
		*table
		err error
	}
}

// table is the rows of one dimension of a month by columns, sorted by day, clicks descending, and key.
type table struct {
	keys        [][]byte // distinct
	day         []uint8  // of the month, from 0
	key         []int32  // which of the keys
	clicks      []int64
	impressions []int64
	position    []float64
}

const tableRowSize = 1 + 4 + 8 + 8 + 8

// openObject checks data and returns the month that it should be. The object keeps data.
func openObject(property string, first translate.Date, data []byte) (*object, error) {
	o := &object{name: objectName(property, first), size: len(data)}
	if err := o.open(property, first, data); err != nil {
		return nil, &ObjectError{Name: o.name, Reason: err}
	}
	return o, nil
}

func (o *object) open(property string, first translate.Date, data []byte) error {
	// Nothing else looks at the bytes before the checksum says that they are what was written.
	start, end, ok := findChecksum(data)
	if !ok {
		return errors.New("it lacks the mark of a history object")
	}
	if checksum(data, start, end) != string(data[start:end]) {
		return errors.New("its bytes are not those that were written: the checksum differs")
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
		if len(columns) != storedColumns {
			return fmt.Errorf("it has %d columns", len(columns))
		}
		chunk, ok := columns[dimensionColumn].(*parquet.FileColumnChunk)
		if !ok {
			return errors.New("BUG: a column of a file is no column of a file")
		}
		low, high, ok := chunk.Bounds()
		by, known := parseDimension(string(low.ByteArray()))
		if !ok || !known || !parquet.Equal(low, high) {
			return fmt.Errorf("a row group holds %q to %q", low, high)
		}
		o.groups[by] = group
		o.size += int(group.NumRows()) * (tableRowSize + usualKeySize)
	}
	return nil
}

// usualKeySize is what a row's share in the distinct keys comes to, roughly.
const usualKeySize = 16

// The columns of a stored file, in the order of storedRow.
const (
	dateColumn = iota
	dimensionColumn
	keyColumn
	clicksColumn
	impressionsColumn
	positionColumn
	storedColumns
)

// table decodes a dimension once.
func (o *object) table(by translate.Dimension) (*table, error) {
	t := &o.tables[by]
	t.once.Do(func() {
		t.table, t.err = o.decode(by)
		if t.err != nil {
			t.err = &ObjectError{Name: o.name, Reason: fmt.Errorf("%s: %w", dimensionName(by), t.err)}
		}
	})
	return t.table, t.err
}

func (o *object) decode(by translate.Dimension) (*table, error) {
	group := o.groups[by]
	if group == nil {
		return &table{}, nil
	}
	n := int(group.NumRows())
	t := &table{
		day:         make([]uint8, 0, n),
		key:         make([]int32, 0, n),
		clicks:      make([]int64, 0, n),
		impressions: make([]int64, 0, n),
		position:    make([]float64, 0, n),
	}
	columns := group.ColumnChunks()
	buffer := make([]parquet.Value, 256)
	err := errors.Join(
		eachValue(columns[dateColumn], buffer, func(v parquet.Value) { t.day = append(t.day, o.dayOf(v.Int32())) }),
		eachPage(columns[keyColumn], t.addKeys),
		eachValue(columns[clicksColumn], buffer, func(v parquet.Value) { t.clicks = append(t.clicks, v.Int64()) }),
		eachValue(columns[impressionsColumn], buffer, func(v parquet.Value) { t.impressions = append(t.impressions, v.Int64()) }),
		eachValue(columns[positionColumn], buffer, func(v parquet.Value) { t.position = append(t.position, v.Double()) }),
	)
	if err != nil {
		return nil, err
	}
	return t, o.check(by, t, n)
}

// dayOf returns the day of the month, from 0, or a day that no month has.
func (o *object) dayOf(date int32) uint8 {
	if n := int64(date) - int64(o.month); n >= 0 && n < longestMonth {
		return uint8(n)
	}
	return math.MaxUint8
}

// check makes sure that the rows are whole and of days that are archived.
func (o *object) check(by translate.Dimension, t *table, n int) error {
	if len(t.day) != n || len(t.key) != n || len(t.clicks) != n || len(t.impressions) != n || len(t.position) != n {
		return errors.New("its columns differ in length")
	}
	for _, day := range t.day {
		if day >= longestMonth || o.states[by][day] == absent {
			return fmt.Errorf("there are rows of day %d, which is not archived", int(day)+1)
		}
	}
	for _, key := range t.key {
		if key < 0 || int(key) >= len(t.keys) {
			return fmt.Errorf("a row has key %d of %d", key, len(t.keys))
		}
	}
	return nil
}

// addKeys takes the distinct keys from the column's dictionary, so that no key is ever looked up.
func (t *table) addKeys(page parquet.Page) error {
	dictionary := page.Dictionary()
	if dictionary == nil {
		return errors.New("its keys have no dictionary")
	}
	if t.keys == nil {
		t.keys = make([][]byte, dictionary.Len())
		for i := range t.keys {
			t.keys[i] = bytes.Clone(dictionary.Index(int32(i)).ByteArray())
		}
	}
	indexes := page.Data()
	t.key = append(t.key, indexes.Int32()...)
	return nil
}

// eachValue calls add with every value of a column, which is valid during the call. It reads as many values at a time as
// the buffer holds.
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

// eachPage calls use with every page of a column, which is valid during the call.
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

// unpack returns all that is archived, ready to be changed.
func (o *object) unpack() (*month, error) {
	m := &month{ledger: o.ledger}
	for _, by := range Dimensions() {
		t, err := o.table(by)
		if err != nil {
			return nil, err
		}
		for i, day := range t.day {
			m.rows[by][day] = append(m.rows[by][day], row{
				key:         t.keys[t.key[i]],
				clicks:      t.clicks[i],
				impressions: t.impressions[i],
				position:    t.position[i],
			})
		}
	}
	return m, nil
}

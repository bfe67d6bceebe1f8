package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"

	"github.com/parquet-go/parquet-go"

	"sara/translate"
)

// An ObjectError is an object of the bucket that cannot be used: torn, altered, of another property or month, or of an unknown
// version. It is neither served nor overwritten: an operator must restore it, or set it aside with SetAside.
type ObjectError struct {
	Name   string         // of the object
	Month  translate.Date // its first day
	Reason error
}

func (e *ObjectError) Error() string { return fmt.Sprintf("object %s: %v", e.Name, e.Reason) }
func (e *ObjectError) Unwrap() error { return e.Reason }

// object is a month as it is stored, after its checksum has been verified. A dimension is decoded when it is first read. It is
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
		decoded atomic.Bool // without an error
	}
}

// table holds the rows of one dimension of a month in columns, sorted by day, clicks descending, and key.
type table struct {
	keys        [][]byte // distinct
	day         []uint8  // of the month, from 0
	key         []int32  // index into keys
	clicks      []int64
	impressions []int64
	position    []float64
	weighted    []float64 // positions as translate.Weighted returns them, for sums
	sums        []keySum  // of all days together, by the first row of their key

	numbering atomic.Pointer[numbering] // by the latest names that the table was read with; nil: none
}

// A keySum is the sum of the rows of a key.
type keySum struct {
	key int32 // index into keys
	sum translate.Sum
}

const tableRowSize = 1 + 4 + 8 + 8 + 8 + 8

// openObject verifies data as the month of a property. The object keeps a reference to data.
func openObject(property string, first translate.Date, data []byte) (*object, error) {
	o := &object{name: objectName(property, first), size: len(data)}
	if err := o.open(property, first, data); err != nil {
		return nil, &ObjectError{Name: o.name, Month: first, Reason: err}
	}
	return o, nil
}

func (o *object) open(property string, first translate.Date, data []byte) error {
	// The checksum comes first, so that no parser sees altered bytes.
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
			return fmt.Errorf("it has %d columns", len(columns))
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
		o.size += int(group.NumRows()) * (tableRowSize + usualKeySize)
	}
	return nil
}

// usualKeySize estimates the size of the distinct keys, with their sums, for each row.
const usualKeySize = 24

// table decodes a dimension on first use and memoizes it.
func (o *object) table(by translate.Dimension) (*table, error) {
	t := &o.tables[by]
	t.once.Do(func() {
		t.table, t.err = o.decode(by)
		if t.err != nil {
			t.err = &ObjectError{Name: o.name, Month: o.month, Reason: fmt.Errorf("%s: %w", DimensionName(by), t.err)}
		}
		t.decoded.Store(t.err == nil)
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
	if err := o.check(by, t, n); err != nil {
		return nil, err
	}
	t.weighted = make([]float64, n)
	for i := range t.weighted {
		t.weighted[i] = translate.Weighted(t.position[i], t.impressions[i])
	}
	t.addUp()
	return t, nil
}

// addUp sets the sums, since most months of a long range are in it as a whole.
func (t *table) addUp() {
	t.sums = make([]keySum, 0, len(t.keys))
	found := make([]int32, len(t.keys)) // the number of each key's sum, plus one; 0: none yet
	for i, key := range t.key {
		if found[key] == 0 {
			t.sums = append(t.sums, keySum{key: key})
			found[key] = int32(len(t.sums))
		}
		t.sums[found[key]-1].sum.AddWeighted(t.clicks[i], t.impressions[i], t.weighted[i])
	}
}

// dayOf returns the day of the month, from 0, or a day that does not exist in any month.
func (o *object) dayOf(date int32) uint8 {
	if n := int64(date) - int64(o.month); n >= 0 && n < longestMonth {
		return uint8(n)
	}
	return math.MaxUint8
}

// check refuses incomplete rows, and rows of days that are not archived.
func (o *object) check(by translate.Dimension, t *table, n int) error {
	if len(t.day) != n || len(t.key) != n || len(t.clicks) != n || len(t.impressions) != n || len(t.position) != n {
		return errors.New("its columns have different lengths")
	}
	for _, day := range t.day {
		if day >= longestMonth || o.states[by][day] == absent {
			return fmt.Errorf("it has rows of day %d, which is not archived", int(day)+1)
		}
	}
	for _, key := range t.key {
		if key < 0 || int(key) >= len(t.keys) {
			return fmt.Errorf("a row refers to key %d of %d", key, len(t.keys))
		}
	}
	return nil
}

// addKeys takes the distinct keys from the dictionary of the column, so that rows need no lookup by key.
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

// eachValue calls add with every value of a column. A value is valid during the call. The buffer sets how many are read at once.
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

// eachPage calls use with every page of a column. A page is valid during the call.
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

// unpack returns the whole month in a form that can be changed.
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

func endIsNil(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

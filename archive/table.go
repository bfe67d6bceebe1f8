package archive

import (
	"bytes"
	"errors"
	"sync/atomic"

	"github.com/parquet-go/parquet-go"

	"sara/translate"
)

// table holds the rows of one dimension of a month, sorted by day, clicks descending, and key.
type table struct {
	keys   [][]byte // distinct
	rows   []tableRow
	starts [longestMonth + 1]int32 // the first row of each day, or of a later one
	sums   []keySum                // over all days, ordered by the first row of their key

	numbering atomic.Pointer[numbering] // by the names of the latest read; nil: none
}

// A tableRow is a row in the form that reads add up.
type tableRow struct {
	clicks, impressions int64
	weighted            float64 // the position, as translate.Weighted returns it
	key                 int32   // index into keys
	day                 uint8   // of the month, from 0
}

func (r *tableRow) metrics() translate.Metrics {
	var sum translate.Sum
	sum.AddWeighted(r.clicks, r.impressions, r.weighted)
	return sum.Metrics()
}

// totalOf returns the sum of all rows.
func totalOf(rows []tableRow) translate.Metrics {
	var sum translate.Sum
	for i := range rows {
		sum.AddWeighted(rows[i].clicks, rows[i].impressions, rows[i].weighted)
	}
	return sum.Metrics()
}

// A keySum is the sum of the rows of a key.
type keySum struct {
	key int32 // index into keys
	sum translate.Sum
}

// addKeys stores the keys of a page for the rows from the given one on, and returns the row after them. The distinct keys are those of the
// column's dictionary, so rows need no lookup by key.
func (t *table) addKeys(from int, page parquet.Page) (next int, err error) {
	dictionary := page.Dictionary()
	if dictionary == nil {
		return from, errors.New("its keys have no dictionary")
	}
	if t.keys == nil {
		t.keys = make([][]byte, dictionary.Len())
		for i := range t.keys {
			t.keys[i] = bytes.Clone(dictionary.Index(int32(i)).ByteArray())
		}
	}
	data := page.Data()
	indexes := data.Int32()
	for i, key := range indexes {
		if from+i < len(t.rows) {
			t.rows[from+i].key = key
		}
	}
	return from + len(indexes), nil
}

// checkLength refuses a column that does not have one value per row.
func (t *table) checkLength(n int) error {
	if n != len(t.rows) {
		return errors.New("its columns have different lengths")
	}
	return nil
}

// complete computes what follows from the rows and their positions. It sums all days, since a long range includes most months as a whole.
func (t *table) complete(positions []float64) {
	t.sums = make([]keySum, 0, len(t.keys))
	found := make([]int32, len(t.keys)) // the number of each key's sum, plus one; 0: none yet
	for i := range t.rows {
		r := &t.rows[i]
		r.weighted = translate.Weighted(positions[i], r.impressions)
		if found[r.key] == 0 {
			t.sums = append(t.sums, keySum{key: r.key})
			found[r.key] = int32(len(t.sums))
		}
		t.sums[found[r.key]-1].sum.AddWeighted(r.clicks, r.impressions, r.weighted)
		t.starts[r.day+1]++
	}
	for day := range longestMonth {
		t.starts[day+1] += t.starts[day]
	}
}

// span returns the rows of the days from first up to last.
func (t *table) span(first, last int) []tableRow { return t.rows[t.starts[first]:t.starts[last]] }

// hasFullDay reports whether a day from first up to last has TopRows rows.
func (t *table) hasFullDay(first, last int) bool {
	for day := first; day < last; day++ {
		if t.starts[day+1]-t.starts[day] >= TopRows {
			return true
		}
	}
	return false
}

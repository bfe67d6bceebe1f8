package archive

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"

	"sara/translate"
)

// Rows answers for a property what the upstream would for the dimension and range: one row for each key, with clicks and
// impressions added up and the position weighted by impressions, by clicks descending and key ascending; for ByDate, one
// row for each day that has traffic, keyed by its date, in order. It also returns the days of the range that are not
// archived, in order. The rows belong to the caller.
func (h *History) Rows(ctx context.Context, property string, by translate.Dimension, r translate.DateRange) (
	*translate.Rows, []translate.Date, error) {
	days := make([]bool, max(r.Days(), 0)) // which are archived
	t := newTally()
	decoded := func(ctx context.Context, property string, m monthObject) (*object, error) {
		o, err := h.load(ctx, property, m)
		if err == nil && o != nil {
			_, err = o.table(by) // by several months at a time
		}
		return o, err
	}
	err := each(ctx, h, property, r, decoded, func(o *object) error {
		rows, err := o.table(by)
		if err != nil {
			return err
		}
		first, last := o.overlap(r)
		for day := first; day < last; day++ {
			days[int(o.month-r.Start)+day] = o.states[by][day] != absent
		}
		if by == translate.ByDate {
			rows = rows.byDate(o.month)
		}
		t.add(rows, first, last)
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read %s of property %.80q from %s to %s: %w", dimensionName(by), property, r.Start, r.End, err)
	}
	var missing []translate.Date
	for i, archived := range days {
		if !archived {
			missing = append(missing, r.Start+translate.Date(i))
		}
	}
	return t.rows(by), missing, nil
}

// overlap returns the days of the month, from 0, that lie in r: from first up to but not including last.
func (l *ledger) overlap(r translate.DateRange) (first, last int) {
	first = int(max(r.Start, l.month) - l.month)
	last = min(int(r.End-l.month)+1, l.days())
	return first, last
}

// byDate returns a table of totals with dates for keys.
func (t *table) byDate(month translate.Date) *table {
	dated := *t
	dated.keys = make([][]byte, len(t.day))
	dated.key = make([]int32, len(t.day))
	for i, day := range t.day {
		dated.keys[i] = (month + translate.Date(day)).Append(nil)
		dated.key[i] = int32(i)
	}
	return &dated
}

// tally adds up rows by key over many months.
type tally struct {
	index map[string]int32
	sums  []sum
	bytes int // of all keys
}

type sum struct {
	key                 []byte
	clicks, impressions int64
	positions           float64 // weighted by impressions
}

// usualKeys is how many keys there are over some months, roughly.
const usualKeys = 2000

func newTally() *tally { return &tally{index: make(map[string]int32, usualKeys)} }

// add adds the rows of the days from first up to last. Every distinct key of a table is looked up once.
func (t *tally) add(rows *table, first, last int) {
	start := sort.Search(len(rows.day), func(i int) bool { return int(rows.day[i]) >= first })
	end := sort.Search(len(rows.day), func(i int) bool { return int(rows.day[i]) >= last })
	places := make([]int32, len(rows.keys)) // in sums, plus one
	for i := start; i < end; i++ {
		place := &places[rows.key[i]]
		if *place == 0 {
			*place = t.place(rows.keys[rows.key[i]]) + 1
		}
		s := &t.sums[*place-1]
		s.clicks += rows.clicks[i]
		s.impressions += rows.impressions[i]
		s.positions += rows.position[i] * float64(rows.impressions[i])
	}
}

func (t *tally) place(key []byte) int32 {
	if i, ok := t.index[string(key)]; ok {
		return i
	}
	i := int32(len(t.sums))
	t.index[string(key)] = i
	t.sums = append(t.sums, sum{key: key})
	t.bytes += len(key)
	return i
}

func (t *tally) rows(by translate.Dimension) *translate.Rows {
	slices.SortFunc(t.sums, func(a, b sum) int {
		if by == translate.ByDate {
			return bytes.Compare(a.key, b.key)
		}
		return cmp.Or(cmp.Compare(b.clicks, a.clicks), bytes.Compare(a.key, b.key))
	})
	var b translate.RowsBuilder
	b.Grow(len(t.sums), t.bytes)
	for _, s := range t.sums {
		m := translate.Metrics{Clicks: s.clicks, Impressions: s.impressions}
		if s.impressions > 0 {
			m.CTR = float64(s.clicks) / float64(s.impressions)
			m.Position = s.positions / float64(s.impressions)
		}
		b.Add(s.key, m)
	}
	return b.Rows()
}

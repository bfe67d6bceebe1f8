package translate

import (
	"fmt"
	"math"
	"slices"
)

// Metrics are the figures of a row. CTR is a fraction. Position counts from 1, and is 0 without impressions.
type Metrics struct {
	Clicks, Impressions int64
	CTR, Position       float64
}

// Rows are the rows of one upstream result, each with one key, in the upstream's order.
type Rows struct {
	keys    keys
	metrics []Metrics
	beyond  int // rows that follow and are not here, see Decoder and Sums.Rows: those that are here are ranked
	traits  traits
	ordered bool     // they are known to be in the upstream's order, with ties by key
	ranking *Ranking // see Ranked; nil: none
}

// traits are what the upstream says about all rows of a result.
type traits struct {
	byPage     bool // it counted by page, as for every page or filter of pages (responseAggregationType)
	incomplete Date // the first day of which it does not have all figures yet (metadata.firstIncompleteDate); 0: none
}

// add adds those of other rows.
func (t *traits) add(other traits) {
	t.byPage = t.byPage || other.byPage
	if t.incomplete == 0 || other.incomplete != 0 && other.incomplete < t.incomplete {
		t.incomplete = other.incomplete
	}
}

// Len returns the number of rows.
func (r *Rows) Len() int { return len(r.metrics) + r.beyond }

// has returns the number of rows that are here: the first ones.
func (r *Rows) has() int { return len(r.metrics) }

// HasFirst reports whether a number of the first rows are here, or all; 0 asks for all.
func (r *Rows) HasFirst(first int) bool { return r.beyond == 0 || 0 < first && first <= r.has() }

// HasMoreThan reports whether more of the first rows are here than of other, which has the same rows.
func (r *Rows) HasMoreThan(other *Rows) bool { return r.has() > other.has() }

// Key returns the key of row i. The bytes belong to r.
func (r *Rows) Key(i int) []byte { return r.keys.at(i) }

// Metrics returns the figures of row i.
func (r *Rows) Metrics(i int) Metrics { return r.metrics[i] }

// head returns the first n rows, or r if no more are here. They share memory.
func (r *Rows) head(n int) *Rows {
	if r.has() <= n {
		return r
	}
	return &Rows{keys: keys{chunks: r.keys.chunks, ends: r.keys.ends[:n]}, metrics: r.metrics[:n], traits: r.traits, ordered: r.ordered}
}

// A RowsBuilder builds Rows from other sources than an upstream body. The zero value is ready to use.
type RowsBuilder struct {
	rows Rows
}

// Grow makes room for n more rows with size bytes of keys.
func (b *RowsBuilder) Grow(n, size int) {
	b.rows.keys.grow(n, size)
	b.rows.metrics = slices.Grow(b.rows.metrics, n)
}

// Add appends a row, with a copy of its key. Rows must be added in the upstream's order: by clicks descending and key
// ascending, or by key ascending if it is a date.
func (b *RowsBuilder) Add(key []byte, m Metrics) {
	b.rows.keys.add(key)
	b.rows.metrics = append(b.rows.metrics, m)
}

// Rows returns the added rows, and resets the builder.
func (b *RowsBuilder) Rows() *Rows {
	rows := b.rows
	b.rows = Rows{}
	return &rows
}

// A Sum adds up rows. Its position is the impression-weighted average, because the average position of a row does not say
// how many impressions it stands for. The upstream's positions are a whole number divided by the impressions; these numbers are
// added, which is exact, so the sum has the position that the upstream itself returns for all rows together. The zero Sum is
// empty.
type Sum struct {
	Clicks, Impressions int64
	positions           float64 // each times its impressions
}

// Add adds the figures of a row.
func (s *Sum) Add(clicks, impressions int64, position float64) {
	s.AddWeighted(clicks, impressions, Weighted(position, impressions))
}

// AddSum adds the rows of another Sum.
func (s *Sum) AddSum(other Sum) { s.AddWeighted(other.Clicks, other.Impressions, other.positions) }

// AddWeighted adds the figures of a row whose position is given as Weighted returns it.
func (s *Sum) AddWeighted(clicks, impressions int64, weighted float64) {
	s.Clicks += clicks
	s.Impressions += impressions
	s.positions += weighted
}

// Weighted returns a position times its impressions: the whole number that the upstream divided by them, if there is one.
func Weighted(position float64, impressions int64) float64 {
	weighted := position * float64(impressions)
	if whole := math.Round(weighted); whole/float64(impressions) == position {
		weighted = whole
	}
	return weighted
}

// Metrics returns the figures of all added rows together.
func (s *Sum) Metrics() Metrics {
	m := Metrics{Clicks: s.Clicks, Impressions: s.Impressions}
	if s.Impressions > 0 {
		m.CTR = float64(s.Clicks) / float64(s.Impressions)
		m.Position = s.positions / float64(s.Impressions)
	}
	return m
}

// plus returns the sum of both, see Sum.
func (m Metrics) plus(other Metrics) Metrics {
	var sum Sum
	sum.Add(m.Clicks, m.Impressions, m.Position)
	sum.Add(other.Clicks, other.Impressions, other.Position)
	return sum.Metrics()
}

// Total returns the sum of the rows that are here, see Sum.
func (r *Rows) Total() Metrics {
	var sum Sum
	for i := range r.metrics {
		m := &r.metrics[i]
		sum.Add(m.Clicks, m.Impressions, m.Position)
	}
	return sum.Metrics()
}

// A Series has the figures of every day of a range.
type Series struct {
	first Date
	days  []Metrics
}

// SeriesOf returns the series over r of the result of a SeriesQuery. Days without data, which the upstream omits or sends as
// zeros, have zeros. A row that is not a day of r, or a duplicate, is an error.
func SeriesOf(rows *Rows, r DateRange) (*Series, error) {
	s := &Series{first: r.Start, days: make([]Metrics, r.Days())}
	seen := make([]bool, len(s.days))
	for i := range rows.Len() {
		day, err := ParseDate(string(rows.Key(i)))
		if err != nil || day < r.Start || day > r.End {
			return nil, fmt.Errorf("upstream row %d: %q is not a day from %s to %s", i, rows.Key(i), r.Start, r.End)
		}
		n := int(day - r.Start)
		if seen[n] {
			return nil, fmt.Errorf("upstream row %d: %s is there twice", i, day)
		}
		seen[n], s.days[n] = true, rows.Metrics(i)
	}
	return s, nil
}

// Totals returns the figures of all days of the ranges together, see Sum. They lie within the range of the series.
func (s *Series) Totals(ranges ...DateRange) Metrics {
	var total Sum
	for _, r := range ranges {
		for _, day := range s.days[r.Start-s.first : r.End-s.first+1] {
			total.Add(day.Clicks, day.Impressions, day.Position)
		}
	}
	return total.Metrics()
}

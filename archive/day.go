package archive

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"sara/translate"
)

// TopRows is how many queries, and how many pages, the archive keeps for a day: those with the most clicks (spec: Limits 8).
const TopRows = 100

// keepsTop reports whether only the top rows of a dimension are kept.
func keepsTop(by translate.Dimension) bool { return by == translate.ByQuery || by == translate.ByPage }

// LongestKey bounds a key, in bytes. Real queries and URLs are far shorter.
const LongestKey = 16 << 10

// Dimensions returns the dimensions that the archive keeps for every day, in the order of their stored names. ByDate is the
// day's total.
func Dimensions() [5]translate.Dimension {
	return [...]translate.Dimension{translate.ByCountry, translate.ByDevice, translate.ByPage, translate.ByQuery, translate.ByDate}
}

const dimensionCount = 5

// DimensionName returns the name of a dimension in stored and exported rows.
func DimensionName(by translate.Dimension) string {
	if by == translate.ByDate {
		return "total"
	}
	return by.String()
}

func parseDimension(name string) (translate.Dimension, bool) {
	for _, by := range Dimensions() {
		if DimensionName(by) == name {
			return by, true
		}
	}
	return 0, false
}

// A Day holds the figures of one day under one dimension.
type Day struct {
	Date      translate.Date
	Dimension translate.Dimension
	// Rows may be in any order; their keys are distinct. Nil or empty is a day without traffic, which is archived too.
	// ByDate takes at most one row, whose key is ignored. Rows below the top 100 queries or pages are dropped, and so are rows
	// with neither clicks nor impressions.
	Rows *translate.Rows
	// Final means that the upstream no longer changes these figures.
	Final bool
}

// row is one archived row. Its CTR is derived.
type row struct {
	key                 []byte
	clicks, impressions int64
	position            float64
}

func compareRows(a, b row) int {
	return cmp.Or(cmp.Compare(b.clicks, a.clicks), bytes.Compare(a.key, b.key))
}

// rank checks rows, sorts them, and truncates them to what the archive keeps. It works in place.
func rank(by translate.Dimension, rows []row) ([]row, error) {
	for i := range rows {
		if err := rows[i].check(by); err != nil {
			return nil, fmt.Errorf("key %.80q: %w", rows[i].key, err)
		}
		rows[i].position += 0 // turns -0 into 0, for deterministic bytes
	}
	slices.SortFunc(rows, func(a, b row) int { return bytes.Compare(a.key, b.key) })
	for i := 1; i < len(rows); i++ {
		if bytes.Equal(rows[i-1].key, rows[i].key) {
			return nil, fmt.Errorf("key %.80q is given twice", rows[i].key)
		}
	}
	rows = slices.DeleteFunc(rows, func(r row) bool { return r.clicks == 0 && r.impressions == 0 })
	slices.SortFunc(rows, compareRows)
	if keepsTop(by) {
		rows = rows[:min(len(rows), TopRows)]
	}
	return rows, nil
}

func (r *row) check(by translate.Dimension) error {
	const largest = 1 << 53
	switch {
	case r.clicks < 0 || r.clicks > largest || r.impressions < 0 || r.impressions > largest:
		return fmt.Errorf("clicks %d, impressions %d: both must be 0 to 2^53", r.clicks, r.impressions)
	case !(r.position >= 0 && r.position <= math.MaxInt32):
		return fmt.Errorf("position %v is out of range", r.position)
	case by == translate.ByDate && len(r.key) > 0:
		return errors.New("a total has no key")
	case by != translate.ByDate && len(r.key) == 0:
		return fmt.Errorf("a %s needs a key", DimensionName(by))
	case len(r.key) > LongestKey || !utf8.Valid(r.key):
		return fmt.Errorf("it must be UTF-8 of at most %d bytes", LongestKey)
	}
	return nil
}

// ranked returns the rows of the day that the archive keeps.
func (d Day) ranked() ([]row, error) {
	var rows []row
	if d.Rows != nil {
		rows = make([]row, d.Rows.Len())
	}
	for i := range rows {
		m := d.Rows.Metrics(i)
		rows[i] = row{key: d.Rows.Key(i), clicks: m.Clicks, impressions: m.Impressions, position: m.Position}
		if d.Dimension == translate.ByDate {
			rows[i].key = nil
		}
	}
	rows, err := rank(d.Dimension, rows)
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", DimensionName(d.Dimension), d.Date, err)
	}
	return rows, nil
}

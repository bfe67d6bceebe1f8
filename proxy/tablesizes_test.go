package proxy

import (
	"testing"

	"sara/translate"
)

func TestTableSizesEstimateOtherRanges(t *testing.T) {
	t.Parallel()
	query := func(days, limit int) translate.Query {
		return translate.Query{Dimension: translate.ByPage, Range: translate.DateRange{Start: 1, End: translate.Date(days)}, RowLimit: limit}
	}
	for _, c := range []struct {
		name              string
		days, limit, rows int // learned; 0 days for nothing
		asked             int // days
		enlarged          bool
	}{
		{"of nothing that is known", 0, 0, 0, 28, true},
		{"a small table over fewer days", 28, translate.EnlargedSample, 4000, 7, true},
		{"a small table over more days", 28, translate.EnlargedSample, 1200, 90, true},
		{"a table that may grow too large", 28, translate.EnlargedSample, 4000, 90, false},
		{"a complete narrow sample", 28, translate.NarrowSample, 10, 90, true},
		{"a full narrow sample tells nothing", 28, translate.NarrowSample, translate.NarrowSample, 28, true},
		{"a large table", 28, translate.EnlargedSample, translate.EnlargedSample, 28, false},
		{"a large table over more days", 28, translate.WideSample, translate.WideSample, 90, false},
		{"a large table over more than half of the days", 28, translate.WideSample, translate.WideSample, 15, false},
		{"a large table over few days", 28, translate.WideSample, translate.WideSample, 14, true},
		{"a wide sample that shows a large table", 28, translate.WideSample, 20_000, 28, false},
	} {
		sizes := newTableSizes()
		if c.days > 0 {
			sizes.learn("p", query(c.days, c.limit), c.rows)
		}
		if got := sizes.enlarged("p", query(c.asked, translate.NarrowSample)).RowLimit == translate.EnlargedSample; got != c.enlarged {
			t.Errorf("%s: the sample is enlarged: %t", c.name, got)
		}
		if got := sizes.enlarged("other", query(c.asked, translate.NarrowSample)); got.RowLimit != translate.EnlargedSample {
			t.Errorf("%s: it concerns another property", c.name)
		}
	}
}

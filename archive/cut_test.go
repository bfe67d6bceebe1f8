package archive

import (
	"fmt"
	"testing"

	"sara/translate"
)

func TestCutTellsOfFullDays(t *testing.T) {
	h := newTestHistory(t)
	first := translate.NewDate(2026, 5, 30)
	rows := func(n int) *translate.Rows {
		var b translate.RowsBuilder
		for i := range n {
			b.Add(fmt.Appendf(nil, "key %03d", i), translate.Metrics{Clicks: int64(1000 - i), Impressions: 1000, CTR: float64(1000-i) / 1000, Position: 2})
		}
		return b.Rows()
	}
	var days []Day
	for i, n := range []int{TopRows - 1, 0, TopRows, TopRows + 1, 3} {
		for _, by := range []translate.Dimension{translate.ByQuery, translate.ByCountry} {
			days = append(days, Day{Date: first + translate.Date(i), Dimension: by, Rows: rows(n), Final: true})
		}
	}
	if err := h.Merge(t.Context(), testProperty, days); err != nil {
		t.Fatal(err)
	}
	f := func(by translate.Dimension, from, to int, want bool) {
		t.Helper()
		r := translate.DateRange{Start: first + translate.Date(from), End: first + translate.Date(to)}
		if got, err := h.Cut(t.Context(), testProperty, by, r); err != nil || got != want {
			t.Errorf("%v from %s to %s: %v, %v", by, r.Start, r.End, got, err)
		}
	}
	f(translate.ByQuery, -20, 1, false)
	f(translate.ByQuery, 0, 2, true)
	f(translate.ByQuery, 2, 2, true)
	f(translate.ByQuery, 3, 3, true)
	f(translate.ByQuery, 4, 60, false)
	f(translate.ByQuery, -100, 100, true)
	f(translate.ByPage, -100, 100, false)
	f(translate.ByCountry, -100, 100, false)
}

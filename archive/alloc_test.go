//go:build !race

package archive

import (
	"testing"

	"sara/translate"
)

// A read of decoded months allocates the result, and nothing per row or month.
func TestWarmReadAllocatesLittle(t *testing.T) {
	const budget = 10
	h := newTestHistory(t)
	first := day(t, "2024-01-01")
	var days []Day
	for i := range translate.Date(120) {
		days = append(days, Day{Date: first + i, Dimension: translate.ByQuery, Rows: queries(20+int(i), 500), Final: true})
	}
	if err := h.Merge(t.Context(), testProperty, days); err != nil {
		t.Fatal(err)
	}
	for _, length := range []translate.Date{3, 110} {
		r := translate.DateRange{Start: first + 5, End: first + 5 + length}
		read := func() {
			if result, err := h.Read(t.Context(), testProperty, translate.ByQuery, r, 0); err != nil || result.Rows.Len() < 20 {
				t.Fatal(result.Rows, err)
			}
		}
		read()
		if n := testing.AllocsPerRun(20, read); n > budget {
			t.Errorf("%d days: %v allocations, budget %d", length, n, budget)
		}
	}
}

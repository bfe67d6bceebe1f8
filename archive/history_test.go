package archive

import (
	"fmt"
	"testing"

	"sara/archive/bucket"
	"sara/translate"
)

const testProperty = "0b0e8a52-6f0e-4c62-9a57-0f3a1a5e7c11"

func newTestHistory(tb testing.TB) *History {
	tb.Helper()
	b, err := bucket.Open(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	h, err := NewHistory(HistoryConfig{Bucket: b})
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

func day(tb testing.TB, s string) translate.Date {
	tb.Helper()
	d, err := translate.ParseDate(s)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// queries returns a day's rows with the given keys, the first with the most clicks.
func queries(n int, clicks int64) *translate.Rows {
	var b translate.RowsBuilder
	for i := range n {
		b.Add(fmt.Appendf(nil, "query %d", i), translate.Metrics{Clicks: clicks - int64(i), Impressions: 10 * clicks, Position: 1.5})
	}
	return b.Rows()
}

func TestReadSumsMergedDays(t *testing.T) {
	h := newTestHistory(t)
	err := h.Merge(t.Context(), testProperty, []Day{
		{Date: day(t, "2026-01-31"), Dimension: translate.ByQuery, Rows: queries(2, 5), Final: true},
		{Date: day(t, "2026-02-01"), Dimension: translate.ByQuery, Rows: queries(1, 3), Final: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := h.Read(t.Context(), testProperty, translate.ByQuery,
		translate.DateRange{Start: day(t, "2026-01-30"), End: day(t, "2026-02-02")}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if missing := fmt.Sprint(got.Missing); missing != "[2026-01-30 2026-02-02]" {
		t.Errorf("missing %s", missing)
	}
	want := []translate.Metrics{{Clicks: 8, Impressions: 80, CTR: 0.1, Position: 1.5}, {Clicks: 4, Impressions: 50, CTR: 0.08, Position: 1.5}}
	rows := got.Rows
	if rows.Len() != len(want) {
		t.Fatalf("%d rows", rows.Len())
	}
	for i, m := range want {
		if string(rows.Key(i)) != fmt.Sprintf("query %d", i) || rows.Metrics(i) != m {
			t.Errorf("row %d: %q %+v, want %+v", i, rows.Key(i), rows.Metrics(i), m)
		}
	}
}

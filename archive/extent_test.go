package archive

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"sara/archive/bucket"
	"sara/translate"
)

// What is known without rows, and where figures begin, agrees with what Read returns.
func TestExtentAgreesWithRead(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for round := range 20 {
		b, err := bucket.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		h, err := NewHistory(HistoryConfig{Bucket: b})
		if err != nil {
			t.Fatal(err)
		}
		all := translate.DateRange{Start: day(t, "2024-01-20"), End: day(t, "2024-03-10")}
		var days []Day
		for date := all.Start; date <= all.End; date++ {
			for _, by := range []translate.Dimension{translate.ByDate, translate.ByQuery} {
				if random.IntN(3) > 0 {
					continue
				}
				var rows translate.RowsBuilder
				if random.IntN(3) == 0 {
					rows.Add([]byte("key"), translate.Metrics{Impressions: int64(random.IntN(2)), Position: 1})
				}
				days = append(days, Day{Date: date, Dimension: by, Rows: rows.Rows(), Final: true})
			}
		}
		if err := h.Merge(t.Context(), testProperty, days); err != nil {
			t.Fatal(err)
		}
		for _, by := range []translate.Dimension{translate.ByDate, translate.ByQuery, translate.ByPage} {
			start := all.Start + translate.Date(random.IntN(30)) - 10
			r := translate.DateRange{Start: start, End: start + translate.Date(random.IntN(40))}
			wantExtent(t, h, by, r, fmt.Sprintf("round %d, %s, %v", round, by, r))
		}
	}
}

func wantExtent(t *testing.T, h *History, by translate.Dimension, r translate.DateRange, what string) {
	t.Helper()
	ctx := context.Background()
	read, err := h.Read(ctx, testProperty, by, r, 0)
	if err != nil {
		t.Fatal(err)
	}
	if missing, _, err := h.Missing(ctx, testProperty, by, r); err != nil || !slices.Equal(missing, read.Missing) {
		t.Errorf("%s: missing %v (%v), want %v", what, missing, err, read.Missing)
	}
	totals, err := h.Read(ctx, testProperty, translate.ByDate, translate.DateRange{Start: r.Start, End: day(t, "2024-04-30")}, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	for i := range totals.Rows.Len() {
		if want == "" && totals.Rows.Metrics(i).Impressions > 0 {
			want = string(totals.Rows.Key(i))
		}
	}
	if begins, ok, err := h.Begins(ctx, testProperty, r.Start); err != nil || ok != (want != "") || ok && begins.String() != want {
		t.Errorf("%s: begins on %s (%v, %v), want %q", what, begins, ok, err, want)
	}
}

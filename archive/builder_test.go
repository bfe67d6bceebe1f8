package archive

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sara/translate"
)

// Days built row by row, with only the top rows in memory, are archived like the same days from records.
func TestImportDaysEqualsImport(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	first := day(t, "2026-05-30")
	for round := range 6 {
		var records []FileRecord
		builders := make([]*DayBuilder, 0, 12)
		for date := first; date < first+4; date++ {
			for _, by := range []translate.Dimension{translate.ByQuery, translate.ByPage, translate.ByDate} {
				b := NewDayBuilder(date, by)
				builders = append(builders, b)
				for i := range []int{0, 50, 99, 100, 101, 5000}[random.IntN(6)] {
					r := Record{Date: date, Dimension: by, Key: fmt.Sprint("key ", i*7919%5000), Clicks: random.Int64N([]int64{2, 3000}[round%2])}
					if r.Impressions = r.Clicks + random.Int64N(2); r.Impressions > 0 {
						r.Position = 1 + random.Float64()
					}
					if by == translate.ByDate {
						if r.Key = ""; i > 0 {
							break
						}
					}
					scratch := []byte(r.Key)
					if err := b.Add(scratch, r.Clicks, r.Impressions, r.Position); err != nil {
						t.Fatal(err)
					}
					clear(scratch) // Add has a copy
					records = append(records, FileRecord{r, Place{Number: len(records) + 1}})
				}
			}
		}
		// A day without rows is a day without traffic for a builder, and no day among records.
		builders = slices.DeleteFunc(builders, func(b *DayBuilder) bool {
			return !slices.ContainsFunc(records, func(r FileRecord) bool { return r.Date == b.date && r.Dimension == b.by })
		})
		one, two := newTestHistory(t), newTestHistory(t)
		o := ImportOptions{Until: first + 10, Provisional: first + 3}
		want, err := one.Import(t.Context(), testProperty, func(yield func(FileRecord, error) bool) {
			for _, r := range records {
				if !yield(r, nil) {
					return
				}
			}
		}, o)
		if err != nil {
			t.Fatal(err)
		}
		got, err := two.ImportDays(t.Context(), testProperty, builders, o)
		if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("round %d: %+v, %v, want %+v", round, got, err, want)
		}
		if !same(objects(t, two.bucket), objects(t, one.bucket)) {
			t.Errorf("round %d: the objects differ", round)
		}
	}
}

// Rows that no export can have are refused, and so is a row that was already added.
func TestDayBuilderRefusesInvalidRows(t *testing.T) {
	for name, add := range map[string]func(b *DayBuilder) error{
		"more clicks than impressions": func(b *DayBuilder) error { return b.Add([]byte("a"), 2, 1, 3) },
		"a position before the first":  func(b *DayBuilder) error { return b.Add([]byte("a"), 0, 1, 0.5) },
		"no key":                       func(b *DayBuilder) error { return b.Add(nil, 1, 1, 1) },
		"negative clicks":              func(b *DayBuilder) error { return b.Add([]byte("a"), -1, 1, 1) },
		"a key twice": func(b *DayBuilder) error {
			return errors.Join(b.Add([]byte("a"), 1, 1, 1), b.Add([]byte("a"), 1, 1, 1), b.Prune())
		},
	} {
		if err := add(NewDayBuilder(day(t, "2026-05-30"), translate.ByQuery)); err == nil || !strings.Contains(err.Error(), "query of 2026-05-30") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Rows may be dropped at any time, but never countries, and never because of an error.
func TestPruneOfADayBuilderDropsOnlyRowsBelowTheTop(t *testing.T) {
	date := day(t, "2026-05-30")
	countries := NewDayBuilder(date, translate.ByCountry)
	add := func(b *DayBuilder, n int, clicks int64) {
		t.Helper()
		for i := range n {
			if err := b.Add(fmt.Appendf(nil, "%c%c%c", 'a'+clicks, 'a'+i/26, 'a'+i%26), clicks, 9, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	add(countries, TopRows, 5)
	if err := countries.Prune(); err != nil {
		t.Fatal(err)
	}
	add(countries, 10, 1)
	h := newTestHistory(t)
	if result, err := h.ImportDays(t.Context(), testProperty, []*DayBuilder{countries}, ImportOptions{}); err != nil || result.DroppedRows != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	twice := NewDayBuilder(date, translate.ByQuery)
	add(twice, 1, 2)
	add(twice, 1, 2)
	for range 2 {
		if _, err := h.ImportDays(t.Context(), testProperty, []*DayBuilder{twice}, ImportOptions{}); err == nil {
			t.Error("a key that was added twice is archived")
		}
	}
}

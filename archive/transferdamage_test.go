package archive

import (
	"errors"
	"testing"

	"sara/translate"
)

// An export reads only the months of its days: damage of another month is no error, and damage of one of them ends it.
func TestExportReadsOnlyTheMonthsOfItsDays(t *testing.T) {
	h, first, next := newTestHistory(t), day(t, "2026-02-01"), day(t, "2026-03-01")
	for _, date := range []translate.Date{first - 1, next} {
		if err := h.Merge(t.Context(), testProperty, []Day{{Date: date, Dimension: translate.ByQuery, Rows: queries(3, 5)}}); err != nil {
			t.Fatal(err)
		}
	}
	damaged := encoded(t, smallMonth(t))
	damaged[100] ^= 1
	if _, err := h.bucket.Put(t.Context(), objectName(testProperty, first), damaged, ""); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		start, end translate.Date
		most, rows int // records that are read, and those that are there
		damaged    bool
	}{
		{first - 40, first - 1, 9, 3, false},
		{first - 40, first - 1, 2, 2, false},
		{first - 40, first, 9, 3, true},
		{first - 40, next, 9, 3, true},
		{first - 40, next, 2, 2, false},
		{next - 1, next, 9, 0, true},
		{next, next + 40, 9, 3, false},
	} {
		rows, err := 0, error(nil)
		for _, err = range h.Export(t.Context(), testProperty, translate.DateRange{Start: c.start, End: c.end}) {
			if err == nil {
				rows++
			}
			if rows == c.most {
				break
			}
		}
		if _, isDamaged := errors.AsType[*ObjectError](err); rows != c.rows || isDamaged != c.damaged || !isDamaged && err != nil {
			t.Errorf("%s to %s: %d records, %v, want %d, damaged: %v", c.start, c.end, rows, err, c.rows, c.damaged)
		}
	}
}

// An import of a month that is damaged fails, and counts what it has archived.
func TestImportIntoADamagedMonthFails(t *testing.T) {
	h, first := newTestHistory(t), day(t, "2026-02-01")
	damaged := encoded(t, smallMonth(t))
	damaged[100] ^= 1
	if _, err := h.bucket.Put(t.Context(), objectName(testProperty, first), damaged, ""); err != nil {
		t.Fatal(err)
	}
	var records []Record
	for _, date := range []translate.Date{first - 1, first} {
		records = append(records, Record{Date: date, Dimension: translate.ByQuery, Key: "a", Clicks: 1, Impressions: 2, Position: 3})
	}
	result, err := h.Import(t.Context(), testProperty, placed(records), ImportOptions{Until: first})
	if _, isDamaged := errors.AsType[*ObjectError](err); !isDamaged || result.Days != 1 || result.Kept != 0 {
		t.Errorf("%+v, %v", result, err)
	}
}

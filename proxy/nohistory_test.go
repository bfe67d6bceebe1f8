package proxy

import (
	"context"

	"sara/archive"
	"sara/translate"
)

// noHistory is an archive of nothing.
type noHistory struct{}

func (noHistory) Read(_ context.Context, _ string, _ translate.Dimension, r translate.DateRange, _ int) (archive.Result, error) {
	return archive.Result{Rows: new(translate.Rows), Missing: daysOf(r)}, nil
}

func (noHistory) Sum(_ context.Context, _ string, _ translate.Dimension, r translate.DateRange) (archive.Result, error) {
	return archive.Result{Sums: new(translate.Sums), Missing: daysOf(r)}, nil
}

func (noHistory) Missing(_ context.Context, _ string, _ translate.Dimension, r translate.DateRange) ([]translate.Date, *archive.DamageError, error) {
	return daysOf(r), nil, nil
}

func (noHistory) Bounds(context.Context, string, translate.Dimension, date) (translate.DateRange, bool, error) {
	return translate.DateRange{}, false, nil
}

func (noHistory) Version(context.Context, string) (uint64, error) { return 0, nil }

func (noHistory) Begins(context.Context, string, translate.Date) (translate.Date, bool, error) {
	return 0, false, nil
}

// daysOf lists the days of a range.
func daysOf(r translate.DateRange) (days []translate.Date) {
	for day := r.Start; day <= r.End; day++ {
		days = append(days, day)
	}
	return days
}

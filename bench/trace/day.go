package trace

import (
	"fmt"
	"time"
	_ "time/tzdata" // machines without a zone database must know the Pacific zone too
)

// A Day counts the days since 1970-01-01.
type Day int

const secondsPerDay = 24 * 60 * 60

// Anchor returns the last day with final data at an instant: two days before the date in Los Angeles.
func Anchor(now time.Time) (Day, error) {
	pacific, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		return 0, err
	}
	year, month, day := now.In(pacific).Date()
	return dayOf(year, month, day) - 2, nil
}

func dayOf(year int, month time.Month, day int) Day {
	return Day(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / secondsPerDay)
}

func (d Day) date() (year int, month time.Month, day int) {
	return time.Unix(int64(d)*secondsPerDay, 0).UTC().Date()
}

// String returns the day as YYYY-MM-DD.
func (d Day) String() string {
	year, month, day := d.date()
	return fmt.Sprintf("%04d-%02d-%02d", year, month, day)
}

func parseDay(s string) (Day, error) {
	t, err := time.Parse(time.DateOnly, s)
	return Day(t.Unix() / secondsPerDay), err
}

// monthStart returns the first day of the month n months later.
func (d Day) monthStart(n int) Day {
	year, month, _ := d.date()
	return dayOf(year, month+time.Month(n), 1)
}

// monthsBefore returns the same day n months earlier, or the last day of a shorter month.
func (d Day) monthsBefore(n int) Day {
	_, _, day := d.date()
	first := d.monthStart(-n)
	return min(first+Day(day)-1, d.monthStart(1-n)-1)
}

// A span is a range of days, both ends included.
type span struct{ from, to Day }

// previous returns the span of the same length right before.
func (s span) previous() span { return span{2*s.from - s.to - 1, s.from - 1} }

// comparable reports whether the upstream, which keeps 16 months, also has the previous span.
func (s span) comparable(anchor Day) bool { return s.previous().from > anchor.monthsBefore(16) }

// presetSpan resolves the values of date_range that the trace uses.
func presetSpan(preset string, anchor Day) (span, error) {
	switch preset {
	case "last_7d":
		return span{anchor - 6, anchor}, nil
	case defaultPreset:
		return span{anchor - 27, anchor}, nil
	case "last_90d":
		return span{anchor - 89, anchor}, nil
	case "last_3m":
		return span{anchor.monthsBefore(3) + 1, anchor}, nil
	case "last_12m":
		return span{anchor.monthsBefore(12) + 1, anchor}, nil
	case "month_to_date":
		return span{anchor.monthStart(0), anchor}, nil
	case "previous_month":
		return span{anchor.monthStart(-1), anchor.monthStart(0) - 1}, nil
	}
	return span{}, fmt.Errorf("the trace has no date_range %q", preset)
}

const defaultPreset = "last_28d"

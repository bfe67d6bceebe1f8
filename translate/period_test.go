package translate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// presetReference resolves a preset by the calendar, without arithmetic on day numbers.
func presetReference(preset string, anchor time.Time) (start, end time.Time) {
	year, month, dayOfMonth := anchor.Date()
	date := func(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 0, 0, 0, 0, time.UTC) }
	monthsBack := func(n int) time.Time {
		for d := dayOfMonth; ; d-- {
			if back := date(year, month-time.Month(n), d); back.Day() == d {
				return back.AddDate(0, 0, 1)
			}
		}
	}
	switch preset {
	case "last_7d":
		return anchor.AddDate(0, 0, -6), anchor
	case "last_28d":
		return anchor.AddDate(0, 0, -27), anchor
	case "last_30d":
		return anchor.AddDate(0, 0, -29), anchor
	case "last_90d":
		return anchor.AddDate(0, 0, -89), anchor
	case "last_3m":
		return monthsBack(3), anchor
	case "last_6m":
		return monthsBack(6), anchor
	case "last_12m":
		return monthsBack(12), anchor
	case "last_16m":
		return monthsBack(16), anchor
	case "month_to_date":
		return date(year, month, 1), anchor
	case "previous_month":
		return date(year, month-1, 1), date(year, month, 0)
	case "year_to_date":
		return date(year, 1, 1), anchor
	case "previous_year":
		return date(year-1, 1, 1), date(year-1, 12, 31)
	}
	panic("no such preset: " + preset)
}

func TestPresetsEqualSlowReference(t *testing.T) {
	for anchor := day("2023-01-01"); anchor <= day("2026-12-31"); anchor++ {
		for _, preset := range Presets() {
			got, ok := presetRange(preset, anchor)
			start, end := presetReference(preset, anchor.Time())
			if !ok || got.Start.Time() != start || got.End.Time() != end || got.Start > got.End {
				t.Fatalf("%s at %s: %v, want %s to %s", preset, anchor, got, start, end)
			}
		}
	}
}

func TestPresetsAtMonthAndYearEnds(t *testing.T) {
	f := func(anchor, preset, start, end string) {
		t.Helper()
		params, err := Parse(Timeseries(), []byte("date_range="+preset), NewWindow(day(anchor), 60))
		if err != nil {
			t.Errorf("%s at %s: %v", preset, anchor, err)
			return
		}
		want := Period{DateRange: DateRange{Start: day(start), End: day(end)}, Preset: preset}
		if params.Period != want {
			t.Errorf("%s at %s: %v, want %v", preset, anchor, params.Period, want)
		}
	}
	f("2026-06-13", "last_7d", "2026-06-07", "2026-06-13")
	f("2026-06-13", "last_28d", "2026-05-17", "2026-06-13")
	f("2026-06-13", "last_30d", "2026-05-15", "2026-06-13")
	f("2026-06-13", "last_90d", "2026-03-16", "2026-06-13")
	f("2026-06-13", "last_3m", "2026-03-14", "2026-06-13")
	f("2026-06-13", "last_6m", "2025-12-14", "2026-06-13")
	f("2026-06-13", "last_12m", "2025-06-14", "2026-06-13")
	f("2026-06-13", "last_16m", "2025-02-14", "2026-06-13")
	f("2026-06-13", "month_to_date", "2026-06-01", "2026-06-13")
	f("2026-06-13", "previous_month", "2026-05-01", "2026-05-31")
	f("2026-06-13", "year_to_date", "2026-01-01", "2026-06-13")
	f("2026-06-13", "previous_year", "2025-01-01", "2025-12-31")
	// If the day N months before does not exist, the last day of that month counts.
	f("2026-05-31", "last_3m", "2026-03-01", "2026-05-31")
	f("2024-05-31", "last_3m", "2024-03-01", "2024-05-31")
	f("2024-05-30", "last_3m", "2024-03-01", "2024-05-30")
	f("2024-05-28", "last_3m", "2024-02-29", "2024-05-28")
	f("2026-03-31", "last_6m", "2025-10-01", "2026-03-31")
	f("2026-03-31", "previous_month", "2026-02-01", "2026-02-28")
	f("2024-03-31", "previous_month", "2024-02-01", "2024-02-29")
	f("2024-02-29", "last_12m", "2023-03-01", "2024-02-29")
	f("2025-02-28", "last_12m", "2024-02-29", "2025-02-28")
	f("2024-02-29", "month_to_date", "2024-02-01", "2024-02-29")
	f("2024-02-29", "previous_month", "2024-01-01", "2024-01-31")
	f("2026-06-30", "last_16m", "2025-03-01", "2026-06-30")
	// The first day of a year.
	f("2026-01-01", "month_to_date", "2026-01-01", "2026-01-01")
	f("2026-01-01", "year_to_date", "2026-01-01", "2026-01-01")
	f("2026-01-01", "previous_month", "2025-12-01", "2025-12-31")
	f("2026-01-01", "previous_year", "2025-01-01", "2025-12-31")
	f("2025-01-01", "previous_year", "2024-01-01", "2024-12-31")
	f("2026-01-01", "last_7d", "2025-12-26", "2026-01-01")
	f("2026-01-01", "last_3m", "2025-10-02", "2026-01-01")
	// A clock change inside the range neither removes nor adds a day.
	f("2026-03-08", "last_7d", "2026-03-02", "2026-03-08")
	f("2026-03-10", "last_7d", "2026-03-04", "2026-03-10")
	f("2026-11-03", "last_7d", "2026-10-28", "2026-11-03")
	f("2026-11-03", "last_90d", "2026-08-06", "2026-11-03")
}

func TestWindowBounds(t *testing.T) {
	f := func(anchor string, retention int, live, earliest string) {
		t.Helper()
		w := NewWindow(day(anchor), retention)
		if want := (Window{Anchor: day(anchor), UpstreamStart: day(live), LiveStart: day(live), Earliest: day(earliest)}); w != want {
			t.Errorf("%s, %d months: %v, want %v", anchor, retention, w, want)
		}
	}
	f("2026-06-13", 36, "2025-02-14", "2023-06-14")
	f("2026-06-13", 60, "2025-02-14", "2021-06-14")
	f("2026-06-13", 3, "2025-02-14", "2026-03-14")
	f("2026-06-30", 16, "2025-03-01", "2025-03-01")

	w := NewWindow(day("2026-06-13"), 36)
	for _, c := range []struct {
		start, end string
		want       bool
	}{
		{"2025-02-14", "2026-06-13", true},
		{"2025-02-13", "2026-06-13", false},
		{"2025-02-14", "2026-06-14", false},
		{"2025-02-13", "2025-02-13", false},
		{"2026-06-13", "2026-06-13", true},
	} {
		if got := upstreamHas(w, DateRange{Start: day(c.start), End: day(c.end)}); got != c.want {
			t.Errorf("the upstream has %s to %s: %v, want %v", c.start, c.end, got, c.want)
		}
	}
}

func upstreamHas(w Window, r DateRange) bool {
	return archiveParts([]DateRange{r}, w) == nil && r.End <= w.Anchor
}

// The largest preset is exactly what the upstream keeps, so that it never needs the archive.
func TestLast16MonthsNeedsNoArchive(t *testing.T) {
	for anchor := day("2023-01-01"); anchor <= day("2025-12-31"); anchor++ {
		w := NewWindow(anchor, 36)
		params, err := Parse(Timeseries(), []byte("date_range=last_16m"), w)
		if err != nil || params.Period.Start != w.UpstreamStart || !upstreamHas(w, params.Period.DateRange) {
			t.Fatalf("at %s: %v, %v", anchor, params, err)
		}
	}
}

func TestExplicitDates(t *testing.T) {
	w := NewWindow(day("2026-06-13"), 36)
	moved := func(end string) string {
		return "end_date " + end + " was moved back to 2026-06-13, the last day with final data."
	}
	f := func(query, start, end, preset string, notes ...string) {
		t.Helper()
		for _, e := range []Endpoint{Summary(), Timeseries(), Breakdown(), Movers()} {
			params, err := Parse(e, []byte(query), w)
			if err != nil {
				t.Errorf("%s: %v", query, err)
				continue
			}
			want := Period{DateRange: DateRange{Start: day(start), End: day(end)}, Preset: preset}
			if params.Period != want || !slices.Equal(params.Notes, notes) {
				t.Errorf("%s: %v %q, want %v %q", query, params.Period, params.Notes, want, notes)
			}
		}
	}
	f("", "2026-05-17", "2026-06-13", "last_28d")
	f("start_date=2026-06-01&end_date=2026-06-10", "2026-06-01", "2026-06-10", "custom")
	f("end_date=2026-06-10&start_date=2026-06-01", "2026-06-01", "2026-06-10", "custom")
	f("start_date=2026-06-01&end_date=2026-06-01", "2026-06-01", "2026-06-01", "custom")
	f("start_date=2026-06-13&end_date=2026-06-13", "2026-06-13", "2026-06-13", "custom")
	f("start_date=2026-06-01&end_date=2026-06-14", "2026-06-01", "2026-06-13", "custom", moved("2026-06-14"))
	f("start_date=2026-06-13&end_date=9999-12-31", "2026-06-13", "2026-06-13", "custom", moved("9999-12-31"))
	f("date_range=last_7d&start_date=2026-06-01&end_date=2026-06-10", "2026-06-01", "2026-06-10", "custom",
		"start_date and end_date were used; date_range last_7d was not.")
	f("start_date=2026-06-01&end_date=2026-06-20&date_range=last_28d", "2026-06-01", "2026-06-13", "custom",
		moved("2026-06-20"), "start_date and end_date were used; date_range last_28d was not.")

	bad := func(query, want string) {
		t.Helper()
		for _, e := range []Endpoint{Summary(), Timeseries(), Breakdown(), Movers()} {
			wantError(t, e, query, w, CodeValidation, want)
		}
	}
	both := "start_date and end_date go together: give both, or neither"
	bad("start_date=2026-06-01", both)
	bad("end_date=2026-06-01", both)
	bad("start_date=2026-06-01&date_range=last_7d", both)
	bad("start_date=2026-06-10&end_date=2026-06-09", "start_date 2026-06-10 is after end_date 2026-06-09")
	bad("start_date=2026-06-20&end_date=2026-06-19", "start_date 2026-06-20 is after end_date 2026-06-19")
	bad("start_date=2026-06-14&end_date=2026-06-14", "start_date 2026-06-14 is after 2026-06-13, the last day with final data")
	bad("start_date=2026-06-01&end_date=2026-06-10&date_range=custom", `date_range "custom" is not one of `+strings.Join(Presets(), ", "))
}

// wantError checks the code and the message of the error of a query string.
func wantError(t *testing.T, e Endpoint, query string, w Window, code, message string) {
	t.Helper()
	_, err := Parse(e, []byte(query), w)
	var input *InputError
	if !errors.As(err, &input) {
		t.Errorf("%.80q: %v, want %s: %s", query, err, code, message)
		return
	}
	if input.Code != code || input.Message != message {
		t.Errorf("%.80q:\n got %s: %s\nwant %s: %s", query, input.Code, input.Message, code, message)
	}
}

// The first day on which a period can begin whose previous one begins on or after a day.
func TestComparableFrom(t *testing.T) {
	for first := day("2024-01-01"); first <= day("2025-03-31"); first++ {
		for _, compare := range []Comparison{PreviousPeriod, PreviousYear} {
			p := &Params{Compare: compare, Period: Period{DateRange: DateRange{Start: first, End: first + 6}}}
			begins := func(from Date) Date {
				p.Period.DateRange = DateRange{Start: from, End: from + 6}
				return p.Previous().Start
			}
			from := p.ComparableFrom(first)
			if begins(from) < first || begins(from-1) >= first {
				t.Errorf("%v with days from %s on: %s is not the first", compare, first, from)
			}
		}
	}
}

func TestRetentionErrorNamesTheEarliestDay(t *testing.T) {
	w := NewWindow(day("2026-06-13"), 36)
	tooOld := func(e Endpoint, query, what, start string) {
		t.Helper()
		wantError(t, e, query, w, CodeDateRangeTooOld, fmt.Sprintf(
			"%s starts on %s, before the history that the plan keeps; the earliest date allowed is 2023-06-14", what, start))
	}
	allowed := func(e Endpoint, query, from string) {
		t.Helper()
		params, err := Parse(e, []byte(query), w)
		if err != nil || params.Span().Start != day(from) {
			t.Errorf("%s: %v, %v, want days from %s on", query, params, err, from)
		}
	}
	for _, e := range []Endpoint{Summary(), Timeseries(), Breakdown()} {
		allowed(e, "start_date=2023-06-14&end_date=2023-06-14", "2023-06-14")
		allowed(e, "start_date=2023-06-14&end_date=2026-06-13", "2023-06-14")
		tooOld(e, "start_date=2023-06-13&end_date=2023-06-13", "the range", "2023-06-13")
		tooOld(e, "start_date=1970-01-01&end_date=2026-06-13", "the range", "1970-01-01")
	}
	// Movers always read the previous period, a summary only if it compares.
	comparing := func(e Endpoint, compare string) {
		t.Helper()
		allowed(e, "start_date=2023-06-24&end_date=2023-07-03"+compare, "2023-06-14")
		tooOld(e, "start_date=2023-06-23&end_date=2023-07-02"+compare, "the range with the period before it", "2023-06-13")
		tooOld(e, "start_date=2020-01-11&end_date=2020-01-20"+compare, "the range", "2020-01-11")
	}
	comparing(Movers(), "")
	comparing(Summary(), "&compare=previous_period")
	allowed(Summary(), "start_date=2023-06-23&end_date=2023-07-02&compare=none", "2023-06-23")

	w = NewWindow(day("2026-06-13"), 3)
	message := " starts on %s, before the history that the plan keeps; the earliest date allowed is 2026-03-14"
	allowed(Summary(), "date_range=last_3m", "2026-03-14")
	wantError(t, Summary(), "date_range=last_6m", w, CodeDateRangeTooOld, "date_range last_6m"+fmt.Sprintf(message, "2025-12-14"))
	wantError(t, Movers(), "date_range=last_3m", w, CodeDateRangeTooOld,
		"date_range last_3m with the period before it"+fmt.Sprintf(message, "2025-12-12"))
	w = NewWindow(day("2026-06-13"), 1)
	allowed(Movers(), "date_range=last_7d", "2026-05-31")
	wantError(t, Movers(), "", w, CodeDateRangeTooOld,
		"date_range last_28d with the period before it starts on 2026-04-19, before the history that the plan keeps; "+
			"the earliest date allowed is 2026-05-14")
}

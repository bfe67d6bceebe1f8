package translate

import (
	"strings"
	"testing"
	"time"
)

// day parses a date of a test.
func day(s string) Date {
	d, err := ParseDate(s)
	if err != nil {
		panic(err)
	}
	return d
}

func TestParseDateIsStrict(t *testing.T) {
	for _, s := range []string{"1970-01-01", "1999-12-31", "2000-02-29", "2024-02-29", "2026-06-13", "9999-12-31"} {
		d, err := ParseDate(s)
		if err != nil || d.String() != s {
			t.Errorf("%s: %v, %v", s, d, err)
		}
	}
	for _, s := range []string{
		"", " ", "2026-6-13", "2026-06-1", "26-06-13", "2026-06-13 ", " 2026-06-13", "2026-06-13T00:00:00Z", "2026/06/13",
		"20260613", "2026-13-01", "2026-00-10", "2026-06-00", "2026-06-31", "2023-02-29", "1900-02-29", "1969-12-31",
		"0000-01-01", "10000-01-01", "-2026-06-13", "+2026-06-13", "2026-06-١٣", "2026-06-1x", "today", "2026-06-13\n",
	} {
		if d, err := ParseDate(s); err == nil {
			t.Errorf("%q was read as %s", s, d)
		}
	}
}

func TestDatesCountCalendarDays(t *testing.T) {
	at := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	for d := range Date(40_000) {
		if got := d.String(); got != at.Format(time.DateOnly) {
			t.Fatalf("day %d is %s, want %s", d, got, at.Format(time.DateOnly))
		}
		if got := NewDate(at.Date()); got != d {
			t.Fatalf("%s is day %d, want %d", at.Format(time.DateOnly), got, d)
		}
		at = at.AddDate(0, 0, 1)
	}
	if got := Date(-1).String(); got != "1969-12-31" {
		t.Errorf("the day before the first is %s", got)
	}
	if got := NewDate(2026, time.October, 32); got != day("2026-11-01") {
		t.Errorf("October 32 is %s", got)
	}
}

func TestAddMonthsClampsToTheEndOfAShorterMonth(t *testing.T) {
	f := func(from string, n int, want string) {
		t.Helper()
		if got := day(from).AddMonths(n); got != day(want) {
			t.Errorf("%s %+d months: %s, want %s", from, n, got, want)
		}
	}
	f("2026-03-31", -1, "2026-02-28")
	f("2024-03-31", -1, "2024-02-29")
	f("2024-03-30", -1, "2024-02-29")
	f("2024-03-29", -1, "2024-02-29")
	f("2026-03-29", -1, "2026-02-28")
	f("2024-02-29", -12, "2023-02-28")
	f("2024-02-29", 12, "2025-02-28")
	f("2024-02-29", 48, "2028-02-29")
	f("2026-05-31", -3, "2026-02-28")
	f("2026-12-31", -1, "2026-11-30")
	f("2026-01-31", 1, "2026-02-28")
	f("2026-01-01", -1, "2025-12-01")
	f("2026-01-15", -16, "2024-09-15")
	f("2026-12-31", 2, "2027-02-28")
	f("2026-06-13", 0, "2026-06-13")
	f("2026-03-31", 0, "2026-03-31")
}

// The reference walks back from the day until it exists in the month.
func TestAddMonthsEqualsSlowReference(t *testing.T) {
	for d := day("2023-12-01"); d <= day("2025-03-31"); d++ {
		year, month, dayOfMonth := d.Time().Date()
		for n := -60; n <= 60; n++ {
			want := time.Date(year, month+time.Month(n), dayOfMonth, 0, 0, 0, 0, time.UTC)
			first := time.Date(year, month+time.Month(n), 1, 0, 0, 0, 0, time.UTC)
			for want.Month() != first.Month() {
				want = want.AddDate(0, 0, -1)
			}
			if got := d.AddMonths(n); got.String() != want.Format(time.DateOnly) {
				t.Fatalf("%s %+d months: %s, want %s", d, n, got, want.Format(time.DateOnly))
			}
		}
	}
}

func TestByMonthSplitsAtTheTurnOfEachMonth(t *testing.T) {
	for _, test := range []struct{ days, want string }{
		{"2026-02-03 2026-02-28", "2026-02-03 2026-02-28"},
		{"2025-12-31 2026-02-01", "2025-12-31 2025-12-31, 2026-01-01 2026-01-31, 2026-02-01 2026-02-01"},
		{"2026-02-02 2026-02-01", ""},
	} {
		start, end, _ := strings.Cut(test.days, " ")
		var got []string
		for _, part := range (DateRange{Start: day(start), End: day(end)}).ByMonth() {
			got = append(got, part.Start.String()+" "+part.End.String())
		}
		if strings.Join(got, ", ") != test.want {
			t.Errorf("%s: %v, want %s", test.days, got, test.want)
		}
	}
}

func TestPreviousHasEqualLengthAndEndsTheDayBefore(t *testing.T) {
	f := func(start, end, wantStart, wantEnd string) {
		t.Helper()
		r := DateRange{Start: day(start), End: day(end)}
		previous := r.Previous()
		if want := (DateRange{Start: day(wantStart), End: day(wantEnd)}); previous != want {
			t.Errorf("before %v: %v, want %v", r, previous, want)
		}
		if previous.Days() != r.Days() {
			t.Errorf("%d days before %d", previous.Days(), r.Days())
		}
	}
	f("2026-06-13", "2026-06-13", "2026-06-12", "2026-06-12")
	f("2026-06-07", "2026-06-13", "2026-05-31", "2026-06-06")
	f("2026-03-01", "2026-03-31", "2026-01-29", "2026-02-28") // equal length, not the previous month
	f("2024-03-01", "2024-03-01", "2024-02-29", "2024-02-29")
	f("2026-01-01", "2026-12-31", "2025-01-01", "2025-12-31")
	f("2024-01-01", "2024-12-31", "2022-12-31", "2023-12-31")
}

// The upstream day starts at midnight in Los Angeles, at 07:00 or 08:00 UTC.
func TestAnchorIsTwoDaysBeforeThePacificDay(t *testing.T) {
	calendar, err := NewCalendar()
	if err != nil {
		t.Fatal(err)
	}
	f := func(now, want string) {
		t.Helper()
		at, err := time.Parse(time.RFC3339Nano, now)
		if err != nil {
			t.Fatal(err)
		}
		if got := calendar.Anchor(at); got != day(want) {
			t.Errorf("at %s the anchor is %s, want %s", now, got, want)
		}
	}
	f("2026-06-15T06:59:59.999999999Z", "2026-06-12") // 23:59 on June 14, daylight time
	f("2026-06-15T07:00:00Z", "2026-06-13")
	f("2026-06-15T00:00:00Z", "2026-06-12") // midnight UTC is no boundary
	f("2026-06-14T23:59:59Z", "2026-06-12")
	f("2026-06-15T12:00:00Z", "2026-06-13")
	f("2026-01-15T07:59:59Z", "2026-01-12") // standard time
	f("2026-01-15T08:00:00Z", "2026-01-13")
	f("2026-03-08T07:59:59Z", "2026-03-05") // clocks go forward at 10:00Z that day
	f("2026-03-08T08:00:00Z", "2026-03-06")
	f("2026-03-08T10:00:00Z", "2026-03-06")
	f("2026-03-09T06:59:59Z", "2026-03-06") // that day has 23 hours
	f("2026-03-09T07:00:00Z", "2026-03-07")
	f("2026-11-01T06:59:59Z", "2026-10-29") // clocks go back at 09:00Z that day
	f("2026-11-01T07:00:00Z", "2026-10-30")
	f("2026-11-01T09:30:00Z", "2026-10-30")
	f("2026-11-02T07:59:59Z", "2026-10-30") // that day has 25 hours
	f("2026-11-02T08:00:00Z", "2026-10-31")
	f("2024-03-02T12:00:00Z", "2024-02-29")
	f("2026-03-02T12:00:00Z", "2026-02-28")
	f("2026-01-02T07:59:59Z", "2025-12-30")
	f("2026-06-15T09:00:00+09:00", "2026-06-12") // another zone, the same instant as midnight UTC
}

// The days of the clock changes have 23 and 25 hours.
func TestUpstreamDaysStartAtPacificMidnight(t *testing.T) {
	calendar, err := NewCalendar()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ day, start string }{
		{"2026-03-08", "2026-03-08T08:00:00Z"}, {"2026-03-09", "2026-03-09T07:00:00Z"},
		{"2026-11-01", "2026-11-01T07:00:00Z"}, {"2026-11-02", "2026-11-02T08:00:00Z"}, {"1970-01-01", "1970-01-01T08:00:00Z"},
	} {
		start := calendar.Start(day(c.day))
		if got := start.UTC().Format(time.RFC3339); got != c.start {
			t.Errorf("%s begins at %s, want %s", c.day, got, c.start)
		}
		if at, before := calendar.Day(start), calendar.Day(start.Add(-time.Nanosecond)); at != day(c.day) || before != at-1 {
			t.Errorf("%s begins on %s, after %s", c.day, at, before)
		}
	}
}

// Every day is written as the standard library does, also those that no request can name.
func TestDatesAreWrittenAsTheStandardLibraryDoes(t *testing.T) {
	t.Parallel()
	const step = 7 // days: all days of months, and all months
	for d := NewDate(-2, 1, 1); d < NewDate(10002, 1, 1); d += step {
		if got, want := d.String(), d.Time().Format(time.DateOnly); got != want {
			t.Fatalf("%d days after 1970 is written as %s, want %s", d, got, want)
		}
	}
}

func BenchmarkDate(b *testing.B) {
	b.ReportAllocs()
	dst := make([]byte, 0, len(time.DateOnly))
	for d := Date(0); b.Loop(); d++ {
		d.Append(dst)
	}
}

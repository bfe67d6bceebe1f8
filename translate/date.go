package translate

import (
	"fmt"
	"time"
	_ "time/tzdata" // for machines without a time zone database
)

// Date is a day of the proleptic Gregorian calendar, counted from 1970-01-01, its zero value. It has no time zone: Calendar
// converts instants to days. Dates compare with <, and their difference is a number of days.
type Date int32

// NewDate returns the day of year, month and day, normalised as time.Date does (October 32 is November 1).
func NewDate(year int, month time.Month, day int) Date {
	return Date(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / secondsPerDay)
}

const secondsPerDay = 24 * 60 * 60

// ParseDate reads exactly YYYY-MM-DD and a day that exists, in the years 1970 to 9999.
func ParseDate(s string) (Date, error) {
	if len(s) == len(time.DateOnly) && s[4] == '-' && s[7] == '-' {
		year, month, day := number(s[:4]), number(s[5:7]), number(s[8:])
		d := NewDate(year, time.Month(month), day)
		// NewDate normalises a day that does not exist to another one.
		if y, m, back := d.Time().Date(); year >= 1970 && y == year && int(m) == month && back == day {
			return d, nil
		}
	}
	return 0, fmt.Errorf("%.40q is not a date of the form YYYY-MM-DD, 1970-01-01 or later", s)
}

// number reads digits, and returns -1 if s has anything else.
func number(s string) (n int) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return -1
		}
		n = 10*n + int(s[i]-'0')
	}
	return n
}

// Time returns the first instant of the day in UTC.
func (d Date) Time() time.Time { return time.Unix(int64(d)*secondsPerDay, 0).UTC() }

// String returns the day as YYYY-MM-DD.
func (d Date) String() string { return string(d.Append(make([]byte, 0, len(time.DateOnly)))) }

// Append appends the day as YYYY-MM-DD.
func (d Date) Append(dst []byte) []byte {
	year, month, day := d.Time().Date()
	if year < 0 || year > 9999 {
		return d.Time().AppendFormat(dst, time.DateOnly)
	}
	text := [...]byte{4: '-', 7: '-', 9: 0}
	putTwo(text[:], uint32(year/100))
	putTwo(text[2:], uint32(year%100))
	putTwo(text[5:], uint32(month))
	putTwo(text[8:], uint32(day))
	return append(dst, text[:]...)
}

func putTwo(text []byte, n uint32) {
	const digits = "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899"
	text[1], text[0] = digits[2*n+1], digits[2*n]
}

// AddMonths returns the same day n months later, or earlier for a negative n, clamped to the end of a shorter month:
// one month before March 31 is February 28 or 29.
func (d Date) AddMonths(n int) Date {
	year, month, day := d.Time().Date()
	first := NewDate(year, month+time.Month(n), 1)
	year, month, _ = first.Time().Date()
	last := NewDate(year, month+1, 1) - 1
	return min(first+Date(day-1), last)
}

// MonthStart returns the first day of d's month.
func (d Date) MonthStart() Date {
	year, month, _ := d.Time().Date()
	return NewDate(year, month, 1)
}

// DateRange is the days from Start to End, both included. It is valid when Start <= End.
type DateRange struct {
	Start, End Date
}

// Days returns how many days the range holds.
func (r DateRange) Days() int { return int(r.End-r.Start) + 1 }

// Phrase says which days the range holds: "from 2025-01-01 to 2025-01-31", or for a single one "on 2025-01-01".
func (r DateRange) Phrase() string {
	if r.Start == r.End {
		return "on " + r.Start.String()
	}
	return "from " + r.Start.String() + " to " + r.End.String()
}

// Overlaps reports whether the ranges, of which r may be empty, have a day in common.
func (r DateRange) Overlaps(other DateRange) bool {
	return max(r.Start, other.Start) <= min(r.End, other.End)
}

// ByMonth returns the part of r in each month, in order; none for an empty range.
func (r DateRange) ByMonth() (parts []DateRange) {
	for first := r.Start; first <= r.End; {
		next := first.MonthStart().AddMonths(1)
		parts = append(parts, DateRange{Start: first, End: min(next-1, r.End)})
		first = next
	}
	return parts
}

// Previous returns the range of equal length that ends the day before r starts (spec: Summary payload, movers).
func (r DateRange) Previous() DateRange {
	return DateRange{Start: r.Start - Date(r.Days()), End: r.Start - 1}
}

// Calendar converts between instants and days of the upstream, which are those of America/Los_Angeles.
type Calendar struct {
	pacific *time.Location
}

// NewCalendar loads the upstream's time zone.
func NewCalendar() (Calendar, error) {
	pacific, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		return Calendar{}, fmt.Errorf("load the upstream's time zone: %w", err)
	}
	return Calendar{pacific: pacific}, nil
}

// anchorLag is the delay of the upstream's final data, in days (spec: What the service does, 5).
const anchorLag = 2

// Anchor returns the last day of any range: two days before the upstream's today.
func (c Calendar) Anchor(now time.Time) Date { return c.Day(now) - anchorLag }

// AnchorEnds returns the instant at which the anchor moves on to the next day.
func (c Calendar) AnchorEnds(anchor Date) time.Time { return c.Start(anchor + anchorLag + 1) }

// Day returns the upstream day of an instant.
func (c Calendar) Day(t time.Time) Date {
	year, month, day := t.In(c.pacific).Date()
	return NewDate(year, month, day)
}

// Start returns the instant at which an upstream day begins.
func (c Calendar) Start(d Date) time.Time {
	year, month, day := d.Time().Date()
	return time.Date(year, month, day, 0, 0, 0, 0, c.pacific)
}

// UpstreamMonths is the history that the upstream keeps (spec: What the service does, 4).
const UpstreamMonths = 16

// A Window is the range of days that one API key may query on one day.
type Window struct {
	Anchor        Date // the last day of any range
	UpstreamStart Date // the first day that the upstream still has
	LiveStart     Date // the days before it come from the archive: UpstreamStart, or later
	Earliest      Date // the first day that the plan's retention allows; before or after UpstreamStart
}

// NewWindow returns the window up to the anchor of a plan with retentionMonths of history.
func NewWindow(anchor Date, retentionMonths int) Window {
	start := anchor.AddMonths(-UpstreamMonths) + 1
	return Window{
		Anchor:        anchor,
		UpstreamStart: start,
		LiveStart:     start,
		Earliest:      anchor.AddMonths(-retentionMonths) + 1,
	}
}

// ArchiveOnly returns the window of a request for which the upstream cannot be used.
func (w Window) ArchiveOnly() Window {
	w.LiveStart = w.Anchor + 1
	return w
}

// LiveFrom returns the window of a request for which the days before start come from the archive, because the upstream has no
// figures of them.
func (w Window) LiveFrom(start Date) Window {
	w.LiveStart = max(w.LiveStart, start)
	return w
}

// Live returns the days that the upstream can have.
func (w Window) Live() DateRange { return DateRange{Start: w.UpstreamStart, End: w.Anchor} }

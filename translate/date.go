package translate

import (
	"fmt"
	"time"
	_ "time/tzdata" // the Pacific zone has to be known on machines without a zone database
)

// Date is a civil day of the proleptic Gregorian calendar, counted in days since 1970-01-01. It has no time zone: which
// day an instant falls on is decided once, by Calendar. The zero value is 1970-01-01. Dates compare with < and subtract
// with -, which gives days.
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
		// A day that does not exist is another one by now.
		if y, m, back := d.Time().Date(); year >= 1970 && y == year && int(m) == month && back == day {
			return d, nil
		}
	}
	return 0, fmt.Errorf("%.40q is not a date of the form YYYY-MM-DD, 1970-01-01 or later", s)
}

// number reads digits; -1 if there is anything else.
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
func (d Date) Append(dst []byte) []byte { return d.Time().AppendFormat(dst, time.DateOnly) }

// AddMonths returns the same day n months later, or earlier for a negative n, clamped to the end of a shorter month:
// one month before March 31 is February 28 or 29.
func (d Date) AddMonths(n int) Date {
	year, month, day := d.Time().Date()
	first := NewDate(year, month+time.Month(n), 1)
	year, month, _ = first.Time().Date()
	last := NewDate(year, month+1, 1) - 1
	return min(first+Date(day-1), last)
}

// monthStart returns the first day of d's month.
func (d Date) monthStart() Date {
	year, month, _ := d.Time().Date()
	return NewDate(year, month, 1)
}

// DateRange is the days from Start to End, both included. It is valid when Start <= End.
type DateRange struct {
	Start, End Date
}

// Days returns how many days the range holds.
func (r DateRange) Days() int { return int(r.End-r.Start) + 1 }

// Previous returns the range of equal length that ends the day before r starts (spec: Summary payload, movers).
func (r DateRange) Previous() DateRange {
	return DateRange{Start: r.Start - Date(r.Days()), End: r.Start - 1}
}

// Calendar knows on which day an instant falls for the upstream, whose days are those of America/Los_Angeles.
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

// anchorLag is how far the upstream's final data runs behind its own day (spec: What the service does, 5).
const anchorLag = 2

// Anchor returns the last day that every range may include: two days before the upstream's today.
func (c Calendar) Anchor(now time.Time) Date { return c.Day(now) - anchorLag }

// Day returns the upstream's day at an instant.
func (c Calendar) Day(t time.Time) Date {
	year, month, day := t.In(c.pacific).Date()
	return NewDate(year, month, day)
}

// Start returns the instant at which a day of the upstream begins.
func (c Calendar) Start(d Date) time.Time {
	year, month, day := d.Time().Date()
	return time.Date(year, month, day, 0, 0, 0, 0, c.pacific)
}

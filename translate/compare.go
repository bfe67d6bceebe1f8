package translate

import (
	"fmt"
	"time"
)

// A Comparison is the period that a response compares its own with.
type Comparison uint8

// The comparisons.
const (
	NotCompared    Comparison = iota
	PreviousPeriod            // the days right before, as many
	PreviousYear              // the same dates a year before; February 28 for February 29
)

// The values of compare.
const (
	compareNone           = "none"
	comparePreviousPeriod = "previous_period"
	comparePreviousYear   = "previous_year"
)

func comparisons() []string { return []string{compareNone, comparePreviousPeriod, comparePreviousYear} }

func parseComparison(s string) Comparison {
	switch s {
	case comparePreviousPeriod:
		return PreviousPeriod
	case comparePreviousYear:
		return PreviousYear
	}
	return NotCompared
}

// String names the period that is compared with.
func (c Comparison) String() string {
	if c == PreviousYear {
		return "the same period of the year before"
	}
	return "the previous period"
}

// Compares reports whether the response has two periods.
func (p *Params) Compares() bool { return p.Compare != NotCompared }

// Previous returns the period that the request's period is compared with. A request that does not compare has one too: the days
// right before its own.
func (p *Params) Previous() DateRange {
	if p.Compare == PreviousYear {
		return DateRange{Start: yearBefore(p.Period.Start), End: yearBefore(p.Period.End)}
	}
	return p.Period.Previous()
}

// ComparableFrom returns the first day on which a period of as many days may begin for the one before it not to begin before a day.
func (p *Params) ComparableFrom(day Date) Date {
	if p.Compare == PreviousYear {
		from := day.AddMonths(monthsOfYear)
		if yearBefore(from) < day { // 29 February
			from++
		}
		return from
	}
	return day + Date(p.Period.Days())
}

const monthsOfYear = 12

func yearBefore(day Date) Date { return day.AddMonths(-monthsOfYear) }

// Span returns the days from the first to the last one that the response covers. Some in between may belong to neither period.
func (p *Params) Span() DateRange {
	if !p.Compares() {
		return p.Period.DateRange
	}
	return DateRange{Start: p.Previous().Start, End: p.Period.End}
}

// Covered returns the days that the response covers: the period and the one that it is compared with, as maximal ranges in order.
func (p *Params) Covered() []DateRange {
	if previous := p.Previous(); p.Compares() && previous.End < p.Period.Start-1 {
		return []DateRange{previous, p.Period.DateRange}
	}
	return []DateRange{p.Span()}
}

// counterpart returns the day that a day of the period is compared with.
func (p *Params) counterpart(day Date) Date {
	if p.Compare == PreviousYear {
		return yearBefore(day)
	}
	return day - Date(p.Period.Days())
}

// counted returns the days of the period that an answer counts, as maximal ranges in order: the known days or, of two periods
// that are compared, those whose counterpart is known too (like with like). Day i of the period is compared with day i of the previous
// period, and a date with the same date of the year before.
func (p *Params) counted(g Gaps) []DateRange {
	if len(g.Missing) == 0 && !p.leavesOut(p.Period.End, g) {
		return []DateRange{p.Period.DateRange} // most answers have no gaps, and a range has up to years of days
	}
	var counted []DateRange
	for day := p.Period.Start; day <= p.Period.End; day++ {
		if !p.leavesOut(day, g) && (!p.Compares() || !p.leavesOut(p.counterpart(day), g)) {
			counted = withDay(counted, day)
		}
	}
	return counted
}

// leavesOut reports whether an answer does not count a day, because nothing is known about it. A day that may not be published counts unless
// the answer compares: a zero would read as a loss.
func (p *Params) leavesOut(day Date, g Gaps) bool {
	return g.has(day) || p.Compares() && g.unclear(day)
}

// previous returns the days of the other period that belong to counted days. Two days may have the same counterpart, which counts
// once: February 28 of a year that has no 29th. In a year that has one, the 29th belongs to February 28, so that the period before
// has all of its days.
func (p *Params) previous(counted []DateRange, g Gaps) []DateRange {
	var before []DateRange
	end := p.Previous().End
	for _, r := range counted {
		for day := r.Start; day <= r.End; day++ {
			other := p.counterpart(day)
			before = withDay(before, other)
			if leap := other + 1; p.Compare == PreviousYear && isLeapDay(leap) && leap <= end && !g.has(leap) {
				before = withDay(before, leap)
			}
		}
	}
	return before
}

// withDay adds a day to ranges that are in order and maximal, and none of which begins after it.
func withDay(ranges []DateRange, day Date) []DateRange {
	last := len(ranges) - 1
	switch {
	case last >= 0 && ranges[last].End == day:
		return ranges
	case last >= 0 && ranges[last].End == day-1:
		ranges[last].End = day
		return ranges
	}
	return append(ranges, DateRange{Start: day, End: day})
}

func isLeapDay(day Date) bool {
	_, month, n := day.Time().Date()
	return month == time.February && n == 29
}

// noteLeapDay explains why the two periods differ in their number of days.
func (p *Params) noteLeapDay() {
	if days, before := p.Period.Days(), p.Previous().Days(); p.Compare == PreviousYear && days != before {
		p.Notes = append(p.Notes, fmt.Sprintf("The period has %d days and the same period of the year before %d: the difference is February 29.",
			days, before))
	}
}

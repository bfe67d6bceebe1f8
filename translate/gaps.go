package translate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Gaps are the days of which nothing is known. No answer counts them, and its notes name them: unknown is not zero. The zero
// value is none.
type Gaps struct {
	Unpublished Date   // the first day that the upstream has not published yet; 0: it has published all
	Missing     []Date // days that neither the upstream nor the archive has, in order
	Damaged     []Date // those of Missing that the archive has, but cannot read
}

// Has reports whether nothing is known about a day.
func (g Gaps) Has(day Date) bool {
	_, missing := slices.BinarySearch(g.Missing, day)
	return missing || g.unpublished(day)
}

func (g Gaps) unpublished(day Date) bool { return g.Unpublished != 0 && day >= g.Unpublished }

// published returns the days of a range that the upstream has published.
func (g Gaps) published(r DateRange) DateRange {
	if g.unpublished(r.End) {
		r.End = g.Unpublished - 1
	}
	return r
}

// Counted returns the days of the period that an answer counts, as maximal ranges in order: the known days or, of two periods
// that are compared, those that are known in both (like with like). Day i of the period is compared with day i of the previous
// one, so the days that are counted there are the same ranges, Period.Days earlier.
func (p *Params) Counted(g Gaps) []DateRange {
	var counted []DateRange
	shift := Date(p.Period.Days())
	for day := p.Period.Start; day <= p.Period.End; day++ {
		if g.Has(day) || p.Compare && g.Has(day-shift) {
			continue
		}
		if last := len(counted) - 1; last >= 0 && counted[last].End == day-1 {
			counted[last].End = day
			continue
		}
		counted = append(counted, DateRange{Start: day, End: day})
	}
	return counted
}

// previous returns the days of the previous period that belong to counted days.
func (p *Params) previous(counted []DateRange) []DateRange {
	shifted := make([]DateRange, len(counted))
	shift := Date(p.Period.Days())
	for i, r := range counted {
		shifted[i] = DateRange{Start: r.Start - shift, End: r.End - shift}
	}
	return shifted
}

func daysOf(ranges []DateRange) (n int) {
	for _, r := range ranges {
		n += r.Days()
	}
	return n
}

// CheckComparable refuses to compare two periods that have no known day in common: zeros would read as days without traffic.
// A period of which the upstream has published nothing yet is no error, because time fills it.
func (p *Params) CheckComparable(g Gaps) error {
	if !p.Compare || g.unpublished(p.Period.Start) || len(p.Counted(g)) > 0 {
		return nil
	}
	known := func(r DateRange) string {
		var days []Date
		for day := r.Start; day <= r.End; day++ {
			if !g.Has(day) {
				days = append(days, day)
			}
		}
		if len(days) == 0 {
			return "nothing"
		}
		return JoinDays(days)
	}
	return invalid("no day can be compared: the period from %s to %s has %s, and the previous period, from %s to %s, has %s",
		p.Period.Start, p.Period.End, known(p.Period.DateRange), p.Period.Previous().Start, p.Period.Previous().End, known(p.Period.Previous()))
}

// notes explains the gaps of the answer.
func (p *Params) notes(g Gaps) []string {
	var notes []string
	absent := slices.DeleteFunc(slices.Clone(g.Missing), func(day Date) bool { return slices.Contains(g.Damaged, day) })
	for _, gap := range [...]struct {
		days []Date
		what string
	}{{absent, "not archived"}, {g.Damaged, "damaged in the archive"}} {
		verb := "days are"
		if len(gap.days) == 1 {
			verb = "day is"
		}
		if len(gap.days) > 0 {
			notes = append(notes, fmt.Sprintf("%d %s %s and not counted: %s.", len(gap.days), verb, gap.what, JoinDays(gap.days)))
		}
	}
	if unpublished := p.unpublished(g); len(unpublished) > 0 {
		notes = append(notes, "Search Console has not published "+joinWords(unpublished)+" yet.")
	}
	if days, counted := p.Period.Days(), daysOf(p.Counted(g)); p.Compare && counted > 0 && counted < days {
		notes = append(notes, fmt.Sprintf("%d of %d days are missing on one side: both periods are compared over the other %d.",
			days-counted, days, counted))
	}
	return notes
}

// unpublished returns the days of the period that the upstream has not published.
func (p *Params) unpublished(g Gaps) (days []string) {
	for day := p.Period.Start; day <= p.Period.End; day++ {
		if g.unpublished(day) {
			days = append(days, day.String())
		}
	}
	return days
}

// joinWords lists words as English does: a, b and c.
func joinWords(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// JoinDays lists days, which are in order, as ranges, at most ten of them.
func JoinDays(days []Date) string {
	const most = 10
	var names []string
	for i := 0; i < len(days); {
		end := i + 1
		for end < len(days) && days[end] == days[end-1]+1 {
			end++
		}
		if len(names) == most {
			names = append(names, "and "+strconv.Itoa(len(days)-i)+" more")
			break
		}
		name := days[i].String()
		if end > i+1 {
			name += " to " + days[end-1].String()
		}
		names = append(names, name)
		i = end
	}
	return strings.Join(names, ", ")
}

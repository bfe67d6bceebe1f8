package translate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Gaps are the days about which nothing is known. No answer counts them, and its notes name them: unknown is not zero. The zero
// value is none.
type Gaps struct {
	Unpublished Date   // the first day that the upstream has not published yet; 0: it has published all
	Unclear     Date   // the first day of which nothing shows whether the upstream has published it; 0: none. It counts, but not in a comparison
	Missing     []Date // days that neither the upstream nor the archive has, in order
	Damaged     []Date // those of Missing that the archive has, but cannot read
	Archived    bool   // days that the upstream has are missing too: both periods of movers come from the archive
}

// Reason returns the end of a refusal that explains why days that the upstream has count as missing; empty if none do.
func (g Gaps) Reason() string {
	if !g.Archived {
		return ""
	}
	return "; movers compare archived days only with archived days, and one of these periods needs the archive"
}

// has reports whether nothing is known about a day.
func (g Gaps) has(day Date) bool {
	_, missing := slices.BinarySearch(g.Missing, day)
	return missing || g.unpublished(day)
}

func (g Gaps) unpublished(day Date) bool { return g.Unpublished != 0 && day >= g.Unpublished }

func (g Gaps) unclear(day Date) bool { return g.Unclear != 0 && day >= g.Unclear }

// published returns the days of a range that the upstream has published.
func (g Gaps) published(r DateRange) DateRange {
	if g.unpublished(r.End) {
		r.End = g.Unpublished - 1
	}
	return r
}

// FirstPresent returns the first day of ranges that is not missing.
func (g Gaps) FirstPresent(ranges []DateRange) (first Date, ok bool) {
	for _, r := range ranges {
		for day := r.Start; day <= r.End; day++ {
			if _, missing := slices.BinarySearch(g.Missing, day); !missing {
				return day, true
			}
		}
	}
	return 0, false
}

// MissingPeriod returns the period, or the one that it is compared with, if all of its days are missing, and whether the archive has some of
// them that it cannot read.
func (p *Params) MissingPeriod(g Gaps) (r DateRange, damaged, ok bool) {
	for _, r := range [...]DateRange{p.Period.DateRange, p.Previous()} {
		if _, present := g.FirstPresent([]DateRange{r}); !present {
			return r, slices.ContainsFunc(g.Damaged, func(day Date) bool { return day >= r.Start && day <= r.End }), true
		}
		if !p.Compares() {
			break
		}
	}
	return DateRange{}, false, false
}

func countDays(ranges []DateRange) (n int) {
	for _, r := range ranges {
		n += r.Days()
	}
	return n
}

// CheckComparable refuses to compare two periods that have no known day in common: zeros would read as days without traffic.
// A period that begins on a day that is not published yet, or may not be, is not an error: its figures will come.
func (p *Params) CheckComparable(g Gaps) error {
	if !p.Compares() || g.unpublished(p.Period.Start) || g.unclear(p.Period.Start) || len(p.counted(g)) > 0 {
		return nil
	}
	known := func(r DateRange) string {
		var days []Date
		for day := r.Start; day <= r.End; day++ {
			if !p.leavesOut(day, g) {
				days = append(days, day)
			}
		}
		if len(days) == 0 {
			return "nothing"
		}
		return JoinDays(days)
	}
	previous := p.Previous()
	return invalid("no day can be compared: the period from %s to %s has %s, and %s, from %s to %s, has %s%s",
		p.Period.Start, p.Period.End, known(p.Period.DateRange), p.Compare, previous.Start, previous.End, known(previous), g.Reason())
}

// notes explains the gaps of the answer.
func (p *Params) notes(g Gaps) []string {
	var notes []string
	absent := slices.DeleteFunc(slices.Clone(g.Missing), func(day Date) bool { return slices.Contains(g.Damaged, day) })
	for _, gap := range [...]struct {
		days []Date
		what string
	}{{absent, "not archived"}, {g.Damaged, "damaged in the archive"}} {
		if n := len(gap.days); n > 0 {
			notes = append(notes, fmt.Sprintf("%d %s %s and not counted: %s.", n, oneOrMore(n, "day is", "days are"), gap.what, JoinDays(gap.days)))
		}
	}
	if unpublished := p.daysFrom(g.Unpublished); len(unpublished) > 0 {
		notes = append(notes, "Search Console has not published "+joinWords(unpublished)+" yet.")
	} else if unclear := p.daysFrom(g.Unclear); len(unclear) > 0 {
		notes = append(notes, "Search Console may not have published "+joinWords(unclear)+" yet.")
	}
	if !p.Compares() {
		return notes
	}
	if days, counted := p.Period.Days(), countDays(p.counted(g)); counted > 0 && counted < days {
		notes = append(notes, fmt.Sprintf("%d of %d days %s missing on one side: both periods are compared over the other %d.",
			days-counted, days, oneOrMore(days-counted, "is", "are"), counted))
	}
	return notes
}

// oneOrMore returns the words for one thing or for several.
func oneOrMore(n int, one, several string) string {
	if n == 1 {
		return one
	}
	return several
}

// daysFrom returns the days of the period from a day on; none for 0.
func (p *Params) daysFrom(from Date) (days []string) {
	if from == 0 {
		return nil
	}
	for day := max(p.Period.Start, from); day <= p.Period.End; day++ {
		days = append(days, day.String())
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

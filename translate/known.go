package translate

import (
	"bytes"
	"slices"
)

// KnownDays is what a property's daily series, see SeriesQuery, shows about its days: a day has figures if it has impressions.
// It is comparable. The zero value knows nothing, and considers every day published.
type KnownDays struct {
	asked       DateRange // the days of the query
	first, last Date      // with figures, if any is set
	any         bool      // a day has figures
	incomplete  Date      // the first day that the upstream itself calls incomplete; 0: none
	steady      bool      // each of the steadyDays before last has figures
}

// The upstream publishes a day two or three days late, and rarely later. So a site that has had figures on every day for two
// weeks, and none since a few days, waits for the upstream. Other sites have had no traffic.
const (
	// LongestLag is how many days before the anchor the last published day may be.
	LongestLag = 5
	steadyDays = 14
)

// KnownDaysOf returns what the rows of a query for one row a day, or of a grid, without filters, over the days asked show. Rows that are
// not of a day are ignored.
func KnownDaysOf(rows *Rows, asked DateRange) KnownDays {
	k := KnownDays{asked: asked, incomplete: rows.traits.incomplete}
	days := make([]Date, 0, min(rows.Len(), asked.Days()))
	var counted []byte // the day of the row before: those of a grid are grouped by day
	for i := range rows.Len() {
		text, _ := splitGridKey(rows.Key(i))
		if rows.metrics[i].Impressions <= 0 || bytes.Equal(text, counted) {
			continue
		}
		day, err := ParseDate(string(text))
		if err != nil || day < asked.Start || day > asked.End || k.incomplete != 0 && day >= k.incomplete {
			continue
		}
		days, counted = append(days, day), text
	}
	if len(days) == 0 {
		return k
	}
	k.first, k.last, k.any = slices.Min(days), slices.Max(days), true
	var before indexSet // the days before the last, by their distance
	for _, day := range days {
		if distance := int(k.last - day); distance > 0 && distance <= steadyDays {
			before.add(distance)
		}
	}
	const all = 1<<(steadyDays+1) - 2
	k.steady = before == all
	return k
}

// LatestDays returns the days up to an anchor that a series must have to show which of them are not published.
func LatestDays(anchor Date) DateRange {
	return DateRange{Start: anchor - LongestLag - steadyDays, End: anchor}
}

// EarliestDays returns the days from the start of the upstream's window on that a series must have to show which of them are lost.
func EarliestDays(window DateRange) DateRange {
	return DateRange{Start: window.Start, End: window.Start + LongestLag + steadyDays}
}

// LostUntil returns the last day that the upstream has lost at the start of its window, which is an estimate; 0: none. A site that has had
// figures on every day for two weeks, since a few days after the start, has had them before.
func LostUntil(rows *Rows, window DateRange) Date {
	early := EarliestDays(window)
	var figures indexSet // days, by their distance from the start
	for i := range rows.Len() {
		day, err := ParseDate(string(rows.Key(i)))
		if err == nil && day >= early.Start && day <= early.End && rows.metrics[i].Impressions > 0 {
			figures.add(int(day - early.Start))
		}
	}
	for lost := 1; lost <= LongestLag; lost++ {
		const all = 1<<(steadyDays+1) - 1
		if figures&(1<<lost-1) == 0 && figures>>lost&all == all {
			return early.Start + Date(lost) - 1
		}
	}
	return 0
}

// UnclearDays returns the days at the end of a period, up to an anchor, that a filtered series over the days asked does not explain: it has
// no figures of them, and the upstream may not have published them. Only the series without filters shows whether it has. likely is whether
// traffic may be missing: the filter matches that of another day, or all days are so late.
func UnclearDays(rows *Rows, asked, period DateRange, anchor Date) (unclear DateRange, likely bool) {
	last := anchor - LongestLag // with figures, or published for certain
	likely = asked.Start > last
	for i := range rows.Len() {
		if day, err := ParseDate(string(rows.Key(i))); err == nil && rows.metrics[i].Impressions > 0 {
			last, likely = max(last, day), true
		}
	}
	return DateRange{Start: max(last, period.Start-1) + 1, End: period.End}, likely
}

// Unclear returns those of some days up to an anchor that the series does not explain either: an older one does not have the last of them.
// None are left if it shows that days are not published.
func (k KnownDays) Unclear(days DateRange, anchor Date) DateRange {
	if k.asked.End >= days.End || k.Unpublished(anchor) != 0 {
		return DateRange{Start: days.End + 1, End: days.End}
	}
	return DateRange{Start: max(days.Start, k.Published(anchor)+1), End: days.End}
}

// UnclearFrom returns the first day up to an anchor that the series is too old to have, if a newer one may show that it is not published; 0:
// there is none.
func (k KnownDays) UnclearFrom(anchor Date) Date {
	if next := k.asked.End + 1; k.steady && k.last == k.asked.End && next <= anchor {
		return next
	}
	return 0
}

// Has reports whether the series has a day, with figures or without.
func (k KnownDays) Has(day Date) bool { return day >= k.asked.Start && day <= k.asked.End }

// Bounds returns the first and the last day with figures; ok is false if none has any.
func (k KnownDays) Bounds() (first, last Date, ok bool) { return k.first, k.last, k.any }

// Moved returns how many days the start of the upstream's window has moved since the query.
func (k KnownDays) Moved(window DateRange) Date { return max(0, window.Start-k.asked.Start) }

// Unpublished returns the first day up to an anchor that the upstream has not published yet, or 0 if it has published all. The
// series may be older than the anchor: the days after it count as published, unless the series lacks the days before them. The delay of
// the upstream is measured up to the end of the series; nothing is known about the days after it.
func (k KnownDays) Unpublished(anchor Date) Date {
	if k.incomplete != 0 && k.incomplete <= anchor {
		return k.incomplete
	}
	if end := min(k.asked.End, anchor); k.steady && k.last < end && end-k.last <= LongestLag {
		return k.last + 1
	}
	return 0
}

// Published returns the last day up to an anchor that the upstream has published for certain: the last one with figures, but no earlier
// than the longest lag allows. Of a site that has no traffic on some days, the days after it may be published or not.
func (k KnownDays) Published(anchor Date) Date {
	if from := k.Unpublished(anchor); from != 0 {
		return from - 1
	}
	certain := anchor - LongestLag
	if k.any {
		certain = max(certain, min(k.last, anchor))
	}
	return certain
}

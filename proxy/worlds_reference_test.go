package proxy

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"
)

// A state is what is known of a day, as the documents define it.
type state string

const (
	isLive        state = "live"          // the upstream has figures
	isStored      state = "archived"      // the archive answers
	isQuiet       state = "quiet"         // known: no traffic
	isYoung       state = "young"         // known: before the site's first figures
	isUnpublished state = "not published" // unknown
	isMissing     state = "missing"       // unknown: the archive should have it
)

func (s state) known() bool { return s != isUnpublished && s != isMissing }

// A reading is one admissible way to read a world: what the documents leave open is decided by its fields.
type reading struct {
	*truth
	copied bool // a copy of the series is at hand
	grid   bool // the rows that answer are those of a grid, which show which days are published
	before bool // a copy of the series of the day before is at hand
	// lostAreYoung decides about days that neither the upstream nor the archive has, between archived days and the upstream's first:
	// days without traffic, or missing.
	lostAreYoung bool
	// youngAreMissing decides about days before the archive's first figures, of which the upstream has none, if its own begin later.
	youngAreMissing bool
	moversStored    bool // movers whose side needs the archive: compare archived days
}

// bounds returns the first and the last day of which the upstream has figures.
func (x *truth) bounds() (first, last date, ok bool) {
	if x.bounded == nil {
		x.bounded = &shownDays{}
		for d := liveStart; d <= lastDay; d++ {
			if x.shown(d) {
				if !x.bounded.any {
					x.bounded.first, x.bounded.any = d, true
				}
				x.bounded.last = d
			}
		}
	}
	return x.bounded.first, x.bounded.last, x.bounded.any
}

// shownDays are the bounds of what the upstream shows.
type shownDays struct {
	first, last date
	any         bool
}

// dayBefore returns the truth as Search Console showed it on the day before. It may have published a day since.
func (x *truth) dayBefore() *truth {
	if x.previous == nil {
		previous := *x
		previous.today, previous.lastPublished, previous.bounded = x.today-1, x.lastPublished-1, nil
		x.previous = &previous
	}
	return x.previous
}

// late reports whether the days after the last one with figures are not published, rather than without traffic.
func (x *truth) late() bool {
	_, last, ok := x.bounds()
	return ok && last < x.today && x.today-last <= 5 && x.steadyBefore(last)
}

// steadyBefore reports whether Search Console has figures of each of the 14 days before one.
func (x *truth) steadyBefore(last date) bool {
	for d := last - 14; d < last; d++ {
		if !x.shown(d) {
			return false
		}
	}
	return true
}

// firstStored returns the first archived day with figures.
func (x *truth) firstStored() (date, bool) {
	for _, d := range slices.Sorted(maps.Keys(x.archive.days)) {
		for _, rows := range x.archive.days[d] {
			if len(rows) > 0 {
				return d, true
			}
		}
	}
	return 0, false
}

// state returns what is known of a day for a table.
func (x *reading) state(d date, table string) state {
	rows, _, stored := x.stored(d, table)
	first, last, ok := x.bounds()
	if x.stale {
		return x.staleState(d)
	}
	if x.before {
		if _, last, ok := x.dayBefore().bounds(); ok && d > last && x.dayBefore().late() {
			return isUnpublished
		}
	}
	switch {
	case x.kind != connected || d < liveStart || x.moversStored:
		if stored {
			return isStored
		}
		return isMissing
	case x.shown(d):
		return isLive
	case ok && d > last && x.late() && (x.copied || x.grid):
		return isUnpublished
	case !x.copied || !ok:
		return isQuiet
	case d > first:
		return isQuiet
	case len(rows) > 0:
		return isStored
	case stored:
		return isQuiet
	}
	if from, ok := x.firstStored(); ok && (from <= d || x.youngAreMissing && from < first) && !x.lostAreYoung {
		return isMissing
	}
	return isYoung
}

// An expectation is what the answer to a question must say.
type expectation struct {
	refusals   []string // "status code", of which one is the answer; empty: a success
	totals     tally
	previous   tally
	days       map[date]tally // the rows of a timeseries
	rows       map[string]tally
	before     map[string]tally // the previous period's rows
	counted    []date           // of the period
	comparable []date           // of the previous period
	states     map[date]state   // of the period and, with compare, of the one before
	clear      date             // the days after it are perhaps not published: they do not count in a comparison
}

// expect answers a question naively: day by day.
func (x *reading) expect(t testing.TB, q *question) *expectation {
	t.Helper()
	e := &expectation{states: map[date]state{}, days: map[date]tally{}, clear: x.clearUntil(t, q)}
	start := q.from
	if q.compare {
		start = q.counterpart(q.from)
	}
	if start < earliestDay {
		e.refusals = []string{"400 DATE_RANGE_TOO_OLD"}
		return e
	}
	for d := q.from; d <= q.to; d++ {
		e.states[d] = x.state(d, q.table)
		if q.compare {
			e.states[q.counterpart(d)] = x.state(q.counterpart(d), q.table)
		}
	}
	if q.filter != nil && !x.filterable(start) {
		e.refusals = []string{"503 FILTERED_DATA_UNAVAILABLE"}
		return e
	}
	published := false
	for d := q.from; d <= q.to; d++ {
		published = published || e.states[d] != isUnpublished && !(q.compare && d > e.clear)
		if !e.states[d].known() || q.compare && (d > e.clear || !e.states[q.counterpart(d)].known()) {
			continue
		}
		e.counted = append(e.counted, d)
		if q.compare {
			e.comparable = append(e.comparable, q.counterpart(d))
		}
	}
	if len(e.counted) == 0 && published {
		e.refusals = x.refusals(q, start)
		return e
	}
	e.rows, e.before = x.sum(t, q, e.states, e.counted), x.sum(t, q, e.states, e.comparable)
	e.totals, e.previous = e.rows[""], e.before[""]
	if q.endpoint == "/timeseries" {
		x.fillDays(t, q, e)
	}
	return e
}

// clearUntil returns the last day of which a question can tell whether it is published. A filter that matches nothing shows nothing, and is not
// worth a call for the series: then only the archive, which has no unpublished day, can tell of the last five. Tables and movers can tell of no day
// that a copy of the day before may lack.
func (x *reading) clearUntil(t testing.TB, q *question) date {
	t.Helper()
	if x.kind != connected {
		return q.to
	}
	if x.before && q.table != "total" {
		if _, last, _ := x.dayBefore().bounds(); !x.grid && last == lastDay-1 && x.dayBefore().steadyBefore(last) {
			return last // a copy of today's might show the next day as not published
		}
		return lastDay
	}
	if x.copied || q.filter == nil || q.table != "total" || q.readsGrid() || x.readsSeries(t, q) == atHand ||
		x.matches(t, q.filter, q.counterpart(q.from), min(q.to, x.lastPublished)) {
		return lastDay
	}
	clear := lastDay - 5
	for d := range x.archive.days {
		clear = max(clear, d)
	}
	return clear
}

// fillDays fills in the rows of a timeseries.
func (x *reading) fillDays(t testing.TB, q *question, e *expectation) {
	t.Helper()
	var shown map[string]tally
	if q.to >= liveStart {
		shown = x.ask(t, "date", q.filter, max(q.from, liveStart), q.to)
	}
	for _, d := range e.counted {
		switch e.states[d] {
		case isLive:
			e.days[d] = shown[d.String()]
		case isStored:
			rows, _, _ := x.stored(d, q.table)
			e.days[d] = rows[""]
		}
	}
}

// filterable reports whether filters reach all days from one on: only Search Console filters.
func (x *reading) filterable(start date) bool {
	first := liveStart
	if from, _, ok := x.bounds(); ok && x.copied {
		if stored, has := x.firstStored(); has && stored < from {
			first = from
		}
	}
	return x.kind == connected && start >= first
}

// sum adds up the rows of days, each from where it is known.
func (x *reading) sum(t testing.TB, q *question, states map[date]state, days []date) map[string]tally {
	t.Helper()
	var live []date
	sums := map[string]tally{}
	for _, d := range days {
		switch states[d] {
		case isLive:
			live = append(live, d)
		case isStored:
			rows, _, _ := x.stored(d, q.table)
			addRows(sums, rows)
		}
	}
	addRows(sums, x.live(t, q, live))
	return sums
}

func addRows(sums, rows map[string]tally) {
	for key, row := range rows {
		sum := sums[key]
		sum.add(row)
		sums[key] = sum
	}
}

// refusals returns the errors with which a question is refused of which no day is known, or none on both sides.
func (x *reading) refusals(q *question, start date) []string {
	days := x.storedDays(q.table)
	switch {
	case q.compare && x.kind != disconnected:
		return []string{"400 VALIDATION_ERROR", "400 DATE_RANGE_TOO_OLD"}
	case x.kind == archived && len(days) > 0 && q.from > days[len(days)-1]:
		return []string{"400 VALIDATION_ERROR"}
	case x.kind == archived && len(days) > 0 && q.to > days[0], x.kind == archived && len(days) == 0:
		return []string{"400 VALIDATION_ERROR", "400 DATE_RANGE_TOO_OLD"}
	case q.to < liveStart && (len(days) == 0 || q.to < days[0]), x.kind == archived:
		return []string{"400 DATE_RANGE_TOO_OLD"}
	case q.to < liveStart, x.kind == connected: // a hole
		return []string{"400 VALIDATION_ERROR", "400 DATE_RANGE_TOO_OLD"}
	case len(days) == 0 || start < days[0] || q.compare:
		return []string{"503 UPSTREAM_UNAVAILABLE", "400 DATE_RANGE_TOO_OLD", "400 VALIDATION_ERROR"}
	}
	return []string{"503 UPSTREAM_UNAVAILABLE"}
}

// storedDays returns the archived days of a table, in order.
func (x *truth) storedDays(table string) []date {
	var days []date
	for _, d := range slices.Sorted(maps.Keys(x.archive.days)) {
		if _, _, ok := x.stored(d, table); ok {
			days = append(days, d)
		}
	}
	return days
}

// ranked returns the keys of rows in an order, ties by ascending key.
func ranked(rows map[string]tally, order string) []string {
	by, descending := strings.CutPrefix(order, "-")
	return slices.SortedFunc(maps.Keys(rows), func(a, b string) int {
		c := 0
		switch by {
		case "clicks":
			c = cmp.Compare(rows[a].clicks, rows[b].clicks)
		case "impressions":
			c = cmp.Compare(rows[a].impressions, rows[b].impressions)
		}
		if descending {
			c = -c
		}
		return cmp.Or(c, cmp.Compare(a, b))
	})
}

// certainty is whether a copy of the series is at hand.
type certainty int

const (
	notAtHand certainty = iota
	perhapsAtHand
	atHand
)

func (c certainty) String() string { return [...]string{"no", "perhaps", "yes"}[c] }

// readsSeries tells whether a filtered summary or timeseries brings a copy of the series: it has figures, or only days that are among the last
// five, but none on its last day, which is one of these.
func (x *truth) readsSeries(t testing.TB, q *question) certainty {
	t.Helper()
	if x.kind != connected || q.table != "total" || q.filter == nil || q.readsGrid() || q.to <= lastDay-5 ||
		x.shown(q.to) && x.matches(t, q.filter, q.to, q.to) {
		return notAtHand
	}
	if q.counterpart(q.from) > lastDay-5 || x.matches(t, q.filter, q.counterpart(q.from), min(q.to, x.lastPublished)) {
		return atHand
	}
	return notAtHand
}

// matches reports whether a filter matches traffic of live days.
func (x *truth) matches(t testing.TB, filter *worldFilter, from, to date) bool {
	t.Helper()
	from = max(from, liveStart)
	return from <= to && x.ask(t, "total", filter, from, to)[""].impressions > 0
}

// readsGrid reports whether the daily grid of devices or countries answers a question about live days: the latter has 96 of them.
func (q *question) readsGrid() bool {
	by, from := q.table, q.from
	switch {
	case q.table == "total" && q.filter != nil: // the days before come along
		by, from = q.filter.dimension, max(liveStart, q.counterpart(q.from))
	case q.filter != nil && q.filter.dimension != q.table:
		return false
	}
	return by == "device" && from >= liveStart || by == "country" && from > lastDay-96
}

// readings returns the admissible readings of a world for a question.
func (x *truth) readings(q *question, copied certainty) (all []*reading) {
	if copied != notAtHand {
		all = append(all, x.readingsOf(q, true)...)
	}
	if copied != atHand {
		all = append(all, x.readingsOf(q, false)...)
	}
	return all
}

func (x *truth) readingsOf(q *question, copied bool) []*reading {
	strict := reading{truth: x, copied: copied, grid: q.readsGrid(), before: !copied && x.copiedBefore}
	loose, missing := strict, strict
	loose.lostAreYoung, missing.youngAreMissing = true, true
	all := []*reading{&strict, &loose, &missing}
	if !strings.HasPrefix(q.endpoint, "/movers") || x.kind != connected {
		return all
	}
	// A side needs the archive if it has a day before the live window, or one that the upstream lost. The archive has some of its
	// days, none, or only some that the upstream has too: then both are admissible.
	first := liveStart
	if from, _, ok := x.bounds(); ok && copied {
		first = from
	}
	needed, has, hasOld := false, false, false
	n := date(q.days())
	for _, side := range [][2]date{{q.from - n, q.from - 1}, {q.from, q.to}} {
		if side[0] >= first {
			continue
		}
		needed = needed || side[0] < liveStart
		for d := side[0]; d <= side[1]; d++ {
			if rows, _, ok := x.stored(d, q.table); ok {
				has = true
				hasOld = hasOld || d < liveStart || d < first && len(rows) > 0
			}
		}
	}
	stored := reading{truth: x, copied: copied, moversStored: true}
	switch {
	case hasOld && needed:
		return []*reading{&stored}
	case has:
		return append(all, &stored)
	}
	return all
}

package proxy

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sara/translate"
)

// The notes that an answer about a random world can have. Each is checked against the truth; a note of another form is a failure.
type noteChecker struct {
	*problems
	x *reading
	q *question
	e *expectation

	unpublished, unclear, missing []date // named as such

	more     int // missing days that are counted, but not named
	compared bool
	byPage   bool // figures count by page
	begins   date
}

var (
	unpublishedNote = regexp.MustCompile(`^Search Console has not published (.*) yet\.$`)
	unclearNote     = regexp.MustCompile(`^Search Console may not have published (.*) yet\.$`)
	missingNote     = regexp.MustCompile(`^(\d+) days? (?:is|are) not archived and not counted: (.*)\.$`)
	comparedNote    = regexp.MustCompile(`^(\d+) of (\d+) days? (?:is|are) missing on one side: both periods are compared over the other (\d+)\.$`)
	upToNote        = regexp.MustCompile(`^The days up to (\S+) come from the archive`)
	derivedNote     = regexp.MustCompile(`^(\d+) days? (?:was|were) archived without totals`)
	anomalyNote     = regexp.MustCompile(`^[a-z0-9-]+: .* \((?:since )?(\d{4}-\d\d-\d\d)(?: to (\d{4}-\d\d-\d\d))?\)$`)
	dateText        = regexp.MustCompile(`\d{4}-\d\d-\d\d`)
	spanText        = regexp.MustCompile(`(\d{4}-\d\d-\d\d)(?: to (\d{4}-\d\d-\d\d))?`)
)

// checkNotes checks that each note is true, and that the unknown days and the uncounted ones are named.
func (x *reading) checkNotes(p *problems, q *question, e *expectation, notes []string) {
	c := &noteChecker{problems: p, x: x, q: q, e: e}
	for _, note := range notes {
		c.read(note)
	}
	c.named("not published", isUnpublished, c.unpublished)
	c.namedUnclear()
	c.named("missing", isMissing, c.missing)
	if n, counted := q.days(), len(e.counted); q.compare && counted > 0 && counted < n && !c.compared {
		c.add("%d of %d days are compared, and no note says so: %q", counted, n, notes)
	}
	if filtered := q.filter != nil && q.filter.dimension == "page"; c.byPage != filtered && len(e.counted) > 0 {
		c.add("it counts by page: %t, and a note says so: %t", filtered, c.byPage)
	}
	young := slices.ContainsFunc(e.counted, func(d date) bool { return e.states[d] == isYoung })
	if (young || x.beginsLater(q, e)) && c.begins == 0 {
		c.add("no note names the day on which the figures begin: %q", notes)
	}
	if span := e.span(); c.begins != 0 && c.begins <= span[0] {
		c.add("a note names %s as the day on which the figures begin", c.begins)
	}
}

// beginsLater reports whether the first known day of a summary, timeseries or movers is archived as one without traffic, before the first day
// with figures that the server knows: those of the upstream only from a copy of its series.
func (x *reading) beginsLater(q *question, e *expectation) bool {
	span := e.span()
	i := slices.IndexFunc(span, func(d date) bool { return e.states[d].known() })
	if i < 0 || q.table != "total" && !strings.HasPrefix(q.endpoint, "/movers") || e.states[span[i]] != isStored {
		return false
	}
	begins, ok := x.firstStored()
	if live, _, shown := x.bounds(); x.kind == connected && shown && (x.copied || x.before) && (!ok || live < begins) {
		begins, ok = live, true
	}
	return ok && begins > span[i]
}

// named checks that a note names the unknown days of the period. In a comparison, those that are missing on one side may be counted
// instead.
func (c *noteChecker) named(what string, s state, named []date) {
	for _, d := range named {
		if c.e.states[d] != s {
			c.add("a note names %s as %s, which is %s", d, what, c.e.states[d])
		}
	}
	unnamed := 0
	for d := c.q.from; d <= c.q.to; d++ {
		if c.e.states[d] == s && !slices.Contains(named, d) {
			unnamed++
		}
	}
	if s == isMissing && unnamed > 0 && (c.more >= unnamed || c.compared) {
		return
	}
	if unnamed > 0 {
		c.add("no note names %d days that are %s, only %v", unnamed, what, named)
	}
}

// namedUnclear checks that a note names the days of the period that are perhaps not published.
func (c *noteChecker) namedUnclear() {
	var want []date
	for d := max(c.q.from, c.e.clear+1); d <= c.q.to; d++ {
		want = append(want, d)
	}
	if !slices.Equal(c.unclear, want) {
		c.add("a note names %v as perhaps not published, want %v", c.unclear, want)
	}
}

// countIn returns the value of digits.
func countIn(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return -1
	}
	return n
}

// read checks one note.
func (c *noteChecker) read(note string) {
	if m := unpublishedNote.FindStringSubmatch(note); m != nil {
		c.unpublished = c.days(m[1])
		return
	}
	if m := unclearNote.FindStringSubmatch(note); m != nil {
		c.unclear = c.days(m[1])
		return
	}
	if m := missingNote.FindStringSubmatch(note); m != nil {
		c.missing = c.days(m[2])
		c.more = countIn(m[1]) - len(c.missing)
		if missing := c.count(isMissing); c.more < 0 || countIn(m[1]) > missing || c.more > 0 && !strings.Contains(note, "more") {
			c.add("%q: %d days are missing", note, missing)
		}
		return
	}
	if m := comparedNote.FindStringSubmatch(note); m != nil {
		c.compared = true
		if n, counted := c.q.days(), len(c.e.counted); !c.q.compare || countIn(m[1]) != n-counted || countIn(m[2]) != n || countIn(m[3]) != counted {
			c.add("%q: %d of %d days are compared", note, counted, n)
		}
		return
	}
	c.readSource(note)
}

// lastStored returns the last archived day that counts, and the last one of the periods. A comparison leaves days out, and archived
// days without traffic may be read or not.
func (c *noteChecker) lastStored() (counted, last date) {
	for _, d := range c.e.span() {
		_, _, ok := c.x.stored(d, c.q.table)
		if ok && (c.e.states[d] == isStored || c.e.states[d] == isQuiet) {
			last = d
		}
		if c.e.states[d] == isStored && c.counts(d) {
			counted = d
		}
	}
	return counted, last
}

// derived returns how many archived days without totals count, and how many there are in the periods.
func (c *noteChecker) derived() (counted, all int) {
	for d, s := range c.e.states {
		if _, derived, _ := c.x.stored(d, c.q.table); s != isStored || !derived {
			continue
		}
		all++
		if c.counts(d) {
			counted++
		}
	}
	return counted, all
}

func (c *noteChecker) counts(d date) bool {
	return slices.Contains(c.e.counted, d) || slices.Contains(c.e.comparable, d)
}

// readSource checks a note about where figures come from.
func (c *noteChecker) readSource(note string) {
	if m := upToNote.FindStringSubmatch(note); m != nil {
		counted, last := c.lastStored()
		if m[1] < counted.String() || m[1] > last.String() {
			c.add("%q: the last archived day is %s, the last that counts %s", note, last, counted)
		}
		return
	}
	if m := derivedNote.FindStringSubmatch(note); m != nil {
		if counted, all := c.derived(); countIn(m[1]) < counted || countIn(m[1]) > all {
			c.add("%q: %d days are, of which %d count", note, all, counted)
		}
		return
	}
	if m := anomalyNote.FindStringSubmatch(note); m != nil {
		if before := c.q.counterpart(c.q.from); m[1] > c.q.to.String() || m[2] != "" && m[2] < before.String() {
			c.add("%q: the days and those before them are %s to %s", note, before, c.q.to)
		}
		return
	}
	if c.x.stale && strings.HasPrefix(note, "The figures of Search Console are a copy from 2026-11-2") {
		return
	}
	if strings.HasPrefix(note, "Search Console counts by page") {
		c.byPage = true
		return
	}
	if strings.Contains(note, "begin") {
		c.readBeginning(note)
		return
	}
	if strings.Contains(note, "top 100") && c.x.moversStored || c.x.kind != connected && strings.Contains(note, "top 100") {
		return
	}
	c.add("unknown note %q", note)
}

// readBeginning checks the note on the first day with figures.
func (c *noteChecker) readBeginning(note string) {
	first, _, ok := c.x.bounds()
	stored, has := c.x.firstStored()
	named := dateText.FindString(note)
	if ok && named == first.String() {
		c.begins = first
	} else if has && named == stored.String() {
		c.begins = stored
	} else {
		c.add("%q: the upstream's figures begin on %s, the archive's on %s", note, first, stored)
	}
}

func (c *noteChecker) count(s state) (n int) {
	for _, of := range c.e.states {
		if of == s {
			n++
		}
	}
	return n
}

// days returns the days that a list names, such as "2026-11-01, 2026-11-03 to 2026-11-05 and 2026-11-07".
func (c *noteChecker) days(list string) (days []date) {
	for _, m := range spanText.FindAllStringSubmatch(list, -1) {
		from, err := translate.ParseDate(m[1])
		to, err2 := translate.ParseDate(cmp.Or(m[2], m[1]))
		if err != nil || err2 != nil {
			c.add("%q has no dates: %v, %v", list, err, err2)
			continue
		}
		for d := from; d <= to; d++ {
			days = append(days, d)
		}
	}
	return days
}

package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sara/proxy/upstream/gscsim"
	"sara/translate"
)

// A date is a day of a truth.
type date = translate.Date

// The days that every truth hangs on, at noon of the tests' world: the window of a Pro plan.
var (
	lastDay      = translate.NewDate(2026, 11, 19) // the anchor
	liveStart    = translate.NewDate(2025, 7, 20)  // 16 months before it
	earliestDay  = translate.NewDate(2023, 11, 20) // 36 months before it
	tableNames   = []string{"query", "page", "country", "device"}
	archivedKeys = map[string][]string{
		"query":   {"stored one", "stored two", "stored three"},
		"page":    {"https://stored.example/", "https://stored.example/a"},
		"country": {"deu", "gbr", "usa"},
		"device":  {"DESKTOP", "MOBILE", "TABLET"},
	}
)

// How a property of a truth is connected.
const (
	connected    = "connected"
	disconnected = "disconnected"
	archived     = "archived"
)

// A tally is the figures of any number of days.
type tally struct{ clicks, impressions, positions float64 }

func (t *tally) add(other tally) {
	t.clicks += other.clicks
	t.impressions += other.impressions
	t.positions += other.positions
}

// A truth is one random world: what a site has, what Search Console shows of it, and what the archive keeps of it.
type truth struct {
	seed, number uint64
	kind         string
	site         gscsim.Site
	id           string // of the property

	firstDay      date // the first day with traffic
	quiet         map[date]bool
	lastPublished date
	today         date // the anchor
	archive       *keptDays
	upstream      *gscsim.Server  // has every figure, published or not
	bounded       *shownDays      // its bounds; nil: not computed yet
	newer         *truth          // after more days were published, of which copies know nothing; nil: none were
	previous      *truth          // see dayBefore; nil: not computed yet
	copiedBefore  bool            // the series was read on the day before
	stale         bool            // a copy of today answers on the day after
	asked         map[string]bool // see question.rows
}

// publish publishes days of a late site.
func (x *truth) publish(w *world, r *rand.Rand) {
	w.t.Helper()
	newer := *x
	newer.lastPublished, newer.bounded, newer.previous = x.lastPublished+date(1+r.IntN(int(lastDay-x.lastPublished))), nil, nil
	x.newer = &newer
	w.must(w.sim.SetPublished(x.site.URL, newer.lastPublished.String()))
}

// newTruth draws the world of a number. Its figures in the archive are not those of the site, so that a mistaken source shows.
func newTruth(seed, number uint64, archives []*keptDays) *truth {
	r := rand.New(rand.NewPCG(seed, number))
	x := &truth{seed: seed, number: number, quiet: map[date]bool{}, asked: map[string]bool{}, firstDay: earliestDay - 100, today: lastDay}
	x.kind = pick(r, connected, connected, connected, connected, connected, archived, disconnected)
	x.site = gscsim.Site{URL: fmt.Sprintf("sc-domain:w%d.example", number), Queries: 6, Pages: 4}
	late := pick(r, 0, 0, 0, 1, 1, 2, 3, 5, 6, 9, -1)
	x.lastPublished = lastDay - date(late)
	x.site.Publication = gscsim.Publication{Lag: 2 + late, EmptyDays: pick(r, gscsim.EmptyPublished, gscsim.EmptyUnpublished, gscsim.EmptyOmitted)}
	x.site.Publication.LostDays = pick(r, 0, 0, 0, 1, 2, 4)
	if r.IntN(5) == 0 { // a young site
		x.firstDay = pick(r, lastDay-date(r.IntN(60)), liveStart+date(r.IntN(20)))
		x.site.FirstDay = x.firstDay.String()
	}
	x.drawQuiet(r)
	for d := range x.quiet {
		x.site.QuietDays = append(x.site.QuietDays, d.String())
	}
	slices.Sort(x.site.QuietDays)
	x.archive = x.drawArchive(r, archives)
	x.copiedBefore = x.kind == connected && x.site.FirstDay == "" && x.site.Publication.LostDays == 0 && r.IntN(3) == 0
	return x
}

func pick[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

// drawQuiet draws the days without traffic.
func (x *truth) drawQuiet(r *rand.Rand) {
	some := func(from date, oneIn int) {
		for d := from; d <= lastDay; d++ {
			if r.IntN(oneIn) == 0 {
				x.quiet[d] = true
			}
		}
	}
	switch r.IntN(8) {
	case 0: // now and then
		some(earliestDay, 40)
	case 1: // a sparse site
		for d := earliestDay; d <= lastDay; d++ {
			if r.IntN(3) > 0 {
				x.quiet[d] = true
			}
		}
	case 2: // a site that ended
		for d := lastDay - date(r.IntN(20)); d <= lastDay; d++ {
			x.quiet[d] = true
		}
	case 3: // one day, close to the end
		x.quiet[lastDay-date(r.IntN(25))] = true
	}
}

func (x *truth) hasTraffic(d date) bool { return d >= x.firstDay && !x.quiet[d] }

// shown reports whether Search Console has figures of a day.
func (x *truth) shown(d date) bool {
	return d >= liveStart+date(x.site.Publication.LostDays) && d <= min(x.today, x.lastPublished) && x.hasTraffic(d)
}

// stored returns the archived rows of a table on a day. A total that is not archived is the sum of another table.
func (x *truth) stored(d date, table string) (rows map[string]tally, derived, ok bool) {
	stored := x.archive.days[d]
	if rows, ok = stored[table]; ok || table != "total" {
		return rows, false, ok
	}
	for _, name := range []string{"device", "country", "page", "query"} {
		if rows, ok := stored[name]; ok {
			var sum tally
			for _, row := range rows {
				sum.add(row)
			}
			return map[string]tally{"": sum}, true, true
		}
	}
	return nil, false, false
}

// live returns the sums of the upstream's rows of a question's table over days, which are in order. The row of "total" has an empty
// key.
func (x *truth) live(t testing.TB, q *question, days []date) map[string]tally {
	t.Helper()
	sums := map[string]tally{}
	for i := 0; i < len(days); {
		end := i
		for end+1 < len(days) && !x.trafficBetween(days[end], days[end+1]) {
			end++
		}
		addRows(sums, x.ask(t, q.table, q.filter, days[i], days[end]))
		i = end + 1
	}
	return sums
}

// trafficBetween reports whether the site has traffic on a day after one and before another.
func (x *truth) trafficBetween(one, other date) bool {
	for d := one + 1; d < other; d++ {
		if x.hasTraffic(d) {
			return true
		}
	}
	return false
}

func (x *truth) ask(t testing.TB, table string, filter *worldFilter, from, to date) map[string]tally {
	t.Helper()
	dimensions := `"` + table + `"`
	if table == "total" {
		dimensions = ""
	}
	groups := ""
	if filter != nil {
		groups = fmt.Sprintf(`{"filters":[{"dimension":%q,"operator":%q,"expression":%q}]}`, filter.dimension, filter.name, filter.value)
	}
	question := fmt.Sprintf(`{"startDate":"%s","endDate":"%s","dimensions":[%s],"rowLimit":25000,"dimensionFilterGroups":[%s]}`,
		from, to, dimensions, groups)
	answers, err := x.upstream.Answers(context.Background(), x.site.URL, []byte(question))
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ Rows []figure }
	if err := json.Unmarshal(answers[0], &answer); err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]tally, len(answer.Rows))
	for _, row := range answer.Rows {
		rows[strings.Join(row.Keys, " ")] = tally{row.Clicks, row.Impressions, row.Position * row.Impressions}
	}
	return rows
}

// String describes the world for the report of a failure.
func (x *truth) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "SARA_WORLDS_SEED=%d SARA_WORLD=%d: %s; published up to %s, empty days %d, lost %d", x.seed, x.number, x.kind, x.lastPublished,
		x.site.Publication.EmptyDays, x.site.Publication.LostDays)
	if x.newer != nil {
		fmt.Fprintf(&b, "; then up to %s", x.newer.lastPublished)
	}
	if x.site.FirstDay != "" {
		fmt.Fprintf(&b, "; first day %s", x.site.FirstDay)
	}
	if x.stale {
		b.WriteString("; on the day after, from a copy")
	}
	if x.copiedBefore {
		b.WriteString("; read on the day before")
	}
	if n := len(x.site.QuietDays); n > 0 {
		fmt.Fprintf(&b, "; %d quiet days, the last %v", n, x.site.QuietDays[max(0, n-10):])
	}
	complete, partial := []date{}, []date{}
	for _, d := range slices.Sorted(maps.Keys(x.archive.days)) {
		if len(x.archive.days[d]) == 1+len(tableNames) {
			complete = append(complete, d)
		} else {
			partial = append(partial, d)
		}
	}
	fmt.Fprintf(&b, "; archived %s; imported %s", translate.JoinDays(complete), translate.JoinDays(partial))
	return b.String()
}

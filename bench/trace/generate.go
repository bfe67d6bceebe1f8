package trace

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	workingDay   = 9 * time.Hour
	zipfExponent = 1.1
)

// A client is a program that people use, with its own way of writing requests.
type client struct {
	spellsOut    bool // sends defaults
	dates        bool // sends dates instead of presets
	alphabetical bool // sorts parameters by name
	datesLast    bool // sends dates after filters and limits
	rows         int  // in its tables
	wide         bool // shows countries and devices
}

// A period is the range that a person picked: a preset, or dates if the preset is empty.
type period struct {
	preset string
	span
}

type filter struct {
	Dimension string `json:"dimension"`
	Operator  string `json:"operator"`
	Value     string `json:"value"`
}

// A generator generates the sessions of a trace.
type generator struct {
	Config
	random   *rand.Rand
	clients  []client // by person, over all accounts
	requests []Request
}

// Generate returns the requests of a working day, ordered by time.
func Generate(c Config) []Request {
	g := generator{Config: c, random: rand.New(rand.NewPCG(c.Seed, 0xa6e7c1))}
	for range c.Accounts * c.People {
		g.clients = append(g.clients, g.drawClient())
	}
	for len(g.requests) < c.Requests {
		g.session()
	}
	g.requests = g.requests[:c.Requests]
	slices.SortStableFunc(g.requests, func(a, b Request) int { return cmp.Compare(a.At, b.At) })
	return g.requests
}

// pick returns a random index, with probabilities proportional to the weights.
func (g *generator) pick(weights ...int) int {
	total := 0
	for _, weight := range weights {
		total += weight
	}
	at := g.random.IntN(total)
	for i, weight := range weights {
		if at -= weight; at < 0 {
			return i
		}
	}
	panic("BUG: the weights do not add up to their sum")
}

func (g *generator) drawClient() client {
	wide := g.random.IntN(3) == 0
	return []client{
		{rows: 10, wide: wide},
		{rows: 25, wide: wide, spellsOut: true},
		{rows: 1000, wide: wide, dates: true, alphabetical: true},
		{rows: 100, wide: wide, datesLast: true},
	}[g.pick(45, 25, 20, 10)]
}

// drawProperty draws one of an account's properties by popularity.
func (g *generator) drawProperty(account int) int {
	rank := rand.NewZipf(g.random, zipfExponent, 1, uint64(g.owned(account)-1)).Uint64()
	return int(rank)*g.Accounts + account
}

// drawPeriod draws a range: a preset, or one of four kinds of dates: one of the two months before the previous month, one of
// the last four whole weeks, the previous quarter, or the last fourteen days.
func (g *generator) drawPeriod() period {
	presets := []string{defaultPreset, "last_7d", "last_90d", "last_3m", "last_12m", "month_to_date", "previous_month"}
	switch i := g.pick(40, 14, 8, 10, 7, 6, 7, 3, 2, 1, 2); i - len(presets) {
	case 0:
		ago := 2 + g.random.IntN(2)
		return period{span: span{g.Anchor.monthStart(-ago), g.Anchor.monthStart(1-ago) - 1}}
	case 1:
		end := g.Anchor - (g.Anchor+4)%7 - Day(7*g.random.IntN(4)) // a Sunday: 1970-01-01 was a Thursday
		return period{span: span{end - 6, end}}
	case 2:
		_, month, _ := g.Anchor.date()
		since := int(month-1) % 3
		return period{span: span{g.Anchor.monthStart(-since - 3), g.Anchor.monthStart(-since) - 1}}
	case 3:
		return period{span: span{g.Anchor - 13, g.Anchor}}
	default:
		resolved, err := presetSpan(presets[i], g.Anchor)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		return period{presets[i], resolved}
	}
}

// drawFilters draws a segment. Virtual dimensions need a property that has them configured.
func (g *generator) drawFilters(property int) []filter {
	one := func(texts ...string) string { return texts[g.random.IntN(len(texts))] }
	kinds := []int{30, 20, 20, 15, 10, 5}
	if !g.HasSegments(property) {
		kinds[0], kinds[1] = 0, 0
	}
	switch g.pick(kinds...) {
	case 0:
		return []filter{{"brand", "equals", one("brand", "non-brand", "non-brand")}}
	case 1:
		return []filter{{"page_group", "equals", one(PageGroups()...)}}
	case 2:
		return []filter{{"country", "equals", one("usa", "gbr", "deu")}}
	case 3:
		return []filter{{"device", "equals", one("mobile", "mobile", "desktop")}}
	case 4:
		return []filter{{"query", "contains", one("buy", "best", "how", "price", "near")}}
	}
	both := []filter{{"country", "equals", one("usa", "gbr")}, {"device", "equals", "mobile"}}
	if g.random.IntN(2) == 0 {
		both[0], both[1] = both[1], both[0]
	}
	return both
}

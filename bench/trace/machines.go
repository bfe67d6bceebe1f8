package trace

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// GenerateMachines returns the requests of programs in a working day, ordered by time: a second trace, to which no rule of sara's cache
// was tuned. It has as many requests as the programs send, regardless of Config.Requests:
//
//   - The nightly export of the first account reads every property: up to 1,000 rows of every table for the last day and the last 28 days,
//     the daily figures of 90 days, and, for the properties with segments, the same figures of two segments.
//   - A business intelligence tool of each other account refreshes a few dashboards every quarter of an hour: the same URLs each time.
//   - People use the dashboards of the agency trace, with another seed, for a tenth of its requests.
func GenerateMachines(c Config) []Request {
	people := c
	people.Seed, people.Requests = c.Seed+1_000_003, c.Requests/10
	requests := Generate(people)
	m := machines{Config: c, random: rand.New(rand.NewPCG(c.Seed, 0x5ec0d))}
	for property := 0; property < c.Properties; property += c.Accounts {
		m.export(property)
	}
	for account := 1; account < c.Accounts; account++ {
		m.poll(account)
	}
	requests = append(requests, m.requests...)
	slices.SortStableFunc(requests, func(a, b Request) int { return cmp.Compare(a.At, b.At) })
	return requests
}

// machines generates the requests of programs.
type machines struct {
	Config
	random   *rand.Rand
	requests []Request
}

func (m *machines) ask(r Request, endpoint string, params ...Param) {
	r.Endpoint, r.Params = endpoint, params
	m.requests = append(m.requests, r)
}

// dates are the parameters of explicit dates.
func dates(s span) []Param {
	return []Param{{"start_date", s.from.String()}, {"end_date", s.to.String()}}
}

// export reads a property once, at the beginning of the day, with explicit dates.
func (m *machines) export(property int) {
	r := Request{Account: m.Account(property), Property: property, At: time.Duration(property) * time.Second}
	month := span{m.Anchor - 27, m.Anchor}
	for _, s := range []span{{m.Anchor, m.Anchor}, month} {
		m.ask(r, "summary", append(dates(s), Param{"compare", "previous_period"})...)
		for _, table := range []string{"queries", "pages", "countries", "devices"} {
			m.ask(r, table, append(dates(s), Param{"limit", "1000"})...)
		}
	}
	quarter := dates(span{m.Anchor - 89, m.Anchor})
	m.ask(r, "timeseries", quarter...)
	if !m.HasSegments(property) {
		return
	}
	for _, filters := range []string{`[{"dimension":"brand","operator":"equals","value":"non-brand"}]`,
		`[{"dimension":"device","operator":"equals","value":"mobile"}]`} {
		m.ask(r, "timeseries", append(quarter[:2:2], Param{"filters", filters})...)
		m.ask(r, "queries", append(dates(month), Param{"limit", "1000"}, Param{"filters", filters})...)
	}
}

// poll refreshes the charts of four dashboards, each of one property, every quarter of an hour.
func (m *machines) poll(account int) {
	const (
		dashboards = 4
		charts     = 6
		interval   = 15 * time.Minute
	)
	var drawn []Request
	for range dashboards {
		r := Request{Account: account, Property: account + m.Accounts*m.random.IntN(m.owned(account))}
		for range charts {
			chart := m.chart()
			chart.Account, chart.Property = r.Account, r.Property
			drawn = append(drawn, chart)
		}
	}
	for at := time.Duration(m.random.Int64N(int64(interval))); at < workingDay; at += interval {
		for i, r := range drawn {
			r.At = at + time.Duration(i)*time.Second
			m.requests = append(m.requests, r)
		}
	}
}

// owned returns how many properties an account has.
func (c Config) owned(account int) int { return (c.Properties - account + c.Accounts - 1) / c.Accounts }

// chart draws a chart.
func (m *machines) chart() (r Request) {
	one := func(texts ...string) string { return texts[m.random.IntN(len(texts))] }
	when := Param{"date_range", one("last_7d", "last_28d", "last_90d", "month_to_date", "last_12m")}
	switch m.random.IntN(8) {
	case 0, 1:
		r.Endpoint, r.Params = "timeseries", []Param{when}
	case 2:
		r.Endpoint, r.Params = "summary", []Param{when}
	case 3, 4:
		order := Param{"order_by", one("-impressions", "-clicks", "position")}
		r.Endpoint, r.Params = one("queries", "pages"), []Param{when, {"limit", strconv.Itoa(100 * (1 + m.random.IntN(5)))}, order}
	case 5:
		r.Endpoint, r.Params = one("countries", "devices"), []Param{when}
	case 6:
		r.Endpoint, r.Params = "timeseries", []Param{when,
			{"filters", `[{"dimension":"country","operator":"equals","value":"` + one("usa", "gbr", "deu") + `"}]`}}
	case 7:
		r.Endpoint, r.Params = one("movers/queries", "movers/pages"), []Param{{"date_range", one("last_7d", "last_28d")}}
	}
	return r
}

package trace

import (
	"strings"
	"testing"
	"time"
)

// request parses "endpoint name=value name=value".
func request(text string) Request {
	words := strings.Fields(text)
	r := Request{Endpoint: words[0]}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		r.Params = append(r.Params, Param{name, value})
	}
	return r
}

// Each list of requests goes to new caches, all at the same time.
func TestModelsCountCalls(t *testing.T) {
	const other = ` filters=[{"dimension":"device","operator":"is","value":"mobile"},{"dimension":"country","operator":"equals","value":"usa"}]`
	const swapped = ` filters=[{"dimension":"country","operator":"equals","value":"usa"},{"dimension":"device","operator":"equals","value":"mobile"}]`
	const device = ` filters=[{"dimension":"device","operator":"is","value":"mobile"}]`
	const country = ` filters=[{"dimension":"country","operator":"is","value":"usa"}]`
	for _, c := range []struct {
		name                          string
		urlKeyed, perPeriod, widening int
		requests                      []string
	}{
		{"a repeated request is free", 1, 1, 1, []string{"queries", "queries"}},
		{"one series serves every unfiltered range", 3, 4, 1, []string{"summary compare=previous_period", "timeseries", "timeseries date_range=last_7d"}},
		{"limits share a sample", 2, 2, 1, []string{"queries limit=10", "queries limit=1000"}},
		{"spellings share a sample", 3, 3, 1, []string{"pages", "pages date_range=last_28d limit=100", "pages start_date=2026-10-23 end_date=2026-11-19"}},
		{"ranges do not share a sample", 2, 2, 2, []string{"queries", "queries date_range=last_7d"}},
		{"a narrow sample does not serve other orders", 2, 2, 2, []string{"queries", "queries order_by=position"}},
		{"a wide sample serves the default order", 3, 3, 1, []string{"queries order_by=position", "queries", "queries order_by=key"}},
		{"a grid has the countries of every late range", 3, 3, 1, []string{"countries", "countries order_by=position date_range=last_90d",
			"countries date_range=last_7d"}},
		{"earlier countries have a sample for each range", 2, 2, 2, []string{"countries", "countries date_range=last_12m"}},
		{"a grid has the devices of every range, and series of a device", 4, 5, 1, []string{"devices", "devices date_range=last_12m",
			"summary compare=previous_period" + device, "timeseries date_range=last_90d" + device}},
		{"a grid does not have the queries of a device", 2, 2, 2, []string{"devices", "queries" + device}},
		{"a series of a country needs both periods in the grid", 3, 3, 2,
			[]string{"countries", "timeseries" + country, "timeseries date_range=last_90d" + country}},
		{"movers need two samples", 2, 2, 2, []string{"movers/queries", "movers/queries"}},
		{"movers share their sample", 3, 3, 2, []string{"queries order_by=position", "movers/queries"}},
		{"equivalent filters share a sample", 2, 2, 1, []string{"queries" + other, "queries" + swapped}},
		{"a filtered series serves summaries with and without a comparison", 3, 4, 1,
			[]string{"summary" + other, "summary compare=previous_period" + other, "timeseries" + other}},
		{"a filtered series serves its range only", 2, 2, 2, []string{"timeseries" + other, "timeseries date_range=last_7d" + other}},
	} {
		anchor := dayOf(2026, time.November, 19)
		urlKeyed, perPeriod, widening := URLKeyed{Anchor: anchor}, URLKeyed{Anchor: anchor, PerPeriod: true}, Widening{Anchor: anchor}
		total := func(ask func(Request, time.Duration) (int, error)) (calls int) {
			for _, text := range c.requests {
				n, err := ask(request(text), 0)
				if err != nil {
					t.Fatal(err)
				}
				calls += n
			}
			return calls
		}
		if got := [3]int{total(urlKeyed.Ask), total(perPeriod.Ask), total(widening.Ask)}; got != [3]int{c.urlKeyed, c.perPeriod, c.widening} {
			t.Errorf("%s: URL-keyed, by period, widening: %v, want %v", c.name, got, [3]int{c.urlKeyed, c.perPeriod, c.widening})
		}
	}
}

func TestModelsExpireEntries(t *testing.T) {
	anchor := dayOf(2026, time.November, 19)
	for _, c := range []struct {
		text string
		ttl  time.Duration
	}{{"queries", OpenTTL}, {"queries date_range=previous_month", SettledTTL}} {
		urlKeyed, widening := URLKeyed{Anchor: anchor}, Widening{Anchor: anchor}
		for _, ask := range []func(Request, time.Duration) (int, error){urlKeyed.Ask, widening.Ask} {
			for _, step := range []struct {
				at   time.Duration
				want int
			}{{0, 1}, {c.ttl - 1, 0}, {c.ttl, 1}, {c.ttl + 1, 0}} {
				if got, err := ask(request(c.text), step.at); err != nil || got != step.want {
					t.Errorf("%s at %v costs %d calls (%v), want %d", c.text, step.at, got, err, step.want)
				}
			}
		}
	}
}

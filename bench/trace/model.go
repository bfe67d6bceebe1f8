package trace

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The TTLs of both models. A range that includes the anchor may still change; a settled range does not.
const (
	OpenTTL    = 10 * time.Minute
	SettledTTL = 6 * time.Hour
)

// SmallTable is the largest number of rows of a table that sara reads completely, instead of the first thousand, to answer every order.
const SmallTable = 5_000

// entries has the time at which each cache entry was filled. There are no evictions.
type entries map[string]time.Duration

func (e entries) fresh(key string, at, ttl time.Duration) bool {
	filled, ok := e[key]
	return ok && at < filled+ttl
}

// fill reads an entry, and returns the number of upstream calls: none if it is fresh, otherwise one.
func (e entries) fill(key string, at, ttl time.Duration) int {
	if e.fresh(key, at, ttl) {
		return 0
	}
	e[key] = at
	return 1
}

// URLKeyed is a cache as sold commercially: keyed by path and raw query, shared between all API keys, with the TTLs above,
// unlimited memory, and no concurrent requests. A miss is one upstream call, or two for movers, which compare two samples.
type URLKeyed struct {
	Anchor Day
	// PerPeriod counts two calls for a summary with a comparison, as a handler with one call per period would make. The target
	// for the ratio is the one without it.
	PerPeriod bool

	entries entries
}

// Ask returns the number of upstream calls for a request at a given time.
func (c *URLKeyed) Ask(r Request, at time.Duration) (int, error) {
	q, err := c.Anchor.question(r)
	if err != nil {
		return 0, err
	}
	if c.entries == nil {
		c.entries = make(entries)
	}
	calls := c.entries.fill(r.URL(), at, q.ttl)
	if q.isMovers() || c.PerPeriod && q.compare {
		calls *= 2
	}
	return calls, nil
}

// Widening is a model of sara's cache, by its documented rules:
//
//   - One daily series over the whole live window answers every summary and timeseries of a property without filters.
//   - One sample of a dimension and a range answers every limit. A wide sample also answers every order and, together with
//     that of the previous period, movers. Countries and devices have only one kind of sample.
//   - All samples of small tables (SmallTable) are complete.
//   - One grid of days answers devices over every range, and another one countries over the last 96 days: their tables, and series with
//     one filter on that dimension.
//   - Other filtered entries are keyed by their conditions, in any order. A filtered series covers the requested period and the
//     previous one, with or without a comparison.
//   - The requested period determines how old an entry may be.
type Widening struct {
	Anchor Day
	Small  bool // the tables of queries and pages are small; set by the caller, because the model has no data

	entries entries
}

// Ask returns the number of upstream calls for a request at a given time.
func (c *Widening) Ask(r Request, at time.Duration) (int, error) {
	q, err := c.Anchor.question(r)
	if err != nil {
		return 0, err
	}
	if c.entries == nil {
		c.entries = make(entries)
	}
	switch {
	case q.isMovers():
		by := strings.TrimPrefix(r.Endpoint, "movers/")
		return c.sample(q, by, q.span, at, true) + c.sample(q, by, q.previous(), at, true), nil
	case c.grid(q) != "":
		return c.entries.fill(fmt.Sprint("grid ", c.grid(q), r.Property), at, q.ttl), nil
	case r.Endpoint != "summary" && r.Endpoint != "timeseries":
		return c.sample(q, r.Endpoint, q.span, at, q.order != "-clicks"), nil
	case q.conditions == "":
		return c.entries.fill(fmt.Sprint("series ", r.Property), at, q.ttl), nil
	}
	return c.entries.fill(fmt.Sprint("series ", r.Property, q.span, q.conditions), at, q.ttl), nil
}

// grid returns the grid that answers a question: by country or device; empty if there is none.
func (c *Widening) grid(q question) string {
	const countryDays = 96
	by, needed := "", q.span
	switch q.endpoint {
	case "countries":
		by = "country"
	case "devices":
		by = "device"
	case "summary", "timeseries":
		needed.from = q.previous().from
		if len(q.filters) == 1 {
			by = q.filters[0].Dimension
		}
	}
	if len(q.filters) > 1 || len(q.filters) == 1 && q.filters[0].Dimension != by {
		return ""
	}
	if by == "device" || by == "country" && needed.from > c.Anchor-countryDays {
		return by
	}
	return ""
}

func (c *Widening) sample(q question, by string, days span, at time.Duration, wide bool) int {
	narrow := fmt.Sprint(by, q.property, days, q.conditions)
	whole := "wide " + narrow
	if c.Small && q.conditions == "" {
		return c.entries.fill(narrow, at, q.ttl)
	}
	if wide && by != "countries" && by != "devices" {
		return c.entries.fill(whole, at, q.ttl)
	}
	if c.entries.fresh(whole, at, q.ttl) {
		return 0
	}
	return c.entries.fill(narrow, at, q.ttl)
}

// A question is the meaning of a request, independent of its spelling.
type question struct {
	span
	property   int
	endpoint   string
	compare    bool
	order      string
	filters    []filter
	conditions string        // the same for equivalent filters; empty for none
	ttl        time.Duration // of its answer
}

func (q question) isMovers() bool { return strings.HasPrefix(q.endpoint, "movers/") }

// question parses a request of a trace with this anchor.
func (d Day) question(r Request) (q question, err error) {
	q = question{property: r.Property, endpoint: r.Endpoint, order: "-clicks"}
	if q.span, err = presetSpan(defaultPreset, d); err != nil {
		return q, err
	}
	for _, p := range r.Params {
		switch p.Name {
		case "date_range":
			q.span, err = presetSpan(p.Value, d)
		case "start_date":
			q.from, err = parseDay(p.Value)
		case "end_date":
			q.to, err = parseDay(p.Value)
		case "compare":
			q.compare = p.Value == "previous_period"
		case "order_by":
			q.order = p.Value
		case "filters":
			q.filters, q.conditions, err = conditions(p.Value)
		case "limit", "min_clicks": // every sample has enough rows
		default:
			err = fmt.Errorf("the trace has no parameter %s", p.Name)
		}
		if err != nil {
			return q, fmt.Errorf("%s: %w", r.URL(), err)
		}
	}
	if q.ttl = SettledTTL; q.to >= d {
		q.ttl = OpenTTL
	}
	return q, nil
}

// conditions returns the same text for equivalent filters.
func conditions(text string) (filters []filter, same string, err error) {
	if err := json.Unmarshal([]byte(text), &filters); err != nil {
		return nil, "", err
	}
	for i := range filters {
		if filters[i].Operator == "is" {
			filters[i].Operator = "equals"
		}
	}
	slices.SortFunc(filters, func(a, b filter) int { return cmp.Compare(a.Dimension, b.Dimension) })
	return filters, fmt.Sprint(filters), nil
}

package trace

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// How long both models keep an answer: one whose range touches the anchor may still change, a settled one does not.
const (
	OpenLifetime    = 10 * time.Minute
	SettledLifetime = 6 * time.Hour
)

// entries is when each entry of a cache was filled. Nothing is ever thrown out for want of memory.
type entries map[string]time.Duration

func (e entries) fresh(key string, at, life time.Duration) bool {
	filled, ok := e[key]
	return ok && at < filled+life
}

// fill asks for an entry at a time and returns the calls that it costs: one if it is not fresh, else none.
func (e entries) fill(key string, at, life time.Duration) int {
	if e.fresh(key, at, life) {
		return 0
	}
	e[key] = at
	return 1
}

// URLKeyed is the cache that one can buy: it keys on the path and the raw query, shares its entries between all keys, has
// the lifetimes above, unlimited memory, and no two requests at once. A miss is one upstream call; one of movers is two,
// since they compare two samples.
type URLKeyed struct {
	Anchor Day
	// PerPeriod counts a summary that compares as two calls, which is what a handler that asks for each period costs. The
	// ratio that we hold ourselves to is the one without it.
	PerPeriod bool

	entries entries
}

// Ask returns how many upstream calls a request costs at a time.
func (c *URLKeyed) Ask(r Request, at time.Duration) (int, error) {
	q, err := c.Anchor.question(r)
	if err != nil {
		return 0, err
	}
	if c.entries == nil {
		c.entries = make(entries)
	}
	calls := c.entries.fill(r.URL(), at, q.life)
	if q.isMovers() || c.PerPeriod && q.compare {
		calls *= 2
	}
	return calls, nil
}

// Widening is a model of sara's cache, by the rules that it documents: one daily series over the whole live window
// answers every summary and timeseries of a property without filters; one sample of a dimension and range answers every
// limit, and a wide one every order and, with the one of the period before, the movers; countries and devices have one
// sample only. What is filtered is kept by its conditions, whatever their order, and a filtered series covers the period
// asked for and the one before it, compared or not. How old an entry may be is up to the period that is asked for. The
// model knows no data, so it does not know that a narrow sample that is not full does for a wide one.
type Widening struct {
	Anchor Day

	entries entries
}

// Ask returns how many upstream calls a request costs at a time.
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
	case r.Endpoint != "summary" && r.Endpoint != "timeseries":
		return c.sample(q, r.Endpoint, q.span, at, q.order != "-clicks"), nil
	case q.conditions == "":
		return c.entries.fill(fmt.Sprint("series ", r.Property), at, q.life), nil
	}
	return c.entries.fill(fmt.Sprint("series ", r.Property, q.span, q.conditions), at, q.life), nil
}

func (c *Widening) sample(q question, by string, days span, at time.Duration, wide bool) int {
	narrow := fmt.Sprint(by, q.property, days, q.conditions)
	whole := "wide " + narrow
	if wide && by != "countries" && by != "devices" {
		return c.entries.fill(whole, at, q.life)
	}
	if c.entries.fresh(whole, at, q.life) {
		return 0
	}
	return c.entries.fill(narrow, at, q.life)
}

// A question is what a request means, whatever its spelling.
type question struct {
	span
	property   int
	endpoint   string
	compare    bool
	order      string
	conditions string        // equal for filters that mean the same; empty for none
	life       time.Duration // how long its answer stays fresh
}

func (q question) isMovers() bool { return strings.HasPrefix(q.endpoint, "movers/") }

// question reads a request of a trace with this anchor.
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
			q.conditions, err = conditions(p.Value)
		case "limit", "min_clicks": // every sample has enough rows for any
		default:
			err = fmt.Errorf("the trace has no parameter %s", p.Name)
		}
		if err != nil {
			return q, fmt.Errorf("%s: %w", r.URL(), err)
		}
	}
	if q.life = SettledLifetime; q.to >= d {
		q.life = OpenLifetime
	}
	return q, nil
}

// conditions gives filters that mean the same one spelling.
func conditions(text string) (string, error) {
	var filters []filter
	if err := json.Unmarshal([]byte(text), &filters); err != nil {
		return "", err
	}
	for i := range filters {
		if filters[i].Operator == "is" {
			filters[i].Operator = "equals"
		}
	}
	slices.SortFunc(filters, func(a, b filter) int { return cmp.Compare(a.Dimension, b.Dimension) })
	return fmt.Sprint(filters), nil
}

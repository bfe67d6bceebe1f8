package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sara/bench/trace"
)

// calls has the upstream calls of requests by several models.
type calls struct {
	requests                            int
	urlKeyed, perPeriod, widening, none int

	measured int // of sara; only by kind
}

func (c *calls) add(other calls) {
	c.requests += other.requests
	c.urlKeyed += other.urlKeyed
	c.perPeriod += other.perPeriod
	c.widening += other.widening
	c.none += other.none
}

// models has the calls of a trace. small is whether the sites' tables are small, see trace.Widening.
type models struct {
	atOnce calls             // nothing expires
	byKind map[string]*calls // atOnce, by kind of request
	day    calls             // with the times of the trace
}

// kinds returns the kinds of requests, ordered by the calls of the URL-keyed cache.
func (m models) kinds() []string {
	return slices.SortedFunc(maps.Keys(m.byKind), func(a, b string) int {
		return cmp.Or(cmp.Compare(m.byKind[b].urlKeyed, m.byKind[a].urlKeyed), cmp.Compare(a, b))
	})
}

func count(c trace.Config, small bool, requests []trace.Request) (m models, err error) {
	m.byKind = make(map[string]*calls)
	atOnce, day := newCaches(c.Anchor, small), newCaches(c.Anchor, small)
	for _, r := range requests {
		once, err := atOnce.ask(r, 0)
		if err != nil {
			return m, err
		}
		inDay, err := day.ask(r, r.At)
		if err != nil {
			return m, err
		}
		m.atOnce.add(once)
		m.day.add(inDay)
		kind := kindOf(r)
		if m.byKind[kind] == nil {
			m.byKind[kind] = new(calls)
		}
		m.byKind[kind].add(once)
	}
	return m, nil
}

func kindOf(r trace.Request) string {
	for _, p := range r.Params {
		switch {
		case p.Name == "filters":
			return "filtered"
		case p.Name == "order_by" && p.Value != "-clicks":
			return "another order"
		}
	}
	kind, _, _ := strings.Cut(r.Endpoint, "/")
	return kind
}

// caches has one cache of each model.
type caches struct {
	urlKeyed, perPeriod trace.URLKeyed
	widening            trace.Widening
}

func newCaches(anchor trace.Day, small bool) *caches {
	return &caches{trace.URLKeyed{Anchor: anchor}, trace.URLKeyed{Anchor: anchor, PerPeriod: true}, trace.Widening{Anchor: anchor, Small: small}}
}

func (c *caches) ask(r trace.Request, at time.Duration) (cost calls, err error) {
	cost = calls{requests: 1, none: 1}
	if strings.HasPrefix(r.Endpoint, "movers/") {
		cost.none = 2
	}
	for _, model := range []struct {
		ask  func(trace.Request, time.Duration) (int, error)
		into *int
	}{{c.urlKeyed.Ask, &cost.urlKeyed}, {c.perPeriod.Ask, &cost.perPeriod}, {c.widening.Ask, &cost.widening}} {
		if *model.into, err = model.ask(r, at); err != nil {
			return cost, err
		}
	}
	return cost, nil
}

// counts formats counters in one line.
func counts(m map[string]int64) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s: %d", key, m[key]))
	}
	return strings.Join(parts, ", ")
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"sara/bench/trace"
	"sara/policy"
)

// A step is what the agency wants to know, in both ways.
type step struct {
	name   string
	before func(ctx context.Context, s *site, keys int) (cost, error) // one request a property
	after  func(ctx context.Context, s *site) (cost, error)
	// what the model counts: how many times each property is asked for on its own, and all at once, and other requests
	single, beforeOther, whole, afterOther int
}

// whole returns how many requests read the portfolio of n properties.
func whole(n int) int { return (n + 199) / 200 }

func (o options) steps() []step {
	pages := (o.rows + 999) / 1000
	return []step{
		{name: "the list of the sites", beforeOther: whole(o.properties),
			before: func(ctx context.Context, s *site, keys int) (cost, error) { return s.list(ctx, keys) },
			after:  func(context.Context, *site) (cost, error) { return cost{}, nil }},
		{name: "overview: 28 days and the 28 before", single: 1, whole: whole(o.properties),
			before: func(ctx context.Context, s *site, keys int) (cost, error) {
				return s.each(ctx, keys, "/summary", url.Values{"compare": {"previous_period"}})
			},
			after: func(ctx context.Context, s *site) (cost, error) {
				return s.portfolio(ctx, url.Values{"compare": {"previous_period"}})
			}},
		{name: "year: this month and a year before", single: 2, whole: whole(o.properties),
			before: func(ctx context.Context, s *site, keys int) (cost, error) {
				this, before := yearOn(s.anchor)
				if c, err := s.each(ctx, keys, "/summary", this); err != nil {
					return c, err
				}
				return s.each(ctx, keys, "/summary", before)
			},
			after: func(ctx context.Context, s *site) (cost, error) {
				return s.portfolio(ctx, url.Values{"date_range": {"month_to_date"}, "compare": {"previous_year"}})
			}},
		{name: fmt.Sprintf("a table of %d queries", o.rows), beforeOther: 1, afterOther: pages,
			before: func(ctx context.Context, s *site, keys int) (c cost, err error) {
				var any struct{}
				c.Refused, c.Wait, err = s.get(ctx, keys, "/v1/properties/"+trace.Domain(0)+"/queries", url.Values{"limit": {"1000"}}, &any)
				return c, err
			},
			after: func(ctx context.Context, s *site) (cost, error) { return s.wholeTable(ctx) }},
		{name: "four daily reports of all sites", single: dailyReports, whole: dailyReports * whole(o.properties),
			before: func(ctx context.Context, s *site, keys int) (c cost, err error) {
				for _, query := range daily(s.anchor) {
					if c, err := s.each(ctx, keys, "/summary", query); err != nil {
						return c, err
					}
				}
				return c, nil
			},
			after: func(ctx context.Context, s *site) (c cost, err error) {
				for i, query := range daily(s.anchor) {
					args := []string{"--date-range", query.Get("date_range")}
					if day := query.Get("start_date"); day != "" {
						args = []string{"--from", day, "--to", query.Get("end_date")}
					}
					if c, err := s.export(ctx, fmt.Sprint(i), args...); err != nil {
						return c, err
					}
				}
				return c, nil
			}},
	}
}

const dailyReports = 4

// daily returns the ranges of the daily reports.
func daily(anchor trace.Day) [dailyReports]url.Values {
	last := anchor.String()
	return [...]url.Values{{"start_date": {last}, "end_date": {last}}, {"date_range": {"last_7d"}}, {"date_range": {"last_28d"}},
		{"date_range": {"month_to_date"}}}
}

// yearOn returns the days of the anchor's month so far, and the same days a year before.
func yearOn(anchor trace.Day) (this, before url.Values) {
	end, _ := time.Parse(time.DateOnly, anchor.String())
	start := end.AddDate(0, 0, 1-end.Day())
	days := func(years int) url.Values {
		return url.Values{"start_date": {start.AddDate(years, 0, 0).Format(time.DateOnly)}, "end_date": {end.AddDate(years, 0, 0).Format(time.DateOnly)}}
	}
	return days(0), days(-1)
}

// A comparison is the cost of all steps in both ways, without limits and under the plan.
type comparison struct {
	options
	steps                     []step
	before, after             []cost // without limits
	beforeInPlan, afterInPlan []cost // up to the first refusal
	models                    models
}

func compare(ctx context.Context, o options, progress func(string, ...any)) (_ *comparison, err error) {
	c := &comparison{options: o, steps: o.steps()}
	for _, run := range []struct {
		name, plan string
		keys       int
		after      bool
		into       *[]cost
	}{{"one request a property, without limits", "", 1, false, &c.before}, {"at once, without limits", "", 1, true, &c.after},
		{"one request a property, in the plan", agencyPlan, o.keys, false, &c.beforeInPlan},
		{"at once, in the plan", agencyPlan, 1, true, &c.afterInPlan}} {
		if *run.into, err = c.run(ctx, run.plan, run.keys, run.after); err != nil {
			return nil, fmt.Errorf("%s: %w", run.name, err)
		}
		progress("%s: %+v", run.name, total(*run.into))
	}
	c.models = c.model(policy.DefaultPlans()[agencyPlan])
	return c, nil
}

// run sends all steps to a separate sara, until one is refused.
func (c *comparison) run(ctx context.Context, plan string, keys int, after bool) (costs []cost, err error) {
	s, err := open(ctx, c.options, plan)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for _, step := range c.steps {
		cost, err := s.measure(ctx, func() (cost, error) {
			if after {
				return step.after(ctx, s)
			}
			return step.before(ctx, s, keys)
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
		if costs = append(costs, cost); cost.Refused != "" {
			break
		}
	}
	return costs, nil
}

// models are when one key would be done if it began at 08:00 UTC.
type models struct {
	before, after finished // all steps
	reports       finished // the last step, one request a property
}

func (c *comparison) model(p policy.Plan) (m models) {
	monday := time.Date(2026, time.November, 23, 8, 0, 0, 0, time.UTC)
	before, after := c.sequences(c.steps)
	reports, _ := c.sequences(c.steps[len(c.steps)-1:])
	m.before, m.after = finish(p, monday, c.properties, before), finish(p, monday, c.properties, after)
	m.reports = finish(p, monday, c.properties, reports)
	return m
}

// sequences returns the requests of steps in both ways, by the property that each is about.
func (c *comparison) sequences(steps []step) (before, after []int) {
	for _, s := range steps {
		for range s.single {
			for property := range c.properties {
				before = append(before, property)
			}
		}
		for range s.beforeOther {
			before = append(before, noneOfThem)
		}
		for range s.whole {
			after = append(after, allOfThem)
		}
		for range s.afterOther {
			after = append(after, noneOfThem)
		}
	}
	return before, after
}

func total(costs []cost) (sum cost) {
	for _, c := range costs {
		sum.Requests += c.Requests
		sum.Calls += c.Calls
		sum.Seconds += c.Seconds
		sum.Refused, sum.Wait = c.Refused, c.Wait
	}
	return sum
}

// String returns the comparison as Markdown.
func (c *comparison) String() string {
	text := fmt.Appendf(nil, "%d sites; Search Console takes %v for a call. Without limits, eight requests at a time in the first way:\n\n",
		c.properties, c.latency)
	text = fmt.Appendf(text, "| | one request a site: requests | calls | s | at once: requests | calls | s |\n|---|---|---|---|---|---|---|\n")
	row := func(name string, b, a cost) {
		text = fmt.Appendf(text, "| %s | %d | %d | %.1f | %d | %d | %.1f |\n", name, b.Requests, b.Calls, b.Seconds, a.Requests, a.Calls, a.Seconds)
	}
	for i, step := range c.steps {
		row(step.name, c.before[i], c.after[i])
	}
	row("**all**", total(c.before), total(c.after))
	text = fmt.Appendf(text, "\nUnder the agency plan:\n\n| | keys | requests | calls | s | |\n|---|---|---|---|---|---|\n")
	for _, way := range []struct {
		name  string
		keys  int
		costs []cost
	}{{"one request a site", c.keys, c.beforeInPlan}, {"at once", 1, c.afterInPlan}} {
		sum, end := total(way.costs), "all is done"
		if sum.Refused != "" {
			message, _, _ := strings.Cut(sum.Refused, "; try again")
			end = fmt.Sprintf("refused at *%s*: %s; the next request fits in %v", c.steps[len(way.costs)-1].name, message, sum.Wait)
		}
		text = fmt.Appendf(text, "| %s | %d | %d | %d | %.1f | %s |\n", way.name, way.keys, sum.Requests, sum.Calls, sum.Seconds, end)
	}
	model := func(what string, f finished) {
		text = fmt.Appendf(text, "| %s | %v | %d |\n", what, f.after.Round(time.Second), f.calls)
	}
	text = fmt.Appendf(text, "\nA model, not a measurement: one key, begun at 08:00 UTC, if answers took no time. "+
		"Copies of daily series expire after ten minutes.\n\n"+
		"| | done after | calls for daily series |\n|---|---|---|\n")
	model("the four reports alone, one request a site", c.models.reports)
	model("all, one request a site", c.models.before)
	model("all, at once", c.models.after)
	return string(text)
}

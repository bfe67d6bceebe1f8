package report

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"strings"
)

// A Target is a figure that the design must reach, with its measured value.
type Target struct {
	What     string
	Limit    float64
	AtLeast  bool   // Limit is a minimum, not a maximum
	Unit     string // of the figures; empty for a ratio
	Before   string // what the first version measured; empty if it was not measured
	Measured Spread // median and range of the runs
	Known    bool   // it was measured
}

// Met reports whether the median reaches the target.
func (t *Target) Met() bool {
	if t.AtLeast {
		return t.Measured.Median >= t.Limit
	}
	return t.Measured.Median <= t.Limit
}

// Reports are the programs' reports, from which Targets takes its figures. A program that did not run has an empty one.
type Reports struct {
	Load, Agency Report
}

// LoadAll reads the reports of a folder, as far as they exist.
func LoadAll(folder string) (*Reports, error) {
	r, found := new(Reports), false
	for name, into := range map[string]*Report{"load": &r.Load, "agency": &r.Agency} {
		one, err := Load(filepath.Join(folder, name+".json"))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, err
		}
		*into, found = *one, true
	}
	if !found {
		return nil, fmt.Errorf("%s has no reports of load or agency", folder)
	}
	return r, nil
}

// Targets returns all targets. Known is false for those not measured.
func (r *Reports) Targets() []Target {
	const microseconds, milliseconds, perMillisecond = "µs", "ms", 1000
	bare, nginx, haproxy := "bare handler", "nginx+Lua+Redis", "HAProxy alone"
	throughput := func(c *Comparison) Ratio { return c.Throughput }
	p99 := func(c *Comparison) Ratio { return c.P99 }
	perCPU := func(c *Comparison) Ratio { return c.PerCPU }
	rows := []Target{
		r.against("memory hits, of a bare handler's throughput", bare, throughput, Target{Limit: .75, AtLeast: true, Before: "0.66; 0.54"}),
		r.against("memory hits, of a bare handler's requests per CPU second", bare, perCPU, Target{Limit: .62, AtLeast: true, Before: "0.50; 0.42"}),
		r.against("memory hits, of nginx with Lua and Redis", nginx, throughput, Target{Limit: 2, AtLeast: true, Before: "1.85; 1.61"}),
		r.against("their p99, of nginx with Lua and Redis", nginx, p99, Target{Limit: 1, Before: "0.58"}),
		r.against("memory hits, of HAProxy alone", haproxy, throughput, Target{Limit: 1, AtLeast: true, Before: "0.90"}),
		r.timesAHit("an unknown key, in memory hits", "unknown", Target{Limit: 1, Before: "4"}),
		r.timesAHit("a denial, in memory hits", "denials", Target{Limit: 1}),
		r.timesAHit("an answer from Redis, in memory hits", "redis", Target{Limit: 3, Before: "7 to 8"}),
		r.cost("its round trips to Redis", "redis", func(c *Cost) float64 { return c.RedisReads }, Target{Limit: 2}),
		r.cost("a miss of 1,001 rows", "narrow", func(c *Cost) float64 { return c.CPU["sara"] / perMillisecond },
			Target{Limit: 1.2, Unit: milliseconds, Before: "2.8 ms, of 400 rows"}),
		r.cost("its Redis commands", "narrow", func(c *Cost) float64 { return c.RedisCalls }, Target{Limit: 5, Before: "15"}),
		r.timesAHit("a stored answer that is not ready, in memory hits", "stored", Target{Limit: 5, Before: "10"}),
		r.timesAHit("a hybrid one, in memory hits", "hybrid", Target{Limit: 10, Before: "22"}),
		r.cost("Redis' processor time for a memory hit", "memory", func(c *Cost) float64 { return c.CPU["redis"] },
			Target{Limit: 4, Unit: microseconds, Before: "3.9 to 4.6 µs"}),
		r.cost("allocations of a memory hit, the share of a batch included", "memory", func(c *Cost) float64 { return c.Objects },
			Target{Limit: 3, Before: "4.0"}),
		r.cost("25,000 rows to an answer", "wide", func(c *Cost) float64 { return c.CPU["sara"] / perMillisecond },
			Target{Limit: 25, Unit: milliseconds, Before: "52 ms"}),
		r.fill("peak memory of a fill, in upstream bodies", Target{Limit: 3}),
		r.saving("upstream calls on the agency trace, of a URL-keyed cache", Target{Limit: .2, Before: "0.254"}),
		r.latency("twelve archived months of queries, cold", "year-cold", Target{Limit: 20, Unit: milliseconds}),
		r.latency("twelve archived months of queries, warm", "year", Target{Limit: 3, Unit: milliseconds}),
	}
	for i := range rows {
		rows[i].Known = rows[i].Measured.Most > 0
	}
	return rows
}

// against takes a ratio of a comparison.
func (r *Reports) against(what, with string, ratio func(*Comparison) Ratio, t Target) Target {
	t.What = what
	for i := range r.Load.Comparisons {
		if c := &r.Load.Comparisons[i]; c.With == with {
			t.Measured = ratio(c)
		}
	}
	return t
}

// busiest returns, by run, the closed loops of a scenario over the most connections.
func (r *Reports) busiest(scenario string) map[int]*Measurement {
	busiest := map[int]*Measurement{}
	for i := range r.Load.Measurements {
		m := &r.Load.Measurements[i]
		if known := busiest[m.Run]; m.Scenario == scenario && m.Loop != Open && (known == nil || m.Connections >= known.Connections) {
			busiest[m.Run] = m
		}
	}
	return busiest
}

// each takes a figure of each run.
func (r *Reports) each(what, scenario string, t Target, figure func(*Measurement) float64) Target {
	t.What = what
	var values []float64
	for _, m := range r.busiest(scenario) {
		if v := figure(m); !math.IsNaN(v) && !math.IsInf(v, 0) {
			values = append(values, v)
		}
	}
	t.Measured = SpreadOf(values)
	return t
}

func (r *Reports) cost(what, scenario string, figure func(*Cost) float64, t Target) Target {
	return r.each(what, scenario, t, func(m *Measurement) float64 { return figure(&m.Request) })
}

func (r *Reports) latency(what, scenario string, t Target) Target {
	return r.each(what, scenario, t, func(m *Measurement) float64 { return m.Latency.P50 })
}

// timesAHit divides sara's processor time for a request by that for a memory hit in the same run.
func (r *Reports) timesAHit(what, scenario string, t Target) Target {
	hits := r.busiest("memory")
	return r.each(what, scenario, t, func(m *Measurement) float64 {
		if hits[m.Run] == nil {
			return math.NaN()
		}
		return m.Request.CPU["sara"] / hits[m.Run].Request.CPU["sara"]
	})
}

// FillState is the state of a footprint after one fill of 25,000 rows. The footprint before it in a report is from right before the fill.
const FillState = "one fill of 25,000 rows"

// fill takes how much the resident memory of a replica grew during one fill, at its peak, as a multiple of the body.
func (r *Reports) fill(what string, t Target) Target {
	t.What = what
	var values []float64
	for i, f := range r.Load.Footprints {
		if f.State == FillState && i > 0 && f.Body > 0 {
			values = append(values, (f.Peak-r.Load.Footprints[i-1].Resident)/f.Body)
		}
	}
	t.Measured = SpreadOf(values)
	return t
}

func (r *Reports) saving(what string, t Target) Target {
	t.What = what
	if len(r.Agency.Savings) > 0 && len(r.Agency.Savings[0].Ways) > 1 {
		ways := r.Agency.Savings[0].Ways
		t.Measured = SpreadOf([]float64{ways[0].Calls / ways[1].Calls})
	}
	return t
}

// Compare replaces the "before" figures with those measured for an older version. Both are all targets.
func Compare(targets, older []Target) {
	for i := range targets {
		targets[i].Before = ""
		if older[i].Known {
			targets[i].Before = strings.TrimSpace(older[i].Measured.format("%.2f") + " " + targets[i].Unit)
		}
	}
}

// AppendTargets appends the table of the targets as Markdown.
func AppendTargets(text []byte, targets []Target) []byte {
	text = append(text, "| what | target | before | measured | |\n|---|---|---|---|---|\n"...)
	for _, t := range targets {
		limit, measured, verdict := "at most ", "not measured", ""
		if t.AtLeast {
			limit = "at least "
		}
		unit := t.Unit
		if unit != "" {
			unit = " " + unit
		}
		if t.Known {
			measured, verdict = t.Measured.format("%.2f")+unit, "missed"
		}
		if t.Known && t.Met() {
			verdict = "met"
		}
		text = fmt.Appendf(text, "| %s | %s%g%s | %s | %s | %s |\n", t.What, limit, t.Limit, unit, t.Before, measured, verdict)
	}
	return text
}

package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Markdown writes the report as Markdown.
func (r *Report) Markdown(w io.Writer) error {
	m := r.Machine
	text := fmt.Appendf(nil, "`%s` at %s, %s, %.0f s. %d cores of %s, Linux %s, %s; load %.1f before.\n", r.Command, r.Commit,
		r.Began.UTC().Format("2006-01-02 15:04 UTC"), r.Took, m.Cores, m.CPU, m.Kernel, m.Go, m.Load)
	if len(r.Measurements) > 0 {
		text = appendSpeed(text, r.Measurements)
		text = appendCost(text, r.Measurements)
	}
	text = appendFootprints(text, r.Footprints)
	for _, c := range r.Comparisons {
		text = c.appendTo(text)
	}
	for _, s := range r.Savings {
		text = s.appendTo(text)
	}
	for _, g := range r.Growth {
		text = g.appendTo(text)
	}
	_, err := w.Write(text)
	return err
}

// loop returns the kind of loop with its parameter.
func (m *Measurement) loop() string {
	switch {
	case m.Share > 0:
		return fmt.Sprintf("%s %.0f %%", m.Loop, 100*m.Share)
	case m.Rate > 0:
		return fmt.Sprintf("%s %.0f/s", m.Loop, m.Rate)
	}
	return fmt.Sprintf("%s %d", m.Loop, m.Connections)
}

// alikeRuns returns the measurements of the same loop of the same scenario in all runs, loop by loop.
func alikeRuns(all []Measurement) (alike [][]Measurement) {
	places := map[string]int{}
	for _, m := range all {
		name := m.Scenario + " " + m.loop()
		place, known := places[name]
		if !known {
			place = len(alike)
			places[name], alike = place, append(alike, nil)
		}
		alike[place] = append(alike[place], m)
	}
	return alike
}

// cells appends the median of each figure over the runs, with its range if there are several.
func cells(text []byte, runs []Measurement, figures ...figure) []byte {
	for _, f := range figures {
		var values []float64
		for i := range runs {
			values = append(values, f.of(&runs[i]))
		}
		text = append(append(append(text, ' '), SpreadOf(values).format(f.verb)...), " |"...)
	}
	return append(text, '\n')
}

// A figure of a measurement, with the verb that formats it.
type figure struct {
	verb string
	of   func(*Measurement) float64
}

// format returns the median, with the range if it is one.
func (s Spread) format(verb string) string {
	if s.Least == s.Most {
		return fmt.Sprintf(verb, s.Median)
	}
	return fmt.Sprintf(verb+" ("+verb+"–"+verb+")", s.Median, s.Least, s.Most)
}

func appendSpeed(text []byte, all []Measurement) []byte {
	text = append(text, "\n| scenario | loop | requests | a second | p50 | p90 | p99 | p99.9 | max ms |\n|---|---|---|---|---|---|---|---|---|\n"...)
	for _, runs := range alikeRuns(all) {
		m, requests := &runs[0], map[int]int64{}
		for i := range runs {
			for status, n := range runs[i].Statuses {
				requests[status] += n
			}
		}
		text = fmt.Appendf(text, "| %s | %s | %s |", m.Scenario, m.loop(), counts(requests))
		text = cells(text, runs,
			figure{"%.0f", func(m *Measurement) float64 { return m.Throughput }},
			figure{"%.2f", func(m *Measurement) float64 { return m.Latency.P50 }},
			figure{"%.2f", func(m *Measurement) float64 { return m.Latency.P90 }},
			figure{"%.2f", func(m *Measurement) float64 { return m.Latency.P99 }},
			figure{"%.2f", func(m *Measurement) float64 { return m.Latency.P999 }},
			figure{"%.2f", func(m *Measurement) float64 { return m.Latency.Max }})
	}
	return text
}

func appendCost(text []byte, all []Measurement) []byte {
	text = append(text, "\nPer request: processor time, round trips, and allocations of sara.\n\n"+
		"| scenario | loop | µs sara | redis | client | µs in Redis commands | Redis calls | reads | upstream | bytes | allocations "+
		"| allocated | MiB sara |\n"+
		"|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"...)
	of := func(verb string, f func(*Cost) float64) figure {
		return figure{verb, func(m *Measurement) float64 { return f(&m.Request) }}
	}
	for _, runs := range alikeRuns(all) {
		text = fmt.Appendf(text, "| %s | %s |", runs[0].Scenario, runs[0].loop())
		text = cells(text, runs,
			of("%.1f", func(c *Cost) float64 { return c.CPU["sara"] }), of("%.1f", func(c *Cost) float64 { return c.CPU["redis"] }),
			of("%.1f", func(c *Cost) float64 { return c.CPU["client"] }), of("%.2f", func(c *Cost) float64 { return c.RedisCommand }),
			of("%.3f", func(c *Cost) float64 { return c.RedisCalls }), of("%.3f", func(c *Cost) float64 { return c.RedisReads }),
			of("%.4f", func(c *Cost) float64 { return c.Upstream }), of("%.0f", func(c *Cost) float64 { return c.Bytes }),
			of("%.1f", func(c *Cost) float64 { return c.Objects }), of("%.0f", func(c *Cost) float64 { return c.Allocated }),
			figure{"%.0f", func(m *Measurement) float64 { return float64(m.Resident["sara"]) / (1 << 20) }})
	}
	return text
}

// appendFootprints writes the memory of one replica, with the median and range of all runs.
func appendFootprints(text []byte, all []Footprint) []byte {
	if len(all) == 0 {
		return text
	}
	text = append(text, "\nMemory of one replica, in MiB.\n\n"+
		"| state | cached entries | in the cache | heap in use | resident | peak resident | upstream body |\n"+
		"|---|---|---|---|---|---|---|\n"...)
	var states []string
	figures := map[string][][]float64{}
	const mebi = 1 << 20
	for _, f := range all {
		if figures[f.State] == nil {
			states = append(states, f.State)
		}
		figures[f.State] = append(figures[f.State], []float64{f.Entries, f.Cache / mebi, f.Heap / mebi, f.Resident / mebi, f.Peak / mebi, f.Body / mebi})
	}
	for _, state := range states {
		text = fmt.Appendf(text, "| %s |", state)
		for column := range figures[state][0] {
			var values []float64
			for _, run := range figures[state] {
				values = append(values, run[column])
			}
			verb := "%.1f"
			if column == 0 {
				verb = "%.0f"
			}
			text = fmt.Appendf(text, " %s |", SpreadOf(values).format(verb))
		}
		text = append(text, '\n')
	}
	return text
}

// counts returns the number of answers with each status, or just the number if all are 200.
func counts(statuses map[int]int64) string {
	if ok, only := statuses[200]; only && len(statuses) == 1 {
		return fmt.Sprint(ok)
	}
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(statuses)) {
		parts = append(parts, fmt.Sprintf("%d×%d", statuses[status], status))
	}
	return strings.Join(parts, " ")
}

func (c *Comparison) appendTo(text []byte) []byte {
	text = fmt.Appendf(text, "\nsara against %s: %s; %d connections, %.0f bytes, in turns.\n\n", c.With, c.About, c.Connections, c.Bytes)
	text = append(text, "| round | sara a second | other | ratio | sara per CPU second | other | ratio | sara p99 ms | other |\n"+
		"|---|---|---|---|---|---|---|---|---|\n"...)
	for i, r := range c.Rounds {
		text = fmt.Appendf(text, "| %d | %.0f | %.0f | %.3f | %.0f | %.0f | %.3f | %.2f | %.2f |\n", i+1, r.Sara.Throughput, r.Other.Throughput,
			r.Sara.Throughput/r.Other.Throughput, r.Sara.PerCPU, r.Other.PerCPU, r.Sara.PerCPU/r.Other.PerCPU, r.Sara.P99, r.Other.P99)
	}
	spread := func(r Ratio) string { return fmt.Sprintf("**%.3f** (%.3f to %.3f)", r.Median, r.Least, r.Most) }
	of := "all rounds"
	if last := len(c.Rounds) - 1; last >= 0 && c.Rounds[last].Run > 0 {
		of = fmt.Sprintf("the medians of %d runs", c.Rounds[last].Run+1)
	}
	return fmt.Appendf(text, "\nMedian and range of %s: throughput %s, requests per CPU second %s, p99 %s.\n", of, spread(c.Throughput),
		spread(c.PerCPU), spread(c.P99))
}

func (s *Saving) appendTo(text []byte) []byte {
	text = fmt.Appendf(text, "\nUpstream calls for %d requests: %s.\n\n| | calls | of sara's |\n|---|---|---|\n", s.Requests, s.What)
	for _, way := range s.Ways {
		text = fmt.Appendf(text, "| %s | %.0f | %.2f times |\n", way.Name, way.Calls, way.Calls/max(1, s.Ways[0].Calls))
	}
	return text
}

func (g *Growth) appendTo(text []byte) []byte {
	verdict := "as expected"
	if g.Problem != "" {
		verdict = "**" + g.Problem + "**"
	}
	text = fmt.Appendf(text, "\n**%s**: %s. Expected at most %s; grows with power %.2f: %s.\n\n", g.Name, g.About, g.Shape, g.Exponent, verdict)
	text = fmt.Appendf(text, "| %s | µs CPU per request | range | sara | redis | p50 | p99 ms | upstream |\n"+
		"|---|---|---|---|---|---|---|---|\n", g.Unit)
	for _, p := range g.Points {
		text = fmt.Appendf(text, "| %.0f | %.1f | %.1f to %.1f | %.1f | %.1f | %.2f | %.2f | %.3f |\n",
			p.X, p.CPU.Median, p.CPU.Least, p.CPU.Most, p.By["sara"], p.By["redis"], p.P50, p.P99, p.Calls)
	}
	return text
}

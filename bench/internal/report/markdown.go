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
		text = append(text, "\n| scenario | loop | requests | a second | p50 | p90 | p99 | p99.9 | max ms |\n|---|---|---|---|---|---|---|---|---|\n"...)
		for _, m := range r.Measurements {
			text = m.appendSpeed(text)
		}
		text = append(text, "\nPer request: processor time, round trips, and allocations of sara.\n\n"+
			"| scenario | loop | µs sara | redis | client | µs in Redis commands | Redis calls | reads | upstream | bytes | allocations | allocated | MiB sara |\n"+
			"|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"...)
		for _, m := range r.Measurements {
			text = m.appendCost(text)
		}
	}
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
	if m.Rate > 0 {
		return fmt.Sprintf("%s %.0f/s", m.Loop, m.Rate)
	}
	return fmt.Sprintf("%s %d", m.Loop, m.Connections)
}

func (m *Measurement) appendSpeed(text []byte) []byte {
	l := m.Latency
	return fmt.Appendf(text, "| %s | %s | %s | %.0f | %.2f | %.2f | %.2f | %.2f | %.2f |\n",
		m.Scenario, m.loop(), counts(m.Statuses), m.Throughput, l.P50, l.P90, l.P99, l.P999, l.Max)
}

func (m *Measurement) appendCost(text []byte) []byte {
	c := m.Request
	return fmt.Appendf(text, "| %s | %s | %.1f | %.1f | %.1f | %.2f | %.3f | %.3f | %.4f | %.0f | %.1f | %.0f | %.0f |\n",
		m.Scenario, m.loop(), c.CPU["sara"], c.CPU["redis"], c.CPU["client"], c.RedisCommand, c.RedisCalls, c.RedisReads,
		c.Upstream, c.Bytes, c.Objects, c.Allocated, float64(m.Resident["sara"])/(1<<20))
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
	text = append(text, "| round | sara a second | other | ratio | sara per CPU second | other | ratio | sara p99 ms | other |\n|---|---|---|---|---|---|---|---|---|\n"...)
	for i, r := range c.Rounds {
		text = fmt.Appendf(text, "| %d | %.0f | %.0f | %.3f | %.0f | %.0f | %.3f | %.2f | %.2f |\n", i+1, r.Sara.Throughput, r.Other.Throughput,
			r.Sara.Throughput/r.Other.Throughput, r.Sara.PerCPU, r.Other.PerCPU, r.Sara.PerCPU/r.Other.PerCPU, r.Sara.P99, r.Other.P99)
	}
	spread := func(r Ratio) string { return fmt.Sprintf("**%.3f** (%.3f to %.3f)", r.Median, r.Least, r.Most) }
	return fmt.Appendf(text, "\nMedian ratios: throughput %s, requests per CPU second %s, p99 %s.\n", spread(c.Throughput), spread(c.PerCPU), spread(c.P99))
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
	text = fmt.Appendf(text, "| %s | µs CPU per request | range | sara | redis | p50 | p99 ms | upstream |\n|---|---|---|---|---|---|---|---|\n", g.Unit)
	for _, p := range g.Points {
		text = fmt.Appendf(text, "| %.0f | %.1f | %.1f to %.1f | %.1f | %.1f | %.2f | %.2f | %.3f |\n",
			p.X, p.CPU.Median, p.CPU.Least, p.CPU.Most, p.By["sara"], p.By["redis"], p.P50, p.P99, p.Calls)
	}
	return text
}

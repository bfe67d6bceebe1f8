package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"sara/bench/internal/report"
)

// markdown is all of the plan for people.
func (p *plan) markdown() []byte {
	m := p.report.Machine
	text := fmt.Appendf(nil, "From `%s` at %s on %d cores of %s.\n", p.report.Command, p.report.Commit, m.Cores, m.CPU)
	text = p.appendParts(text)
	text = p.appendCheck(text)
	text = p.appendNeed(text)
	text = p.appendOrders(text)
	return p.appendAssumptions(text)
}

func (p *plan) appendParts(text []byte) []byte {
	text = append(text, "\n## What one request costs, measured\n\n| | share | µs sara | µs Redis | upstream calls | bytes |\n|---|---|---|---|---|---|\n"...)
	row := func(name string, share float64, c cost) {
		text = fmt.Appendf(text, "| %s | %.4g %% | %.1f | %.1f | %.3f | %.0f |\n", name, share*100, c.sara, c.redis, c.upstream, c.bytes)
	}
	for _, name := range slices.Sorted(maps.Keys(p.mix)) {
		row(name, p.mix[name], costOf(busiest(p.report, name)))
	}
	row("**added up**", 1, p.model.cost)
	return text
}

// appendCheck holds what the parts add up to against the mix that was measured.
func (p *plan) appendCheck(text []byte) []byte {
	if p.measured == nil {
		return append(text, "\nThe report has no mix, so the sum is not checked.\n"...)
	}
	text = append(text, "\n## Checked against the measured mix\n\n| | from the parts | measured | error |\n|---|---|---|---|\n"...)
	measured := costOf(p.measured)
	row := func(name, format string, predicted, measured float64) {
		off := "–"
		if measured != 0 {
			off = strings.Replace(fmt.Sprintf("%+.0f %%", (predicted/measured-1)*100), "-0", "+0", 1)
		}
		text = fmt.Appendf(text, "| %s | "+format+" | "+format+" | %s |\n", name, predicted, measured, off)
	}
	row("µs of sara's processor time", "%.1f", p.check.sara, measured.sara)
	row("µs of Redis' processor time", "%.1f", p.check.redis, measured.redis)
	row("upstream calls", "%.4f", p.check.upstream, measured.upstream)
	row("bytes", "%.0f", p.check.bytes, measured.bytes)
	row("throughput of that machine, client and simulator on it", "%.0f", 1/p.check.seconds, 1/measured.seconds)
	return text
}

func (p *plan) appendNeed(text []byte) []byte {
	n := p.model.at(p.rate)
	text = fmt.Appendf(text, "\n## What %s requests a second take\n\nOf %s.\n\n| | |\n|---|---|\n", whole(p.rate), p.mix)
	row := func(name, format string, values ...any) {
		text = fmt.Appendf(text, "| %s | "+format+" |\n", append([]any{name}, values...)...)
	}
	row("processors of sara, busy all the time", "%.2f", n.cores)
	row("replicas", "%.0f of %d cores, busy %.0f %%", n.replicas, p.cores, p.use*100)
	row("servers of Redis", "%s", servers(n))
	row("connections to each of them", "%.0f", n.connections)
	row("upstream calls a minute", "%s", whole(n.calls))
	row("Google Cloud projects", "%.0f", math.Max(1, math.Ceil(n.projects)))
	row("calls a minute of each site", "%.1f of %d", n.calls/float64(p.sites), callsPerSite)
	row("network", "%.2f Gbit/s, of answers uncompressed", n.gigabits)
	row("look-ups of keys and properties a second", "%s", whole(n.lookups))
	row("notices of fills that Redis delivers a second", "%s", whole(n.notifications))
	if each := p.bytesOfProperty(); each > 0 {
		row("memory for what is asked of a property in a day", "%.2f MiB", each/(1<<20))
		row("the same for all properties: `--cache-bytes` of each replica, or what Redis holds", "%.2f GiB", each*float64(p.properties)/(1<<30))
	}
	return text
}

// bytesOfProperty is what the memory held for each property after the trace was asked once; zero if it was not.
func (p *plan) bytesOfProperty() float64 {
	if len(p.report.Savings) == 0 || p.report.Savings[0].Properties == 0 {
		return 0
	}
	for _, m := range p.report.Measurements {
		if m.Scenario == agencyName && m.Loop == report.Once {
			return m.Held.Bytes / float64(p.report.Savings[0].Properties)
		}
	}
	return 0
}

// appendOrders says what breaks in each order of magnitude.
func (p *plan) appendOrders(text []byte) []byte {
	const most = 1_000_000
	text = append(text, "\n## From a thousand to a million, on paper\n\n"+
		"| requests a second | cores | replicas | Redis servers | calls a minute | projects | Gbit/s | look-ups a second | breaks first on the way there |\n"+
		"|---|---|---|---|---|---|---|---|---|\n"...)
	breaches := p.model.breaches(most)
	from := 0.0
	for rate := 1000.0; rate <= most; rate *= 10 {
		first := "nothing"
		for _, b := range breaches {
			if b.rate > from && b.rate <= rate {
				first = fmt.Sprintf("%s, at %s", b.name, whole(b.rate))
				break
			}
		}
		n := p.model.at(rate)
		text = fmt.Appendf(text, "| %s | %.1f | %.0f | %s | %s | %.0f | %.2f | %s | %s |\n", whole(rate), n.cores, n.replicas, servers(n),
			whole(n.calls), math.Max(1, math.Ceil(n.projects)), n.gigabits, whole(n.lookups), first)
		from = rate
	}
	text = append(text, "\nEverything that breaks up to there, in order, and what the design does then:\n\n"...)
	for i, b := range breaches {
		text = fmt.Appendf(text, "%d. At %s a second, %s: %s.\n", i+1, whole(b.rate), b.name, b.then)
	}
	return text
}

func (p *plan) appendAssumptions(text []byte) []byte {
	text = append(text, "\n## What is assumed, not measured\n\n"...)
	say := func(format string, values ...any) { text = fmt.Appendf(text, "- "+format+"\n", values...) }
	say("Processors are like those that measured, and a request costs as much on many replicas as on one; replicas have %d cores, busy %.0f %% at most.", p.cores, p.use*100)
	say("Of two numbers of Redis servers, the first goes by batches as full as measured, %.1f µs a request. On a cluster each account of a batch is a call of its own: "+
		"the second, %.1f µs more for each request, goes by what a memory hit would take that shares its call with no other, extrapolated from how the time falls with the calls.", p.model.redis, p.model.apart)
	say("The mix asks the upstream %.4f times for a request at every rate. It asks less often when more requests are about the same properties, since an answer serves all who ask.", p.model.upstream)
	say("A project may call %d times a minute and a site %d times, which is what Google publishes; %d sites are asked about equally.", callsPerProject, callsPerSite, p.sites)
	say("A key that is in use asks %.4g times a second, of any replica; each replica believes the database for %.0f s if nothing changes, which it asks every second. A database answers %s look-ups a second.",
		p.keyRate, sameFor.Seconds(), whole(p.lookups))
	if p.growth == nil {
		say("What looking up keys takes of sara is not in the sums: the loops had few keys (see -growth).")
	} else {
		say("A request that looks up its key and its property takes %.0f µs more of sara, by `%s`, with SQLite.", p.model.lookup, p.growth.Command)
	}
	say("A Redis takes %s connections, and a replica opens %d for each core; a port carries %.4g Gbit/s, busy %.0f %% at most.", whole(float64(p.clients)), p.clientsPer, p.gigabits, p.use*100)
	return text
}

// servers writes how many servers of Redis it takes: one if that does, else from batches as measured to none at all.
func servers(n need) string {
	least, most := math.Ceil(n.redis), math.Ceil(n.redisApart)
	if least <= 1 {
		return "1"
	}
	return fmt.Sprintf("%.0f to %.0f", least, most)
}

// whole writes a number without decimals, in groups of three digits.
func whole(n float64) string {
	digits := fmt.Sprintf("%.0f", n)
	var groups []string
	for len(digits) > 3 {
		groups = append([]string{digits[len(digits)-3:]}, groups...)
		digits = digits[:len(digits)-3]
	}
	return strings.Join(append([]string{digits}, groups...), ",")
}

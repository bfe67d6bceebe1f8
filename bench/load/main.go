// Command load measures how fast sara is, and what a request costs:
//
//	go run ./load [-scenarios a,b] [-connections 16,128] [-long] [-runs N] [-sara FILE] [-out FOLDER]
//
// It builds sara and starts everything privately: replicas, a real Redis, and the simulated Search Console (in the client's
// process, so the client's processor time includes the simulator's). Misses are answered with recorded bytes, since Search Console
// does not run on sara's cores; see recording. Keys, plans, scopes and all three budgets work as in production, exact in Redis;
// only their limits are raised, so keys with many requests have leases (see package policy); growth has curves of keys
// without leases. The log has the default level and goes to /dev/null. An answer with an unexpected status ends the run with an error.
//
// Each scenario runs in closed loops over the given numbers of connections, which measure the throughput, and then in open
// loops at 50 and 80 % of the highest throughput, which measure the latency from the time at which a request was due:
//
//	agency    the agency trace of package trace, once with cold caches, then repeated
//	memory    tables of about 8 KB from a replica's memory, requested with eight keys of four accounts
//	redis     tables from Redis, written by another replica: the memory cache of this one is tiny
//	misses    requests that no cache can answer: each causes an upstream call
//	narrow    misses of 1,001 rows, the most that a table by clicks reads; only closed loops, over 4 connections
//	wide      misses of 25,000 rows, the most that one upstream call returns, likewise
//	stored    weeks that only the archive has, a new range each time
//	hybrid    the last 16 months, in memory, and up to five archived months before them
//	year      queries of twelve archived months, one request after the other, with warm months
//	year-cold the same, once for each of eight properties, by a replica that has read no month yet
//	movers    movers from rows in memory, with fifty different limits
//	denials   one key far above its limit per minute: nearly all answers are 429
//	unknown   invalid keys, each from a new address: all answers are 401
//	mix       memory 70 %, agency 15 %, movers 5 %, stored 4 %, denials 4 %, misses 2 %
//	replica   the memory of a replica: idle, after one fill of 25,000 rows, after the agency trace, and with a full cache
//
// Finally, memory hits are compared with a bare fasthttp handler, which sends the same bytes from its own process, and
// with the alternatives of package peer that are installed. All of them are measured in turns, so that other load on the
// machine affects all of them equally.
//
// With -runs, all of it is repeated with new servers, and the tables have the median of the runs and their range.
//
// On a shared machine, times mean little. Ratios within one run and processor time per request mean more, and counts
// (allocations, Redis commands, upstream calls) are exact, except for the Redis commands of wide misses, which lack one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"sara/bench/internal/measure"
	"sara/bench/internal/peer"
	"sara/bench/internal/program"
	"sara/bench/internal/report"
	"sara/bench/trace"
)

type options struct {
	plan
	binary    string // sara; empty to build it
	trace     trace.Config
	scenarios []scenario
	compare   bool
	runs      int
	out       string
}

// peersName selects the comparison in the list of scenarios.
const peersName = "peers"

func main() { program.Main("load", start) }

func start(ctx context.Context, args []string) error {
	if len(args) == 2 && args[0] == bareCommand {
		return serveBare(ctx, args[1], os.Stdout)
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	r := report.New("load", args)
	if err := run(ctx, o, r, os.Stderr); err != nil {
		return err
	}
	return r.Finish(o.out, "load", os.Stdout)
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	chosen := flags.String("scenarios", strings.Join(names, ","), "scenarios to measure; peers is the comparison, included by default")
	connections := flags.String("connections", "16,128", "connections of the closed loops, 1 to 4096, ascending; open loops use the last number")
	long := flags.Bool("long", false, "loops of 10 seconds and 20 rounds of comparison instead of 1 second and 10 rounds")
	flags.IntVar(&o.runs, "runs", 1, "number of runs; the tables have their medians and ranges")
	flags.StringVar(&o.binary, "sara", "", "binary to measure; empty to build it")
	flags.StringVar(&o.out, "out", "", "folder for load.json and load.md; it is created if necessary")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.runs < 1 {
		return o, fmt.Errorf("-runs %d: it must be at least 1", o.runs)
	}
	o.compare = *chosen == flags.Lookup("scenarios").DefValue
	o.trace = agencies()
	o.shares, o.warmUp, o.loop, o.rounds = []float64{.5, .8}, 200*time.Millisecond, time.Second, 10
	if *long {
		o.warmUp, o.loop, o.rounds = 2*time.Second, 10*time.Second, 20
	}
	for text := range strings.SplitSeq(*connections, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 4096 {
			return o, fmt.Errorf("-connections %s: %q is not a number from 1 to 4096", *connections, text)
		}
		o.connections = append(o.connections, n)
	}
	for name := range strings.SplitSeq(*chosen, ",") {
		i := slices.IndexFunc(scenarios(), func(s scenario) bool { return s.name == name })
		switch {
		case name == peersName:
			o.compare = true
		case i < 0:
			return o, fmt.Errorf("-scenarios: there is no scenario %q, only %s and %s", name, strings.Join(names, ", "), peersName)
		default:
			o.scenarios = append(o.scenarios, scenarios()[i])
		}
	}
	return o, nil
}

// run measures into the report, and writes its progress.
func run(ctx context.Context, o options, r *report.Report, progress io.Writer) error {
	log := r.Progress(progress)
	for n := range o.runs {
		if o.runs > 1 {
			log("run %d of %d", n+1, o.runs)
		}
		if err := runOnce(ctx, o, n, r, log); err != nil {
			return err
		}
	}
	for i := range r.Comparisons {
		r.Comparisons[i].Summarize()
	}
	return nil
}

// runOnce adds one run to the report.
func runOnce(ctx context.Context, o options, n int, r *report.Report, log func(string, ...any)) (err error) {
	log("build and set up")
	w, err := newWorld(ctx, o.binary, o.trace)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for _, s := range o.scenarios {
		log("%s", s.name)
		note := func(m *report.Measurement) {
			m.Run = n
			r.Measurements = append(r.Measurements, *m)
			log("  %s, %d connections: %.0f a second, p99 %.2f ms, %.1f µs CPU of sara", m.Loop, m.Connections, m.Throughput, m.Latency.P99,
				m.Request.CPU[measure.Sara])
		}
		if s.states == nil {
			err = w.measure(ctx, s, o.plan, note)
		} else {
			err = s.states(w, ctx, func(f report.Footprint) {
				f.Run = n
				r.Footprints = append(r.Footprints, f)
				log("  %s: %.0f MiB resident", f.State, f.Resident/(1<<20))
			})
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if !o.compare {
		return nil
	}
	log("comparison")
	comparisons, err := w.compareAll(ctx, o.plan, log)
	r.AddComparisons(n, comparisons)
	return err
}

// compareAll compares sara with the bare handler and with all peers that are installed.
func (w *world) compareAll(ctx context.Context, p plan, log func(string, ...any)) (_ []report.Comparison, err error) {
	a, err := newArena(ctx, w)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	if err := a.addBare(); err != nil {
		return nil, err
	}
	for _, peer := range peer.All() {
		missing, err := a.addPeer(ctx, peer)
		if err != nil {
			return nil, err
		}
		if missing != nil {
			log("  without %s: %v", peer.Name(), missing)
		}
	}
	return a.compare(ctx, p.connections[len(p.connections)-1], p)
}

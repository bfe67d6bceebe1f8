// Package load is a program that tells how fast sara is, and what a request costs:
//
//	go run ./bench/load [-scenarios a,b] [-connections 16,128] [-long] [-json FILE] [-out FOLDER] [-profiles FOLDER]
//
// It builds sara and starts what it needs privately: replicas of it, a real Redis, and the simulated Search Console (in
// the client's own process, whose processor time has the simulator's in it). Keys, plans, scopes and all three budgets
// are as in production, exact in Redis; only the allowances are raised. The log has production's level and goes to
// /dev/null. Answers that a scenario does not expect end the run with an error.
//
// Each scenario is measured in closed loops over so many connections, which tell the throughput, and then in open loops
// at 50 and 80 % of the best of those, which tell the latency: it counts from when a request was due. The scenarios:
//
//	agency    the agency trace of bench/trace, once as it comes, and then over and over
//	memory    tables of about 8 KB out of a replica's memory, by eight keys of four accounts
//	redis     the same out of Redis, where another replica put them: this one's memory holds next to nothing
//	misses    questions that nobody asked before: each has to ask the upstream
//	stored    weeks that only the archive has, another range each time
//	hybrid    the last 16 months, which are in memory, and up to five archived months before them
//	movers    movers lists of rows in memory, of fifty lengths
//	denials   one key far beyond what its plan admits a minute: nearly all answers are 429
//	unknown   keys that nobody has, each guessed from another address: all answers are 401
//	mix       memory 70 %, agency 15 %, movers 5 %, stored 4 %, denials 4 %, misses 2 %
//
// The first one is asked of a sara that knows nothing, so that its upstream calls can be held against those of a cache that
// one can buy. After that, a memory hit is compared with the floor, a bare fasthttp handler that sends the same bytes from a process of
// its own, and with what one would build instead of sara, as far as it is installed (package peer says what, and which part
// of the work it does): in turns, so that what else the machine does strikes all.
//
// On a machine that does other things, too, seconds mean little: ratios within one run and processor time per request
// mean more, and counts (allocations, calls of Redis and of the upstream) are exact.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sara/bench/internal/peer"
	"sara/bench/internal/report"
	"sara/bench/internal/trial"
	"sara/bench/trace"
)

type options struct {
	plan
	trace     trace.Config
	scenarios []scenario
	compare   bool
	json, out string
}

// peersName stands among the scenarios for the comparison.
const peersName = "peers"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := start(ctx, os.Args[1:])
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, args []string) error {
	if len(args) == 2 && args[0] == floorCommand {
		return serveFloor(ctx, args[1], os.Stdout)
	}
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	return tell(ctx, o, args)
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	chosen := flags.String("scenarios", strings.Join(names, ","), "what to measure; peers is the comparison with the floor and the others")
	connections := flags.String("connections", "16,128", "of the closed loops, each 1 to 4096, ascending; the last are those of the open loops, too")
	long := flags.Bool("long", false, "loops of 10 seconds and 20 rounds instead of 1 and 10; a turn of a round takes half a loop")
	flags.StringVar(&o.profiles, "profiles", "", "folder, made if need be, that gets a CPU profile of sara in each scenario, as SCENARIO.pprof, over one more closed loop")
	flags.StringVar(&o.json, "json", "", "file that gets the whole report as JSON")
	flags.StringVar(&o.out, "out", "", "folder, made if need be, that gets load.json, load.md and the pictures as SVG")
	if err := flags.Parse(args); err != nil {
		return o, err
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
			return o, fmt.Errorf("-connections %s: %q is not a number of 1 to 4096", *connections, text)
		}
		o.connections = append(o.connections, n)
	}
	for name := range strings.SplitSeq(*chosen, ",") {
		i := slices.IndexFunc(scenarios(), func(s scenario) bool { return s.name == name })
		switch {
		case name == peersName:
			o.compare = true
		case i < 0:
			return o, fmt.Errorf("-scenarios: there is no %q; there are %s and %s", name, strings.Join(names, ", "), peersName)
		default:
			o.scenarios = append(o.scenarios, scenarios()[i])
		}
	}
	return o, nil
}

// tell runs everything and tells what came out.
func tell(ctx context.Context, o options, args []string) error {
	r := &report.Report{
		Command: strings.Join(append([]string{"go run ./bench/load"}, args...), " "), Commit: report.ThisCommit(),
		Began: time.Now(), Machine: report.ThisMachine(),
	}
	if err := run(ctx, o, r, os.Stderr); err != nil {
		return err
	}
	r.Took = report.Seconds(time.Since(r.Began).Seconds())
	if o.json != "" {
		if err := r.Save(o.json); err != nil {
			return err
		}
	}
	if o.out != "" {
		if err := r.Publish(o.out, "load"); err != nil {
			return err
		}
	}
	return r.Markdown(os.Stdout)
}

// run measures what the options want into the report, and says on progress what it is at.
func run(ctx context.Context, o options, r *report.Report, progress io.Writer) (err error) {
	began := time.Now()
	say := func(format string, values ...any) {
		_, _ = fmt.Fprintf(progress, "%5.1f s  "+format+"\n", append([]any{time.Since(began).Seconds()}, values...)...)
	}
	say("build and set up")
	w, err := newWorld(ctx, o.trace)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for _, s := range o.scenarios {
		say("%s", s.name)
		note := func(m *report.Measurement) {
			r.Measurements = append(r.Measurements, *m)
			say("  %s, %d connections: %.0f a second, p99 %.2f ms, %.1f µs of sara's CPU", m.Loop, m.Connections, m.Throughput, m.Latency.P99, m.Request.CPU[trial.Sara])
		}
		begun := len(r.Measurements)
		if err := w.measure(ctx, s, o.plan, note); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if cold := r.Measurements[0]; s.once && begun == 0 {
			saved, err := saving(w.trace, &cold)
			if err != nil {
				return err
			}
			r.Savings = append(r.Savings, saved)
		}
	}
	if !o.compare {
		return nil
	}
	say("in turns with the others")
	r.Comparisons, err = w.compareAll(ctx, o.plan, say)
	return err
}

// compareAll compares sara with the floor and with all peers that are installed.
func (w *world) compareAll(ctx context.Context, p plan, say func(string, ...any)) (_ []report.Comparison, err error) {
	a, err := newArena(ctx, w)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	if err := a.addFloor(); err != nil {
		return nil, err
	}
	for _, peer := range peer.All() {
		missing, err := a.addPeer(ctx, peer)
		if err != nil {
			return nil, err
		}
		if missing != nil {
			say("  without %s: %v", peer.Name(), missing)
		}
	}
	return a.compare(ctx, p.connections[len(p.connections)-1], p)
}

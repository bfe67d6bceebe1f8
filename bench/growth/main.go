// Command growth measures how the cost of a request grows, and fails if it grows faster than expected:
//
//	go run ./growth [-curves a,b] [-long] [-out FOLDER]
//
// It builds sara, starts it privately with a real Redis and the simulated Search Console, increases one quantity at a time,
// and measures the processor time of sara and Redis per request. Each curve has an expected shape, which is an upper bound:
// flat, logarithmic, linear, or levelling off. The curves:
//
//	connections  1 to 512 (one address may open 546), memory hits: flat; in fact falling, because busy replicas batch their requests to Redis
//	rows         10 to 25,000 rows from which a ready answer was cut: flat
//	cuts         10 to 25,000 rows in memory, from which each request cuts a new answer: linear
//	misses       10 to 25,000 rows from the upstream, parsed and stored: linear
//	archive      1 to 60 archived months, of which 28 days are requested: flat
//	months       1 to 60 archived months, all of them requested, with a new answer each time: linear
//	properties   100 to 100,000 in the requesting account, memory hits: logarithmic, like indexes
//	list         100 to 100,000 properties, of which one page is listed and all are counted: linear
//	accounts     100 to 1,000,000, of which a hundred are active, memory hits: logarithmic
//	active       100 to 1,000,000 active accounts: levels off once each request looks up its key and its property
//	replicas     1 to 4, memory hits: flat
//
// Rows and months grow through sara's own commands. Properties and accounts are copies, made in the database file, because
// the commands would take hours. Each copied account has its own person and key; all are members of one workspace, so
// they share one answer.
//
// A point is the median of several short loops, and the fit is over all points. That works on a busy machine, where times
// alone do not; the shapes have tolerances for the rest (see shape.go).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"sara/bench/internal/program"
	"sara/bench/internal/report"
)

// A plan sets how long to measure, and how many steps to climb.
type plan struct {
	warmUp, loop time.Duration
	rounds       int
	steps        int // of each ladder at most
}

type options struct {
	plan
	binary  string // sara; empty to build it
	ladders []ladder
	out     string
}

func main() { program.Main("growth", start) }

func start(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	r := report.New("growth", args)
	if err := run(ctx, o, r, os.Stderr); err != nil {
		return err
	}
	if err := r.Finish(o.out, "growth", os.Stdout); err != nil {
		return err
	}
	return misshapen(r.Growth)
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("growth", flag.ContinueOnError)
	var names []string
	for _, l := range ladders() {
		for _, c := range l.curves {
			names = append(names, c.name)
		}
	}
	chosen := flags.String("curves", strings.Join(names, ","), "curves to measure")
	long := flags.Bool("long", false, "nine rounds of a second for each point instead of three of 300 ms")
	flags.StringVar(&o.out, "out", "", "folder for growth.json and growth.md; it is created if necessary")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.plan = plan{warmUp: 100 * time.Millisecond, loop: 300 * time.Millisecond, rounds: 3, steps: math.MaxInt}
	if *long {
		o.warmUp, o.loop, o.rounds = time.Second, time.Second, 9
	}
	if o.ladders, err = choose(strings.Split(*chosen, ",")); err != nil {
		return o, fmt.Errorf("-curves: %w; there are %s", err, strings.Join(names, ", "))
	}
	return o, nil
}

// run measures the curves into the report, and writes its progress.
func run(ctx context.Context, o options, r *report.Report, progress io.Writer) (err error) {
	log := r.Progress(progress)
	log("build and set up")
	w, err := newWorld(ctx, o.binary)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	for _, l := range o.ladders {
		growth, err := w.climb(ctx, l, o.plan)
		if err != nil {
			return err
		}
		for _, g := range growth {
			log("%s grows with power %.2f", g.Name, g.Exponent)
		}
		r.Growth = append(r.Growth, growth...)
	}
	return nil
}

// misshapen returns an error with all curves that exceed their shapes.
func misshapen(curves []report.Growth) error {
	var failures []error
	for _, g := range curves {
		if g.Problem != "" {
			failures = append(failures, fmt.Errorf("%s is not %s: %s", g.Name, g.Shape, g.Problem))
		}
	}
	return errors.Join(failures...)
}

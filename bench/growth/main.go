// Package growth is a program that tells how the cost of a request grows, and fails when it grows faster than it should:
//
//	go run ./bench/growth [-curves a,b] [-long] [-json FILE] [-out FOLDER]
//
// It builds sara, starts it privately with a real Redis and the simulated Search Console, makes one thing at a time bigger
// and bigger, and measures the processor time of sara and Redis for a request. Each curve has the shape that is expected of
// it, which is a bound: flat, logarithmic, linear, or levelling off. The curves:
//
//	connections  1 to 1,024, of memory hits: flat; it falls, for busy replicas ask Redis for many requests at once
//	rows         10 to 25,000 rows that a ready answer was made of: flat
//	cuts         10 to 25,000 rows in memory that each answer is cut from anew: linear
//	misses       10 to 25,000 rows that come from the upstream, read strictly and kept: linear
//	archive      1 to 60 archived months, of which 28 days are asked for: flat
//	months       1 to 60 archived months, all of them asked for, cut anew each time: linear
//	properties   100 to 100,000 in the account that asks, of memory hits: logarithmic, as indexes are
//	list         100 to 100,000 properties, of which a page is listed; all are counted: linear
//	accounts     100 to 100,000, of which a hundred ask, of memory hits: logarithmic
//	active       100 to 100,000 accounts that ask in turn: levels off once each request looks up its key and its property
//	replicas     1 to 4, of memory hits: flat
//
// Rows and months grow in sites and archives that sara's own commands made. Properties and accounts are copies, made in
// the database file, of what the commands made, since those would take hours for so many; each copied account has a
// person and a key of its own, and all are members of one workspace so that they ask for one answer.
//
// A point is the median of several short loops; the fit is over all points. On a busy machine that holds where seconds do
// not, and the shapes allow for the rest (see shape.go).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"sara/bench/internal/report"
)

// A plan says how long to measure, and how far to climb.
type plan struct {
	warmUp, loop time.Duration
	rounds       int
	steps        int // of each ladder; more than there are: all
}

type options struct {
	plan
	ladders   []ladder
	json, out string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := start(ctx, os.Args[1:])
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, args []string) error {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	r := &report.Report{
		Command: strings.Join(append([]string{"go run ./bench/growth"}, args...), " "), Commit: report.ThisCommit(),
		Began: time.Now(), Machine: report.ThisMachine(),
	}
	if err := run(ctx, o, r, os.Stderr); err != nil {
		return err
	}
	r.Took = report.Seconds(time.Since(r.Began).Seconds())
	if err := tell(o, r); err != nil {
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
	chosen := flags.String("curves", strings.Join(names, ","), "what is to grow")
	long := flags.Bool("long", false, "nine rounds of a second for each point instead of three of 300 ms")
	flags.StringVar(&o.json, "json", "", "file that gets the whole report as JSON")
	flags.StringVar(&o.out, "out", "", "folder, made if need be, that gets growth.json, growth.md and the curves as SVG")
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

// run measures the curves into the report, and says on progress what it is at.
func run(ctx context.Context, o options, r *report.Report, progress io.Writer) (err error) {
	began := time.Now()
	say := func(format string, values ...any) {
		_, _ = fmt.Fprintf(progress, "%5.1f s  "+format+"\n", append([]any{time.Since(began).Seconds()}, values...)...)
	}
	say("build and set up")
	w, err := newWorld(ctx)
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
			say("%s grows with power %.2f", g.Name, g.Exponent)
		}
		r.Growth = append(r.Growth, growth...)
	}
	return nil
}

func tell(o options, r *report.Report) error {
	if o.json != "" {
		if err := r.Save(o.json); err != nil {
			return err
		}
	}
	if o.out != "" {
		if err := r.Publish(o.out, "growth"); err != nil {
			return err
		}
	}
	return r.Markdown(os.Stdout)
}

// misshapen is an error that names all curves that are not of their shape.
func misshapen(curves []report.Growth) error {
	var failures []error
	for _, g := range curves {
		if g.Problem != "" {
			failures = append(failures, fmt.Errorf("%s is NOT %s: %s", g.Name, g.Shape, g.Problem))
		}
	}
	return errors.Join(failures...)
}

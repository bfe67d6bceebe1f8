// Package agency is a program that replays the agency trace against sara at full speed, and prints how many upstream calls
// it took, by the simulator's own count, next to what a URL-keyed cache would have called for the same requests:
//
//	go run ./bench/agency [-seed N] [-properties N] [-requests N] [-replicas N] [-concurrency N] [-cache-bytes SIZE]
//		[-out FOLDER]
//
// The whole run is shorter than the lifetimes, so expiry plays no part in it; what it does in a working day is a second
// table, of two models (see package trace).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"sara/bench/internal/report"
	"sara/bench/internal/stage"
	"sara/bench/trace"
	"sara/proxy/upstream/gscsim"
)

// options are what the flags say.
type options struct {
	trace                 trace.Config
	site                  gscsim.Site
	replicas, concurrency int
	cacheBytes, out       string
}

func main() {
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	if err == nil {
		err = tell(ctx, o, os.Args[1:])
	}
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "agency:", err)
		os.Exit(1)
	}
}

// tell replays the trace and tells what came of it.
func tell(ctx context.Context, o options, args []string) error {
	published := report.Report{
		Command: strings.Join(append([]string{"go run ./bench/agency"}, args...), " "), Commit: report.ThisCommit(),
		Began: time.Now(), Machine: report.ThisMachine(),
	}
	r, err := run(ctx, o)
	if err != nil {
		return err
	}
	if o.out != "" {
		published.Took = report.Seconds(time.Since(published.Began).Seconds())
		published.Savings = []report.Saving{r.saving()}
		if err := published.Publish(o.out, "agency"); err != nil {
			return err
		}
	}
	return r.print(os.Stdout)
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("agency", flag.ContinueOnError)
	flags.Uint64Var(&o.trace.Seed, "seed", 1, "of the trace")
	flags.IntVar(&o.trace.Requests, "requests", 20_000, "how many; an agency's plan has 5,000 a day")
	flags.IntVar(&o.trace.Accounts, "accounts", 4, "agencies")
	flags.IntVar(&o.trace.People, "people", 8, "of each account, 1 to 10")
	flags.IntVar(&o.trace.Properties, "properties", 120, "of all accounts together")
	flags.IntVar(&o.site.Queries, "site-queries", 1500, "queries of each simulated site")
	flags.IntVar(&o.site.Pages, "site-pages", 300, "pages of each simulated site")
	flags.IntVar(&o.replicas, "replicas", 1, "processes of sara; more than one needs redis-server")
	flags.IntVar(&o.concurrency, "concurrency", 16, "connections, 1 to 256")
	flags.StringVar(&o.cacheBytes, "cache-bytes", "", "bound of each replica's memory cache, such as 64MiB; sara's default if not set")
	flags.StringVar(&o.out, "out", "", "folder, made if need be, that gets agency.json, agency.md and the calls as SVG")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	t := o.trace
	if min(t.Requests, t.Accounts, t.People, o.site.Queries, o.site.Pages, o.replicas, o.concurrency) < 1 || t.People > 10 || t.Properties < t.Accounts {
		return o, errors.New("every number has to be at least 1, people at most 10, and properties at least one for each account")
	}
	return o, nil
}

// run replays the trace against a sara of its own.
func run(ctx context.Context, o options) (_ *outcome, err error) {
	if o.trace.Anchor, err = trace.Anchor(time.Now()); err != nil {
		return nil, err
	}
	requests := trace.Generate(o.trace)
	models, err := count(o.trace, requests)
	if err != nil {
		return nil, err
	}
	s, err := stage.Start(ctx, stage.Config{Accounts: accounts(o.trace), Site: o.site, Replicas: o.replicas, CacheBytes: o.cacheBytes})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r := &outcome{options: o, models: models}
	before := s.Simulator.Calls().SearchAnalytics
	r.tally, err = s.Drive(ctx, func(yield func(stage.Request) bool) {
		for _, r := range requests {
			if !yield(stage.Request{Key: s.Keys[r.Account][r.Person], Path: r.URL()}) {
				return
			}
		}
	}, o.concurrency)
	r.calls = int(s.Simulator.Calls().SearchAnalytics - before)
	return r, err
}

// accounts is the stage's side of a trace.
func accounts(c trace.Config) []stage.Account {
	accounts := make([]stage.Account, c.Accounts)
	for i := range accounts {
		accounts[i].People = c.People
	}
	for i := range c.Properties {
		p := stage.Property{Domain: trace.Domain(i)}
		if c.HasSegments(i) {
			p.BrandTerms, p.PageGroups = []string{trace.BrandTerm(i)}, trace.PageGroups()
		}
		owner := &accounts[c.Account(i)]
		owner.Properties = append(owner.Properties, p)
	}
	return accounts
}

// An outcome is what a run came to.
type outcome struct {
	options
	tally  *stage.Tally
	calls  int // of search analytics, by the simulator
	models models
}

// ratio is what sara called to what the URL-keyed cache would have called.
func (r *outcome) ratio() float64 { return share(r.calls, r.models.atOnce.urlKeyed) }

// saving is the outcome as reports have it.
func (r *outcome) saving() report.Saving {
	once := r.models.atOnce
	return report.Saving{
		What:     fmt.Sprintf("the agency trace of %d accounts and %d properties", r.trace.Accounts, r.trace.Properties),
		Requests: r.trace.Requests, Properties: r.trace.Properties,
		Ways: []report.Way{
			{Name: "sara", Calls: float64(r.calls)}, {Name: "URL-keyed cache", Calls: float64(once.urlKeyed)},
			{Name: "... that asks for each period", Calls: float64(once.perPeriod)}, {Name: "no cache", Calls: float64(once.none)},
		},
	}
}

func share(part, whole int) float64 { return float64(part) / float64(max(1, whole)) }

func (r *outcome) print(w io.Writer) error {
	t, once, day := r.trace, r.models.atOnce, r.models.day
	text := fmt.Appendf(nil, "Agency trace: seed %d, %d requests, %d accounts of %d people, %d properties of %d queries and %d pages; "+
		"%d replicas, %d connections.\n\n", t.Seed, t.Requests, t.Accounts, t.People, t.Properties, r.site.Queries, r.site.Pages, r.replicas, r.concurrency)
	text = fmt.Appendf(text, "| one run, nothing expires | |\n|---|---|\n")
	row := func(what, format string, values ...any) {
		text = fmt.Appendf(text, "| "+what+" | "+format+" |\n", values...)
	}
	row("requests answered", "%d in %.1f s", r.tally.Requests(), r.tally.Elapsed.Seconds())
	row("statuses", "%s", counts(r.tally.Statuses))
	row("X-Cache", "%s", counts(r.tally.Cache))
	row("upstream calls of sara, measured", "%d", r.calls)
	row("upstream calls of a URL-keyed cache", "%d", once.urlKeyed)
	row("**ratio**", "**%.3f** (1/%.1f)", r.ratio(), 1/r.ratio())
	row("a URL-keyed cache that asks for each period of a summary", "%d, ratio %.3f", once.perPeriod, share(r.calls, once.perPeriod))
	row("no cache", "%d", once.none)
	row("p50, p99 (indicative: client, simulator and sara share the machine)", "%.1f ms, %.1f ms",
		milliseconds(r.tally.Percentile(.5)), milliseconds(r.tally.Percentile(.99)))
	text = fmt.Appendf(text, "\nModels, nothing measured: the rules that sara documents against the URL-keyed cache. \"In a day\" plays the same\n"+
		"requests over a working day of nine hours, with entries that expire after 10 minutes, or 6 hours for settled ranges.\n\n"+
		"| model | URL-keyed | widening | ratio |\n|---|---|---|---|\n")
	model := func(what string, c calls) {
		text = fmt.Appendf(text, "| %s | %d | %d | %.3f |\n", what, c.urlKeyed, c.widening, share(c.widening, c.urlKeyed))
	}
	model("all at once", once)
	model("in a day", day)
	for _, kind := range r.models.kinds() {
		c := r.models.byKind[kind]
		model(fmt.Sprintf("all at once: %s (%d requests)", kind, c.requests), *c)
	}
	for status, example := range r.tally.Examples {
		text = fmt.Appendf(text, "\n%d, for example: %s\n", status, example)
	}
	_, err := w.Write(text)
	return err
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

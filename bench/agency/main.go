// Command agency replays two traces against sara at full speed: the agency trace, and a trace of programs that no rule of
// sara's cache was tuned to. It prints the number of upstream calls, as counted by the simulator, in total and by kind of request, and
// how many a URL-keyed cache would have made for the same requests:
//
//	go run ./agency [-seed N] [-properties N] [-requests N] [-replicas N] [-connections N] [-cache-bytes SIZE]
//		[-out FOLDER]
//
// An answer that is not a 200 ends the run with an error, because it may have cost no call. The runs are shorter than any TTL, so
// nothing expires. A second table models a working day, in which entries expire (see package trace).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"sara/bench/internal/loadgen"
	"sara/bench/internal/measure"
	"sara/bench/internal/program"
	"sara/bench/internal/report"
	"sara/bench/internal/testbed"
	"sara/bench/trace"
	"sara/proxy/upstream/gscsim"
)

type options struct {
	binary                string // sara; empty to build it
	trace                 trace.Config
	site                  gscsim.Site
	replicas, connections int
	cacheBytes, out       string
}

func main() { program.Main("agency", start) }

func start(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	published := report.New("agency", args)
	for _, generated := range traces() {
		r, err := run(ctx, o, generated)
		if err != nil {
			return err
		}
		published.Savings = append(published.Savings, r.saving())
		if err := r.print(os.Stdout); err != nil {
			return err
		}
	}
	if o.out == "" {
		return nil
	}
	return published.Finish(o.out, "agency", io.Discard)
}

// A generated is a kind of trace.
type generated struct {
	name     string
	requests func(trace.Config) []trace.Request
}

func traces() []generated {
	return []generated{{"agency trace", trace.Generate}, {"trace of programs", trace.GenerateMachines}}
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("agency", flag.ContinueOnError)
	flags.Uint64Var(&o.trace.Seed, "seed", 1, "seed of the trace")
	flags.IntVar(&o.trace.Requests, "requests", 20_000, "number of requests; an agency's plan has 5,000 a day")
	flags.IntVar(&o.trace.Accounts, "accounts", 4, "agencies")
	flags.IntVar(&o.trace.People, "people", 8, "people of each account, 1 to 10")
	flags.IntVar(&o.trace.Properties, "properties", 120, "properties of all accounts together")
	flags.IntVar(&o.site.Queries, "site-queries", 1500, "queries of each simulated site")
	flags.IntVar(&o.site.Pages, "site-pages", 300, "pages of each simulated site")
	flags.IntVar(&o.replicas, "replicas", 1, "processes of sara; more than one needs redis-server")
	flags.IntVar(&o.connections, "connections", 16, "number of connections")
	flags.StringVar(&o.cacheBytes, "cache-bytes", "", "size of each replica's memory cache, such as 64MiB; empty for sara's default")
	flags.StringVar(&o.out, "out", "", "folder for agency.json and agency.md; it is created if necessary")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	t := o.trace
	if min(t.Requests, t.Accounts, t.People, o.site.Queries, o.site.Pages, o.replicas, o.connections) < 1 || t.People > 10 || t.Properties < t.Accounts {
		return o, errors.New("every number must be at least 1, people at most 10, and properties at least one for each account")
	}
	return o, nil
}

// run replays a trace against a private sara, and sequentially against another one, to learn what each kind of request costs.
func run(ctx context.Context, o options, t generated) (r *outcome, err error) {
	if o.trace.Anchor, err = trace.Anchor(time.Now()); err != nil {
		return nil, err
	}
	r = &outcome{options: o, name: t.name, requests: t.requests(o.trace)}
	small := max(o.site.Queries, o.site.Pages) <= trace.SmallTable
	if r.models, err = count(o.trace, small, r.requests); err != nil {
		return nil, err
	}
	var kinds map[string]int
	if r.result, r.calls, kinds, err = r.replay(ctx, o.connections); err == nil && o.connections > 1 {
		_, _, kinds, err = r.replay(ctx, 1)
	}
	for kind, calls := range r.models.byKind {
		calls.measured = kinds[kind]
	}
	return r, err
}

// replay returns the upstream calls in total, and by the kind of request; the latter are meaningful only with one connection.
func (r *outcome) replay(ctx context.Context, connections int) (result *loadgen.Result, total int, kinds map[string]int, err error) {
	b, err := testbed.Start(ctx, testbed.Config{Binary: r.binary, Accounts: testbed.AccountsOf(r.trace), Site: r.site,
		Replicas: r.options.replicas, CacheBytes: r.cacheBytes})
	if err != nil {
		return nil, 0, nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	var mu sync.Mutex // guards what follows
	kinds, sent := map[string]int{}, -1
	before := int(b.Calls())
	counted := before
	next := func(n int) { // before request n
		mu.Lock()
		defer mu.Unlock()
		calls := int(b.Calls())
		if sent >= 0 {
			kinds[kindOf(r.requests[sent])] += calls - counted
		}
		counted, sent = calls, n
	}
	load := loadgen.Load{Connections: connections, Requests: int64(len(r.requests)), Source: func(n int64) loadgen.Request {
		next(int(n))
		asked := r.requests[n]
		return loadgen.Get(asked.URL(), "Authorization", "Bearer "+b.Keys[asked.Account][asked.Person])
	}}
	for _, replica := range b.Replicas {
		load.Addresses = append(load.Addresses, replica.Address)
	}
	result, err = load.Run(ctx)
	next(-1)
	if err == nil {
		err = result.Unexpected(http.StatusOK)
	}
	return result, counted - before, kinds, err
}

// An outcome is the result of a run.
type outcome struct {
	options
	name     string // of the trace
	requests []trace.Request
	result   *loadgen.Result
	calls    int // of search analytics, as the simulator counted
	models   models
}

// ratio returns sara's upstream calls divided by those of the URL-keyed cache.
func (r *outcome) ratio() float64 { return share(r.calls, r.models.atOnce.urlKeyed) }

// saving returns the outcome for a report.
func (r *outcome) saving() report.Saving {
	once := r.models.atOnce
	return report.Saving{
		What:     fmt.Sprintf("the %s of %d accounts and %d properties", r.name, r.trace.Accounts, r.trace.Properties),
		Requests: len(r.requests), Properties: r.trace.Properties,
		Ways: []report.Way{
			{Name: "sara", Calls: float64(r.calls)}, {Name: "URL-keyed cache", Calls: float64(once.urlKeyed)},
			{Name: "... with one call per period", Calls: float64(once.perPeriod)}, {Name: "no cache", Calls: float64(once.none)},
		},
	}
}

func share(part, whole int) float64 { return float64(part) / float64(max(1, whole)) }

func (r *outcome) print(w io.Writer) error {
	t, once, day := r.trace, r.models.atOnce, r.models.day
	text := fmt.Appendf(nil, "\nThe %s: seed %d, %d requests, %d accounts of %d people, %d properties of %d queries and %d pages; "+
		"%d replicas, %d connections.\n\n", r.name, t.Seed, len(r.requests), t.Accounts, t.People, t.Properties, r.site.Queries, r.site.Pages,
		r.options.replicas, r.connections)
	text = fmt.Appendf(text, "| one run, nothing expires | |\n|---|---|\n")
	row := func(what, format string, values ...any) {
		text = fmt.Appendf(text, "| "+what+" | "+format+" |\n", values...)
	}
	row("requests answered", "%d in %.1f s", r.result.Requests(), r.result.Elapsed.Seconds())
	row("X-Cache", "%s", counts(r.result.Cache))
	row("upstream calls of sara, measured", "%d", r.calls)
	row("upstream calls of a URL-keyed cache", "%d", once.urlKeyed)
	row("**ratio**", "**%.3f** (1/%.1f)", r.ratio(), 1/r.ratio())
	row("a URL-keyed cache with one call for each period of a summary", "%d, ratio %.3f", once.perPeriod, share(r.calls, once.perPeriod))
	row("no cache", "%d", once.none)
	row("p50, p99 (indicative: client, simulator and sara share the machine)", "%.1f ms, %.1f ms",
		measure.Milliseconds(r.result.Percentile(50)), measure.Milliseconds(r.result.Percentile(99)))
	text = fmt.Appendf(text, "\nBy kind of request, one after the other:\n\n"+
		"| kind | requests | URL-keyed | sara, measured | ratio |\n|---|---|---|---|---|\n")
	for _, kind := range r.models.kinds() {
		c := r.models.byKind[kind]
		text = fmt.Appendf(text, "| %s | %d | %d | %d | %.3f |\n", kind, c.requests, c.urlKeyed, c.measured, share(c.measured, c.urlKeyed))
	}
	text = fmt.Appendf(text, "\nModels, not measurements: sara's documented caching rules against the URL-keyed cache. \"In a day\" spreads the same\n"+
		"requests over a working day of nine hours; entries expire after 10 minutes, or 6 hours for settled ranges.\n\n"+
		"| model | URL-keyed | widening | ratio |\n|---|---|---|---|\n")
	model := func(what string, c calls) {
		text = fmt.Appendf(text, "| %s | %d | %d | %.3f |\n", what, c.urlKeyed, c.widening, share(c.widening, c.urlKeyed))
	}
	model("all at once", once)
	model("in a day", day)
	_, err := w.Write(text)
	return err
}

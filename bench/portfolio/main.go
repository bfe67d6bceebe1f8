// Command portfolio sends an agency's requests about all of its sites on a Monday morning, in two ways: one request for each
// property, which is the only way without /v1/portfolio and offset; and with these, partly through sara report:
//
//	go run ./portfolio [-properties N] [-rows N] [-keys N] [-latency TIME] [-sara FILE] [-out FOLDER]
//
// The steps are the overview (28 days against the 28 before), the year (this month against the same days a year ago), one site's whole
// table of queries, and four daily reports (the last day, 7 days, 28 days, and the month so far) as files.
//
// First, both ways run without limits, each against its own servers, to count requests, calls to Search Console and seconds. Then they
// run under the limits of the agency plan, until the first refusal that lasts longer than a minute. There, the way with one request per
// property rotates several keys, because one key may send 60 requests a minute. A model of the plan's limits (see finish) computes
// when each way would finish with one key.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"sara/bench/internal/program"
	"sara/bench/internal/report"
	"sara/policy"
)

type options struct {
	binary           string // sara; empty to build it
	properties, rows int
	keys             int
	latency          time.Duration // of each call to Search Console
	out              string
}

func main() { program.Main("portfolio", start) }

func start(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	published := report.New("portfolio", args)
	progress := published.Progress(os.Stderr)
	progress("%d properties, %v a call", o.properties, o.latency)
	c, err := compare(ctx, o, progress)
	if err != nil {
		return err
	}
	m := published.Machine
	text := fmt.Sprintf("`%s` at %s, %s, %.0f s. %d cores of %s; load %.1f before.\n\n%s", published.Command, published.Commit,
		published.Began.UTC().Format("2006-01-02 15:04 UTC"), time.Since(published.Began).Seconds(), m.Cores, m.CPU, m.Load, c)
	if _, err := fmt.Print(text); err != nil || o.out == "" {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	return os.WriteFile(o.out+"/portfolio.md", []byte(text), 0o644)
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("portfolio", flag.ContinueOnError)
	flags.IntVar(&o.properties, "properties", 290, "sites of the agency")
	flags.IntVar(&o.rows, "rows", 25_000, "queries of the site whose whole table is read")
	flags.IntVar(&o.keys, "keys", 10, "keys that the way with one request per property rotates under the plan, at most 10")
	flags.DurationVar(&o.latency, "latency", 150*time.Millisecond, "how long Search Console takes for a call")
	flags.StringVar(&o.binary, "sara", "", "a built sara; empty to build it")
	flags.StringVar(&o.out, "out", "", "folder for portfolio.md; it is created if necessary")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if min(o.properties, o.rows, o.keys) < 1 || o.keys > 10 || o.latency < 0 {
		return o, errors.New("every number must be at least 1, and keys at most 10")
	}
	if most := policy.DefaultPlans()[agencyPlan].SearchConsoleCallsPerDay; o.properties > most {
		return o, fmt.Errorf("-properties is %d, but a day of the plan has %d calls: no day would read all at once", o.properties, most)
	}
	return o, nil
}

// Command faults makes everything that sara depends on fail, one thing after the other, and counts what
// clients notice:
//
//	go run ./faults [-only text,text] [-hold 5s] [-most 12m] [-sara FILE]
//
// It starts three replicas of sara on a real PostgreSQL, Redis (with its append-only file) and S3 store (versitygw), with the
// simulated Search Console, behind a load balancer that obeys /readyz (package balancer). After the faults of single servers come those
// of a Redis Sentinel, of a Redis Cluster, and of PgBouncer in transaction mode. During each fault, and until a second has passed
// without a failure after it, four clients ask known questions (a known key, and answers that the replicas have), and another one uses
// up a day of 150 requests. During faults of Search Console and of the store, one more client asks new questions that the other of the
// two can answer.
//
// The program prints a table with a line for each fault. It fails if less than 99.99 % of the known questions were answered, if they were
// not all answered again within a second, if a new question was not answered, or if any question took four seconds. It also fails if a day
// was exceeded by more than deploy/README.md states for such a loss of counts (type loss). It tries all faults, even after one has failed,
// and begins none after -most.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"sara/bench/internal/program"
	"sara/bench/internal/testbed"
)

type options struct {
	binary string // sara; empty to build it
	log    string
	faults []fault
	hold   time.Duration // of a fault, unless it has a longer one
	before time.Duration // without the fault
	quiet  time.Duration // without a failure, after which a fault is over
	target float64       // percent of the known questions
	timed  bool          // promises about time count
	most   time.Duration // after which no further fault begins
	fresh  *atomic.Int64 // numbers new questions
}

func main() {
	program.Main("faults", func(ctx context.Context, args []string) error {
		o, err := parse(args)
		if err != nil {
			return err
		}
		return run(ctx, o, os.Stdout, os.Stderr)
	})
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	only := flags.String("only", "", "texts, separated by commas, that the names of the faults to run contain; empty: all faults")
	flags.DurationVar(&o.hold, "hold", 5*time.Second, "how long a fault is held")
	flags.Float64Var(&o.target, "target", 99.99, "percent of the known questions that must be answered")
	flags.DurationVar(&o.most, "most", 12*time.Minute, "the time after which no further fault begins")
	flags.StringVar(&o.binary, "sara", "", "binary to try; empty to build it")
	flags.StringVar(&o.log, "log", "", "file for the replicas' logs")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.timed, o.fresh, o.before, o.quiet = true, new(atomic.Int64), time.Second, time.Second
	if o.faults = choose(strings.Split(*only, ",")); len(o.faults) == 0 {
		return o, fmt.Errorf("-only is %q: no fault has such a name", *only)
	}
	if !testbed.HasPostgres() || !testbed.HasS3() {
		return o, errors.New("PostgreSQL and versitygw must be installed")
	}
	if pooled := func(f fault) bool { return f.setup.pooler }; slices.ContainsFunc(o.faults, pooled) && !testbed.HasPooler() {
		return o, errors.New("PgBouncer must be installed, or -only must leave out its faults")
	}
	return o, nil
}

// run tries the faults, prints the table, and returns an error if a promise was not kept. Failures do not keep it from trying
// the rest.
func run(ctx context.Context, o options, out, progress io.Writer) error {
	begun := time.Now()
	_, _ = fmt.Fprintf(out, tableHead+"\n", countedADay)
	var broken []error
	done := 0
	for _, s := range []setup{{}, {group: testbed.Sentinel}, {group: testbed.Cluster}, {pooler: true}} {
		chosen := slices.DeleteFunc(slices.Clone(o.faults), func(f fault) bool { return f.setup != s })
		if len(chosen) == 0 {
			continue
		}
		try := func() error {
			w, err := newWorld(ctx, o, s, len(chosen))
			if err != nil {
				return fmt.Errorf("%v: %w", s, err)
			}
			for i, f := range chosen {
				if done++; ctx.Err() != nil || time.Since(begun) > o.most {
					broken = append(broken, fmt.Errorf("%s: not tried, the time is up", f.name))
					continue
				}
				_, _ = fmt.Fprintf(progress, "%v: %d of %d: %s\n", time.Since(begun).Round(time.Second), done, len(o.faults), f.name)
				r := w.try(ctx, f, i+1)
				_, _ = fmt.Fprintln(out, r.row())
				for _, problem := range r.problems(o) {
					broken = append(broken, fmt.Errorf("%s: %s", f.name, problem))
				}
			}
			return w.Close()
		}
		if err := try(); err != nil {
			broken = append(broken, err)
		}
	}
	return errors.Join(broken...)
}

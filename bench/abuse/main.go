// Command abuse tries to take a private sara down, and fails if other tenants notice:
//
//	go run ./abuse [-trials a,b] [-rounds N] [-for 30m [-turn 2m]] [-sara FILE] [-database sqlite|postgres] [-memory 768MiB]
//
// Each trial starts a new sara process with the limits that deploy ships (GOMEMLIMIT=640MiB, SARA_CACHE_BYTES=256MiB) in a memory
// cgroup of 768 MiB, with a real Redis, a database, and the simulated Search Console. Quiet tenants, in a separate process,
// send requests all the time: cached ones at a fixed rate, some of them on new connections, and a few cold ones. One account, or
// a client without a key, then attacks as the trial describes. The abuser and the simulator, which run on other machines in production,
// use only idle processors (SCHED_IDLE) if the program runs as root. The trials:
//
//	movers    a Pro key's minute of cold movers at once, with upstream bodies of 10 MB
//	spenders  the same by ten accounts at once
//	heads     12,500 connections from one address, each with 32 KB of an unfinished request
//	idle      16,384 idle connections from one address
//	crowd     the same from many addresses: while they open, and for two seconds, others may have to connect again
//	unread    1,200 requests for long answers, which the client does not read
//	office    ten key guesses a second from the address of 63 valid keys, after a restart
//	guesses   8,000 key guesses from one IPv6 /64, and 2,000 strings that are not keys
//	rows      one account's rows flood a small Redis that also counts the budgets
//	split     the same with the rows on a separate Redis (SARA_REDIS_CACHE_URL)
//	copies    one account reads long copies from Redis as fast as it can, through a replica with little memory
//	failing   the upstream fails for one account's property
//	lapsed    404, 405, and the 403 of a lapsed plan, with valid keys
//
// A trial passes if the process survives within its memory limit, and quiet tenants get no error and are answered in time: at most
// twice as late as before, or within 250 ms. Every refusal of the abuser must be in sara's error envelope and state when to
// retry, and the trial's own condition must hold, such as that a used-up day stays used up. Where no cgroup can be created, the
// program reports that, and bounds the peak of the resident memory instead.
//
// With -for, it instead runs the abuse of nine of these trials in turns on one sara, with faults of Redis, the database and the
// upstream, and prints a line for each turn; office, split and copies need a separate sara. Then quiet tenants may get the errors
// that a fault is documented to cause, and no others.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"sara/bench/internal/program"
	"sara/bench/internal/testbed"
)

type options struct {
	size
	binary   string // sara; empty to build it
	trials   []trial
	duration time.Duration // of the mix; 0 for the trials
	turn     time.Duration // of the mix
	postgres bool
	memory   int64
	rounds   int // of each trial
}

func main() { program.Main("abuse", command) }

func command(ctx context.Context, args []string) error {
	if len(args) == 2 && args[0] == askerCommand {
		return runAsker(ctx, args[1], os.Stdout)
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	return run(ctx, o, os.Stdout)
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("abuse", flag.ContinueOnError)
	o.size = fullSize()
	all := trials()
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = t.name
	}
	chosen := flags.String("trials", strings.Join(names, ","), "trials to run")
	database := flags.String("database", "", "sqlite or postgres; empty for postgres where it is installed")
	memory := flags.String("memory", "768MiB", "memory of sara's cgroup")
	flags.IntVar(&o.rounds, "rounds", 1, "how often to run each trial; its row has the answers of all rounds together")
	flags.DurationVar(&o.duration, "for", 0, "how long to run the mix of abuse and faults, instead of the trials")
	flags.DurationVar(&o.turn, "turn", 2*time.Minute, "how long one abuse and one fault of the mix last")
	flags.StringVar(&o.binary, "sara", "", "binary to try; empty to build it")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	bytes, err := humanize.ParseBytes(*memory)
	if err != nil {
		return o, fmt.Errorf("-memory: %w", err)
	}
	o.memory = int64(bytes)
	switch *database {
	case "":
		o.postgres = testbed.HasPostgres()
	case "postgres", "sqlite":
		o.postgres = *database == "postgres"
	default:
		return o, fmt.Errorf("-database is %q, want sqlite or postgres", *database)
	}
	if o.rounds < 1 {
		return o, fmt.Errorf("-rounds is %d, want at least 1", o.rounds)
	}
	if o.duration > 0 && (o.turn <= 0 || o.turn > o.duration) {
		return o, fmt.Errorf("-turn is %v, want more than 0 and at most %v", o.turn, o.duration)
	}
	o.trials, err = choose(strings.Split(*chosen, ","))
	return o, err
}

// choose returns the trials of these names.
func choose(names []string) (chosen []trial, err error) {
	byName := map[string]trial{}
	for _, t := range trials() {
		byName[t.name] = t
	}
	for _, name := range names {
		t, ok := byName[name]
		if !ok {
			return nil, fmt.Errorf("there is no trial %q", name)
		}
		chosen = append(chosen, t)
	}
	return chosen, nil
}

// run runs the trials, or the mix, prints its Markdown, and returns an error if one failed.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	w, err := newWorld(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	w.say(out)
	if o.duration > 0 {
		return w.mix(ctx, out)
	}
	var failed []string
	_, _ = fmt.Fprintln(out, tableHead)
	for _, t := range o.trials {
		r, err := w.repeat(ctx, t)
		if err != nil {
			return fmt.Errorf("trial %s: %w", t.name, err)
		}
		_, _ = fmt.Fprintln(out, r.row())
		if len(r.problems) > 0 {
			failed = append(failed, t.name)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	return nil
}

// Package soak is a program that asks sara a million distinct questions, and fails if its memory does not stay bounded:
//
//	go run ./bench/soak [-questions N] [-cache-bytes SIZE] [-concurrency N]
//
// After every batch it reads the replica's metrics. The memory cache's own count of its bytes must never exceed the
// bound, and from the time on when it is full the heap may grow by a quarter and 16 MiB, no more: it compares the peak of
// the last third of the batches with that of the first third, so that the collector's own swing cancels out.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"sara/bench/internal/stage"
	"sara/proxy/upstream/gscsim"
)

type options struct {
	questions, batch, concurrency int
	cacheBytes                    string
}

func main() {
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	if err == nil {
		_, err = run(ctx, o, os.Stdout)
	}
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.IntVar(&o.questions, "questions", 1_000_000, fmt.Sprintf("distinct questions, up to %d", maxQuestions))
	flags.IntVar(&o.batch, "batch", 20_000, "questions between two looks at the metrics")
	flags.IntVar(&o.concurrency, "concurrency", 64, "connections, 1 to 256")
	flags.StringVar(&o.cacheBytes, "cache-bytes", "64MiB", "bound of the memory cache")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if min(o.questions, o.batch, o.concurrency) < 1 || o.questions > maxQuestions {
		return o, fmt.Errorf("every number has to be at least 1, and there are %d questions", maxQuestions)
	}
	return o, nil
}

// A sample is what the metrics say after so many questions, in bytes.
type sample struct {
	questions             int
	cache, heap, resident float64
}

// outcome is a whole soak.
type outcome struct {
	samples []sample
	cache   map[string]int // X-Cache of the answers
}

// run soaks a sara of its own, telling what it sees, and returns an error if its memory is not bounded.
func run(ctx context.Context, o options, out io.Writer) (_ *outcome, err error) {
	bound, err := humanize.ParseBytes(o.cacheBytes)
	if err != nil {
		return nil, fmt.Errorf("the bound of the cache: %w", err)
	}
	var accounts []stage.Account
	for site := range sites {
		accounts = append(accounts, stage.Account{People: 1, Properties: []stage.Property{{Domain: domain(site)}}})
	}
	s, err := stage.Start(ctx, stage.Config{Accounts: accounts, Site: gscsim.Site{Queries: 60, Pages: 30}, Replicas: 1, CacheBytes: o.cacheBytes})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	result := &outcome{cache: map[string]int{}}
	lastDay := time.Now().AddDate(0, 0, -4) // final everywhere, and still so if the day changes meanwhile
	if _, err := fmt.Fprintf(out, "| questions | a second | cache MiB | heap in use MiB | resident MiB |\n|---|---|---|---|---|\n"); err != nil {
		return nil, err
	}
	for from := 0; from < o.questions; from += o.batch {
		to := min(from+o.batch, o.questions)
		tally, err := s.Drive(ctx, questions(from, to, s.Keys, lastDay), o.concurrency)
		if err != nil {
			return nil, err
		}
		now, err := result.note(ctx, s, tally, to)
		if err != nil {
			return nil, err
		}
		if _, err := fmt.Fprintf(out, "| %d | %.0f | %.1f | %.1f | %.1f |\n", to, float64(to-from)/tally.Elapsed.Seconds(),
			mebibytes(now.cache), mebibytes(now.heap), mebibytes(now.resident)); err != nil {
			return nil, err
		}
	}
	return result, bounded(result.samples, float64(bound))
}

func mebibytes(bytes float64) float64 { return bytes / (1 << 20) }

// note adds a batch to the outcome. A question that is not answered well is an error.
func (r *outcome) note(ctx context.Context, s *stage.Stage, tally *stage.Tally, asked int) (sample, error) {
	for status, example := range tally.Examples {
		return sample{}, fmt.Errorf("%d of %d questions got a %d, such as %s", tally.Statuses[status], tally.Requests(), status, example)
	}
	if tally.Statuses[http.StatusOK] != tally.Requests() {
		return sample{}, fmt.Errorf("BUG: statuses %v of %d questions", tally.Statuses, tally.Requests())
	}
	for state, n := range tally.Cache {
		r.cache[state] += n
	}
	metrics, err := s.Metrics(ctx, s.Replicas[0])
	if err != nil {
		return sample{}, err
	}
	now := sample{asked, metrics["sara_cache_memory_bytes"], metrics["go_memstats_heap_inuse_bytes"], metrics["process_resident_memory_bytes"]}
	r.samples = append(r.samples, now)
	return now, nil
}

// How much the heap may grow once the cache is full.
const (
	growthFactor = 1.25
	growthSlack  = 16 << 20
)

// bounded judges the samples of a soak with a bound on the cache.
func bounded(samples []sample, bound float64) error {
	for _, s := range samples {
		if s.cache > bound {
			return fmt.Errorf("after %d questions the cache holds %.0f bytes: its bound is %.0f", s.questions, s.cache, bound)
		}
	}
	// What is added last may not fit any more, so a full cache is a little below its bound.
	full := slices.IndexFunc(samples, func(s sample) bool { return s.cache >= 0.9*bound })
	if full < 0 {
		return fmt.Errorf("the cache never came near its bound of %.0f bytes: ask more, or bound it closer", bound)
	}
	since := samples[full:]
	const parts = 3
	if len(since) < parts {
		return errors.New("the cache was full only at the end: ask more, or bound it closer")
	}
	third := len(since) / parts
	early, late := peak(since[:third]), peak(since[len(since)-third:])
	if late > growthFactor*early+growthSlack {
		return fmt.Errorf("the heap grew from %.1f to %.1f MiB with a full cache", mebibytes(early), mebibytes(late))
	}
	return nil
}

func peak(samples []sample) float64 {
	most := 0.0
	for _, s := range samples {
		most = max(most, s.heap)
	}
	return most
}

// Command soak sends a million distinct requests to sara, and fails unless its memory stays bounded:
//
//	go run ./soak [-big] [-requests N] [-batch N] [-cache-bytes SIZE] [-connections N] [-sara FILE]
//
// It reads the metrics of the replica after every batch. The size of the memory cache, as sara counts it, must never exceed
// its limit. Once the cache is full, the heap may grow by a quarter and 16 MiB: the peak over the last third of the batches
// is compared with the peak over the first third, so that garbage collection cycles cancel out. GOGC is 100, so the heap in use
// has less garbage than a server's may have.
//
// With -big, the answers come from page rows of 10 MB, and sara has the limits that deploy ships: a memory cgroup of 768 MiB, where
// one can be created, and GOMEMLIMIT=640MiB. Then the kernel decides, and a request may be refused with 503 while memory is short.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"sara/bench/internal/loadgen"
	"sara/bench/internal/procstat"
	"sara/bench/internal/program"
	"sara/bench/internal/testbed"
)

type options struct {
	binary                       string // sara; empty to build it
	requests, batch, connections int
	cacheBytes                   string
	big                          bool
}

func main() {
	program.Main("soak", func(ctx context.Context, args []string) error {
		o, err := parse(args)
		if err != nil {
			return err
		}
		_, err = run(ctx, o, os.Stdout)
		return err
	})
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.BoolVar(&o.big, "big", false, "answers from 25,000 rows of long URLs; the defaults become 2,000 requests in batches of 100, "+
		"over 16 connections, and a cache of 256MiB")
	flags.StringVar(&o.binary, "sara", "", "binary to soak; empty to build it")
	flags.IntVar(&o.requests, "requests", 1_000_000, fmt.Sprintf("number of distinct requests, at most %d", maxRequests))
	flags.IntVar(&o.batch, "batch", 20_000, "requests between two readings of the metrics")
	flags.IntVar(&o.connections, "connections", 64, "number of connections")
	flags.StringVar(&o.cacheBytes, "cache-bytes", "64MiB", "size of the memory cache")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.big {
		given := map[string]bool{}
		flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
		for name, value := range map[string]string{"requests": "2000", "batch": "100", "connections": "16", "cache-bytes": "256MiB"} {
			if !given[name] {
				_ = flags.Set(name, value) // all are valid
			}
		}
	}
	if min(o.requests, o.batch, o.connections) < 1 || o.requests > maxRequests {
		return o, fmt.Errorf("every number must be at least 1, and there are at most %d distinct requests", maxRequests)
	}
	return o, nil
}

// A sample has metrics in bytes, after a number of requests.
type sample struct {
	requests              int
	cache, heap, resident float64
}

// An outcome is the result of a run.
type outcome struct {
	samples  []sample
	cache    map[string]int64 // answers by their X-Cache header
	statuses []int            // allowed for answers
}

// run soaks a private sara, prints the samples, and returns an error unless its memory is bounded.
func run(ctx context.Context, o options, out io.Writer) (_ *outcome, err error) {
	limit, err := humanize.ParseBytes(o.cacheBytes)
	if err != nil {
		return nil, fmt.Errorf("-cache-bytes: %w", err)
	}
	b, replica, err := o.start(ctx, out)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	result := &outcome{cache: map[string]int64{}, statuses: []int{http.StatusOK}}
	if o.big {
		result.statuses = append(result.statuses, http.StatusServiceUnavailable)
	}
	if _, err := fmt.Fprintf(out, "| requests | a second | refused | cache MiB | heap in use MiB | resident MiB |\n"+
		"|---|---|---|---|---|---|\n"); err != nil {
		return nil, err
	}
	err = o.soak(ctx, b, replica, result, out)
	ended, stopErr := b.StopReplica(replica)
	if err = errors.Join(err, ended, stopErr); err != nil {
		return nil, err
	}
	if o.big {
		return result, underLimit(result.samples, float64(limit))
	}
	return result, bounded(result.samples, float64(limit))
}

// soak sends the batches.
func (o options) soak(ctx context.Context, b *testbed.Testbed, replica *testbed.Replica, result *outcome, out io.Writer) error {
	path := path
	if o.big {
		path = bigPath
	}
	lastDay := time.Now().AddDate(0, 0, -4) // final in every time zone, even if the day changes during the run
	for from := 0; from < o.requests; from += o.batch {
		to := min(from+o.batch, o.requests)
		load := loadgen.Load{Addresses: []string{replica.Address}, Connections: o.connections, Requests: int64(to - from)}
		load.Source = func(n int64) loadgen.Request {
			path, site := path(from+int(n), lastDay)
			return loadgen.Get(path, "Authorization", "Bearer "+b.Keys[site][0])
		}
		answers, err := load.Run(ctx)
		if err != nil {
			return killed(replica, err)
		}
		now, err := result.add(ctx, replica, answers, to)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "| %d | %.0f | %d | %.1f | %.1f | %.1f |\n", to, answers.Throughput(),
			answers.Statuses[http.StatusServiceUnavailable], mebibytes(now.cache), mebibytes(now.heap), mebibytes(now.resident)); err != nil {
			return err
		}
	}
	return nil
}

func mebibytes(bytes float64) float64 { return bytes / (1 << 20) }

// add adds a batch to the outcome. An unexpected status is an error.
func (r *outcome) add(ctx context.Context, replica *testbed.Replica, answers *loadgen.Result, requests int) (sample, error) {
	if err := answers.Unexpected(r.statuses...); err != nil {
		return sample{}, err
	}
	for state, n := range answers.Cache {
		r.cache[state] += n
	}
	metrics, err := procstat.ReadMetrics(ctx, http.DefaultClient, replica.AdminURL+"/metrics")
	if err != nil {
		return sample{}, err
	}
	now := sample{requests, metrics["sara_cache_memory_bytes"], metrics["go_memstats_heap_inuse_bytes"], metrics["process_resident_memory_bytes"]}
	r.samples = append(r.samples, now)
	return now, nil
}

// The heap may grow this much once the cache is full.
const (
	growthFactor = 1.25
	growthSlack  = 16 << 20
)

// bounded checks the samples of a run whose cache has a limit.
func bounded(samples []sample, limit float64) error {
	if err := underLimit(samples, limit); err != nil {
		return err
	}
	// A full cache is a little below its limit, because the next entry does not fit.
	full := slices.IndexFunc(samples, func(s sample) bool { return s.cache >= 0.9*limit })
	if full < 0 {
		return fmt.Errorf("the cache never filled its %.0f bytes: send more requests, or make it smaller", limit)
	}
	since := samples[full:]
	const parts = 3
	if len(since) < parts {
		return errors.New("the cache was full only at the end: send more requests, or make it smaller")
	}
	third := len(since) / parts
	early, late := peak(since[:third]), peak(since[len(since)-third:])
	if late > growthFactor*early+growthSlack {
		return fmt.Errorf("the heap grew from %.1f to %.1f MiB with a full cache", mebibytes(early), mebibytes(late))
	}
	return nil
}

// underLimit checks the size of the cache.
func underLimit(samples []sample, limit float64) error {
	for _, s := range samples {
		if s.cache > limit {
			return fmt.Errorf("after %d requests the cache has %.0f bytes; its limit is %.0f", s.requests, s.cache, limit)
		}
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

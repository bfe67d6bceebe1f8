package loadgen

import (
	"context"
	"fmt"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A run is a Load in progress.
type run struct {
	Load
	clock  clock
	began  time.Time
	next   atomic.Int64   // number of the next request
	due    chan time.Time // times at which requests of an open loop are due; nil in a closed loop
	shards [shards]shard
}

// A shard is a histogram that several workers share: one for each of a thousand workers would take tens of megabytes.
type shard struct {
	sync.Mutex
	latency *hdrhistogram.Histogram
}

const shards = 16

func (l Load) run(ctx context.Context, clock clock) (*Result, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	workers := make([]*worker, l.Connections)
	for i := range workers {
		w, err := newWorker(ctx, l.Addresses[i%len(l.Addresses)])
		if err != nil {
			return nil, err
		}
		defer w.close()
		workers[i] = w
	}
	r := &run{Load: l, clock: clock}
	for i := range r.shards {
		r.shards[i].latency = newHistogram()
	}
	if l.Duration > 0 {
		late := time.AfterFunc(l.Duration+l.patience(), func() {
			fail(fmt.Errorf("answers are missing %v after the end of the run", l.patience()))
		})
		defer late.Stop()
	}
	r.began = clock.Now()
	r.work(ctx, fail, workers)
	elapsed := clock.Now().Sub(r.began)
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return r.result(workers, elapsed), nil
}

func (l Load) patience() time.Duration {
	if l.Patience > 0 {
		return l.Patience
	}
	return 10 * time.Second
}

// work runs one goroutine for each worker, and waits for all of them.
func (r *run) work(ctx context.Context, fail func(error), workers []*worker) {
	var group sync.WaitGroup
	if r.Rate > 0 {
		r.due = make(chan time.Time)
		group.Go(func() {
			if err := r.schedule(ctx); err != nil {
				fail(err)
			}
		})
	}
	for i, w := range workers {
		group.Go(func() {
			if err := r.loop(ctx, w, &r.shards[i%shards]); err != nil {
				fail(err)
			}
		})
	}
	group.Wait()
}

// loop sends requests with one worker until the load ends.
func (r *run) loop(ctx context.Context, w *worker, s *shard) error {
	for {
		n, from, ok := r.take(ctx)
		if !ok {
			return nil
		}
		if err := w.send(r.Source(n)); err != nil {
			return fmt.Errorf("request %d, to %s: %w", n, w.address, err)
		}
		s.record(r.clock.Now().Sub(from))
	}
}

// take returns the number of the next request and the time that its latency counts from. In an open loop it waits until
// the request is due.
func (r *run) take(ctx context.Context) (n int64, from time.Time, ok bool) {
	if r.due != nil {
		from, ok = <-r.due
		return r.next.Add(1) - 1, from, ok
	}
	n, from = r.next.Add(1)-1, r.clock.Now()
	ended := r.Requests > 0 && n >= r.Requests || r.Duration > 0 && from.Sub(r.began) >= r.Duration
	return n, from, !ended && ctx.Err() == nil
}

// record counts a latency; one above the histogram's range counts as its maximum.
func (s *shard) record(latency time.Duration) {
	s.Lock()
	defer s.Unlock()
	_ = s.latency.RecordValue(int64(min(latency, longest))) // fails only out of range
}

// schedule sends the times at which requests are due. While no worker is free it blocks, but the times do not move:
// the requests that became due meanwhile follow at once, each with the time at which it should have been sent.
func (r *run) schedule(ctx context.Context) error {
	defer close(r.due)
	for n := range r.arrivals() {
		due := r.began.Add(dueAfter(n, r.Rate))
		if wait := due.Sub(r.clock.Now()); wait > 0 {
			if err := r.clock.Sleep(wait); err != nil {
				return err
			}
		}
		select {
		case r.due <- due:
		case <-ctx.Done():
			return nil // the run's error is its cause
		}
	}
	return nil
}

// arrivals returns how many requests of an open loop are due before its end.
func (l Load) arrivals() int64 {
	if l.Duration > 0 {
		due := int64(math.Ceil(l.Rate * l.Duration.Seconds()))
		if l.Requests <= 0 || due < l.Requests {
			return due
		}
	}
	return l.Requests
}

// dueAfter returns when the n-th request of an open loop is due, from the start.
func dueAfter(n int64, rate float64) time.Duration {
	return time.Duration(float64(n) / rate * float64(time.Second))
}

func (r *run) result(workers []*worker, elapsed time.Duration) *Result {
	total := &Result{Statuses: map[int]int64{}, Cache: map[string]int64{}, Examples: map[int]string{}, Latency: newHistogram(), Elapsed: elapsed}
	for i := range r.shards {
		total.Latency.Merge(r.shards[i].latency)
	}
	for _, w := range workers {
		for status, n := range w.statuses {
			total.Statuses[status] += n
		}
		for state, n := range w.cache {
			total.Cache[state] += *n
		}
		maps.Copy(total.Examples, w.examples)
		total.Received += w.received
	}
	return total
}

package wire

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

// A run is a Load under way.
type run struct {
	Load
	clock   clock
	began   time.Time
	next    atomic.Int64   // of the requests that were begun
	due     chan time.Time // when requests of an open loop are due; nil in a closed one
	tallies [shards]tally  // connections share them: a histogram takes tens of kilobytes
}

type tally struct {
	sync.Mutex
	latency *hdrhistogram.Histogram
}

const (
	shards      = 16
	longest     = time.Minute
	significant = 2 // digits of a latency
)

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(longest), significant) }

func (l Load) run(ctx context.Context, clock clock) (*Result, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	connections := make([]*connection, l.Connections)
	for i := range connections {
		c, err := dial(ctx, l.Addresses[i%len(l.Addresses)])
		if err != nil {
			return nil, err
		}
		defer c.close()
		connections[i] = c
	}
	r := &run{Load: l, clock: clock}
	for i := range r.tallies {
		r.tallies[i].latency = newHistogram()
	}
	if l.Duration > 0 {
		late := time.AfterFunc(l.Duration+l.patience(), func() {
			fail(fmt.Errorf("some requests have no answer %v after the end", l.patience()))
		})
		defer late.Stop()
	}
	r.began = clock.Now()
	r.converseAll(ctx, fail, connections)
	elapsed := clock.Now().Sub(r.began)
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return r.result(connections, elapsed), nil
}

func (l Load) patience() time.Duration {
	if l.Patience > 0 {
		return l.Patience
	}
	return defaultPatience
}

// converseAll runs one goroutine for each connection, and waits for them.
func (r *run) converseAll(ctx context.Context, fail func(error), connections []*connection) {
	var group sync.WaitGroup
	if r.Rate > 0 {
		r.due = make(chan time.Time)
		group.Go(func() {
			if err := r.schedule(ctx); err != nil {
				fail(err)
			}
		})
	}
	for i, c := range connections {
		group.Go(func() {
			release := context.AfterFunc(ctx, c.close)
			defer release()
			if err := r.converse(ctx, c, &r.tallies[i%shards]); err != nil {
				fail(err)
			}
		})
	}
	group.Wait()
}

// converse asks on one connection until the load ends.
func (r *run) converse(ctx context.Context, c *connection, t *tally) error {
	for {
		n, from, ok := r.turn(ctx)
		if !ok {
			return nil
		}
		c.request = r.Source(c.request[:0], n)
		if err := c.exchange(ctx); err != nil {
			return fmt.Errorf("request %d, to %s: %w", n, c.address, err)
		}
		t.record(r.clock.Now().Sub(from))
	}
}

// turn returns the number of the next request and the time that its latency counts from, in an open loop once it is due.
func (r *run) turn(ctx context.Context) (n int64, from time.Time, ok bool) {
	if r.due != nil {
		from, ok = <-r.due
		return r.next.Add(1) - 1, from, ok
	}
	n, from = r.next.Add(1)-1, r.clock.Now()
	ended := r.Requests > 0 && n >= r.Requests || r.Duration > 0 && from.Sub(r.began) >= r.Duration
	return n, from, !ended && ctx.Err() == nil
}

// record counts a latency. One that is longer than the histogram holds is counted as the longest.
func (t *tally) record(latency time.Duration) {
	t.Lock()
	defer t.Unlock()
	_ = t.latency.RecordValue(int64(min(latency, longest))) // its error is a value out of the bounds
}

// schedule hands out the times at which requests are due. While no connection is free it waits, but those times do not:
// what was due meanwhile is handed out at once, with the time at which it should have gone.
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
			return nil // whoever ended the run said why
		}
	}
	return nil
}

// arrivals is how many requests of an open loop are due before its end.
func (l Load) arrivals() int64 {
	most := l.Requests
	if l.Duration > 0 {
		due := int64(math.Ceil(l.Rate * l.Duration.Seconds()))
		if most <= 0 || due < most {
			return due
		}
	}
	return most
}

// dueAfter is when the n-th request of an open loop is due, from the start.
func dueAfter(n int64, rate float64) time.Duration {
	return time.Duration(float64(n) / rate * float64(time.Second))
}

func (r *run) result(connections []*connection, elapsed time.Duration) *Result {
	total := &Result{Statuses: map[int]int64{}, Cache: map[string]int64{}, Examples: map[int]string{}, Latency: newHistogram(), Elapsed: elapsed}
	for i := range r.tallies {
		total.Latency.Merge(r.tallies[i].latency)
	}
	for _, c := range connections {
		for status, n := range c.statuses {
			total.Statuses[status] += n
		}
		for state, n := range c.cache {
			total.Cache[state] += *n
		}
		maps.Copy(total.Examples, c.examples)
		total.Sent += c.sent
		total.Received += c.received
		total.Closed += c.closed
	}
	return total
}

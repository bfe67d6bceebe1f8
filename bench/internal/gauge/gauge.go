// Package gauge reads what a measurement costs those who serve it: the processes (CPU, memory), Go's allocator in them, and
// a Redis (its calls, its time for them, what came in over its connections). A Reading is what all counters stand at; the
// difference of two is what was used between them.
//
// The kernel counts a process's time to the nanosecond and tells it in hundredths of a second, so a measurement should take
// a second at least. Reading costs something itself: a scrape of the metrics allocates in the process that is scraped.
// Calibrate finds out how much, and Since takes it off. Nothing here keeps a state; a Gauge is for one goroutine.
package gauge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Server is one process to watch.
type Server struct {
	Name    string
	PID     int
	Metrics string // address of its Prometheus metrics; empty: it has none
}

// A Gauge knows what to read.
type Gauge struct {
	Servers []Server
	Redis   *redis.Client // nil: there is none; stays the caller's
	Client  *http.Client  // for the metrics; stays the caller's

	overhead map[string]Heap // of one scrape, by server
}

// A Reading is what the counters stand at.
type Reading struct {
	At        time.Time
	Processes map[string]Process // by the names of their servers
	Heaps     map[string]Heap    // of those with metrics
	Redis     Redis
}

// Used is what was used between two readings. Memory is that of the later one.
type Used struct {
	Elapsed   time.Duration
	Processes map[string]Process
	Heaps     map[string]Heap
	Redis     Redis
}

// Heap is what Go's allocator gave out since the process began.
type Heap struct {
	Objects float64 `json:"objects"`
	Bytes   float64 `json:"bytes"`
}

func (g *Gauge) read(ctx context.Context, order ...func(context.Context, *Reading) error) (*Reading, error) {
	r := &Reading{Processes: map[string]Process{}, Heaps: map[string]Heap{}}
	for _, step := range order {
		if err := step(ctx, r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Before reads everything at the beginning of a measurement, the processes and the clock last.
func (g *Gauge) Before(ctx context.Context) (*Reading, error) {
	return g.read(ctx, g.readHeaps, g.readRedis, g.readProcesses)
}

// After reads everything at the end of a measurement, the clock and the processes first, so that the time that reading takes
// is not in between.
func (g *Gauge) After(ctx context.Context) (*Reading, error) {
	return g.read(ctx, g.readProcesses, g.readRedis, g.readHeaps)
}

// Calibrate measures what a scrape allocates, of which there is one between Before and After. The mean of several is taken,
// since the runtime counts small objects in lots.
func (g *Gauge) Calibrate(ctx context.Context) error {
	const scrapes = 16
	first, err := g.read(ctx, g.readHeaps)
	if err != nil {
		return err
	}
	last := first
	for range scrapes {
		if last, err = g.read(ctx, g.readHeaps); err != nil {
			return err
		}
	}
	g.overhead = map[string]Heap{}
	for name, heap := range last.Heaps {
		from := first.Heaps[name]
		g.overhead[name] = Heap{(heap.Objects - from.Objects) / scrapes, (heap.Bytes - from.Bytes) / scrapes}
	}
	return nil
}

// Since returns what was used from one reading to another, without what the reading took.
func (g *Gauge) Since(before, after *Reading) Used {
	used := Used{Elapsed: after.At.Sub(before.At), Processes: map[string]Process{}, Heaps: map[string]Heap{}, Redis: after.Redis.since(before.Redis)}
	for name, process := range after.Processes {
		used.Processes[name] = process.since(before.Processes[name])
	}
	for name, heap := range after.Heaps {
		scrape, from := g.overhead[name], before.Heaps[name]
		used.Heaps[name] = Heap{max(0, heap.Objects-from.Objects-scrape.Objects), max(0, heap.Bytes-from.Bytes-scrape.Bytes)}
	}
	return used
}

func (g *Gauge) readProcesses(_ context.Context, r *Reading) error {
	r.At = time.Now()
	for _, server := range g.Servers {
		process, err := ReadProcess(server.PID)
		if err != nil {
			return fmt.Errorf("%s: %w", server.Name, err)
		}
		r.Processes[server.Name] = process
	}
	return nil
}

func (g *Gauge) readRedis(ctx context.Context, r *Reading) (err error) {
	if g.Redis != nil {
		r.Redis, err = ReadRedis(ctx, g.Redis)
	}
	return err
}

func (g *Gauge) readHeaps(ctx context.Context, r *Reading) error {
	for _, server := range g.Servers {
		if server.Metrics == "" {
			continue
		}
		metrics, err := ReadMetrics(ctx, g.Client, server.Metrics)
		if err != nil {
			return fmt.Errorf("%s: %w", server.Name, err)
		}
		objects, ok := metrics["go_memstats_mallocs_total"]
		bytes, has := metrics["go_memstats_alloc_bytes_total"]
		if !ok || !has {
			return errors.New(server.Name + ": its metrics do not tell what was allocated")
		}
		r.Heaps[server.Name] = Heap{objects, bytes}
	}
	return nil
}

// Package procstat reads the resources that servers use during a measurement: the processor time and memory of their
// processes, the allocations of their Go heaps, and the commands, round trips and time of a Redis. A Reading has the value of
// every counter at one moment; the difference of two readings is the use in between.
//
// /proc has processor time in hundredths of a second, so a measurement should take at least a second. Reading also has a cost:
// a scrape of the metrics allocates in the scraped process. Calibrate measures that, and Since subtracts it. A Reader
// belongs to one goroutine.
package procstat

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Server is a process to watch.
type Server struct {
	Name    string
	PID     int
	Metrics string // URL of its Prometheus metrics; empty if it has none
}

// A Reader reads the counters of several servers.
type Reader struct {
	Servers []Server
	Redis   redis.Cmdable // nil if there is none; the caller closes it
	Client  *http.Client  // for the metrics

	overhead map[string]Heap // of one scrape, by server
}

// A Reading is the value of every counter at one moment.
type Reading struct {
	At        time.Time
	Processes map[string]Process // by server name
	Heaps     map[string]Heap    // of the servers with metrics
	Redis     Redis
}

// Used is the use between two readings. Memory is that of the later one.
type Used struct {
	Elapsed   time.Duration
	Processes map[string]Process
	Heaps     map[string]Heap
	Redis     Redis
}

// Heap counts the allocations of Go's allocator since the process started.
type Heap struct {
	Objects float64
	Bytes   float64
}

func (g *Reader) read(ctx context.Context, steps ...func(context.Context, *Reading) error) (*Reading, error) {
	r := &Reading{Processes: map[string]Process{}, Heaps: map[string]Heap{}}
	for _, step := range steps {
		if err := step(ctx, r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Before reads everything at the start of a measurement: processes and the clock last.
func (g *Reader) Before(ctx context.Context) (*Reading, error) {
	return g.read(ctx, g.readHeaps, g.readRedis, g.readProcesses)
}

// After reads everything at the end of a measurement: the clock and processes first, so the time that the readings take
// is not part of the measurement.
func (g *Reader) After(ctx context.Context) (*Reading, error) {
	return g.read(ctx, g.readProcesses, g.readRedis, g.readHeaps)
}

// Calibrate measures what a scrape allocates; there is one between Before and After. It takes the mean of several scrapes,
// because the runtime counts small objects in batches.
func (g *Reader) Calibrate(ctx context.Context) error {
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

// Since returns the use between two readings, without the cost of reading.
func (g *Reader) Since(before, after *Reading) Used {
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

func (g *Reader) readProcesses(_ context.Context, r *Reading) error {
	r.At = time.Now()
	for _, server := range g.Servers {
		process, err := readProcess(server.PID)
		if err != nil {
			return fmt.Errorf("%s: %w", server.Name, err)
		}
		r.Processes[server.Name] = process
	}
	return nil
}

func (g *Reader) readRedis(ctx context.Context, r *Reading) (err error) {
	if g.Redis != nil {
		r.Redis, err = ReadRedis(ctx, g.Redis)
	}
	return err
}

func (g *Reader) readHeaps(ctx context.Context, r *Reading) error {
	for _, server := range g.Servers {
		if server.Metrics == "" {
			continue
		}
		metrics, err := ReadMetrics(ctx, g.Client, server.Metrics)
		if err != nil {
			return fmt.Errorf("%s: %w", server.Name, err)
		}
		objects, hasObjects := metrics["go_memstats_mallocs_total"]
		bytes, hasBytes := metrics["go_memstats_alloc_bytes_total"]
		if !hasObjects || !hasBytes {
			return errors.New(server.Name + ": its metrics lack Go's allocation counters")
		}
		r.Heaps[server.Name] = Heap{objects, bytes}
	}
	return nil
}

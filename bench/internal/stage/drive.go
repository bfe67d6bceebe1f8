package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"sara/bench/internal/gauge"
)

const maxConnections = 256

// A Replica is one process of sara.
type Replica struct {
	URL, AdminURL string
	PID           int
}

// A Redis is the process of one that the replicas share.
type Redis struct {
	Address string // host:port
	PID     int
}

// A Request is a GET with a key.
type Request struct{ Key, Path string }

// A Tally is what came back.
type Tally struct {
	Statuses  map[int]int
	Cache     map[string]int  // X-Cache of the answers
	Examples  map[int]string  // one body of each status but 200
	Latencies []time.Duration // ascending; with their own client and the simulator on the same machine
	Elapsed   time.Duration
}

// Requests is how many were answered.
func (t *Tally) Requests() int { return len(t.Latencies) }

// Percentile returns the latency that a share of the answers did not exceed; zero if there are none.
func (t *Tally) Percentile(share float64) time.Duration {
	if len(t.Latencies) == 0 {
		return 0
	}
	return t.Latencies[int(share*float64(len(t.Latencies)-1))]
}

func newTally() *Tally {
	return &Tally{Statuses: map[int]int{}, Cache: map[string]int{}, Examples: map[int]string{}}
}

func (t *Tally) add(other *Tally) {
	for status, n := range other.Statuses {
		t.Statuses[status] += n
	}
	for state, n := range other.Cache {
		t.Cache[state] += n
	}
	maps.Copy(t.Examples, other.Examples)
	t.Latencies = append(t.Latencies, other.Latencies...)
}

// Drive asks everything at full speed over so many connections, at most 256, of all replicas in turn. It ends early, with
// an error, when a request is not answered at all.
func (s *Stage) Drive(ctx context.Context, requests iter.Seq[Request], concurrency int) (*Tally, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan *http.Request)
	tallies := make([]*Tally, min(concurrency, maxConnections))
	var workers sync.WaitGroup
	began := time.Now()
	for i := range tallies {
		tallies[i] = newTally()
		workers.Go(func() {
			for request := range queue {
				if err := tallies[i].exchange(s.client, request); err != nil {
					cancel(err)
				}
			}
		})
	}
	err := s.feed(ctx, queue, requests)
	close(queue)
	workers.Wait()
	total := newTally()
	total.Elapsed = time.Since(began)
	for _, t := range tallies {
		total.add(t)
	}
	slices.Sort(total.Latencies)
	return total, errors.Join(err, context.Cause(ctx))
}

func (s *Stage) feed(ctx context.Context, queue chan<- *http.Request, requests iter.Seq[Request]) error {
	turn := 0
	for r := range requests {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Replicas[turn%len(s.Replicas)].URL+r.Path, nil)
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+r.Key)
		turn++
		select {
		case queue <- request:
		case <-ctx.Done():
			return nil // whoever cancelled said why
		}
	}
	return nil
}

// exchange asks once and counts the answer.
func (t *Tally) exchange(client *http.Client, request *http.Request) error {
	began := time.Now()
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return fmt.Errorf("GET %s: %w", request.URL, err)
	}
	t.Latencies = append(t.Latencies, time.Since(began))
	t.Statuses[response.StatusCode]++
	t.Cache[response.Header.Get("X-Cache")]++
	if response.StatusCode != http.StatusOK {
		t.Examples[response.StatusCode] = fmt.Sprintf("GET %s: %.500s", request.URL, body)
	}
	return nil
}

// Metrics returns the replica's metrics by their names, those of several series added up.
func (s *Stage) Metrics(ctx context.Context, r Replica) (map[string]float64, error) {
	return gauge.ReadMetrics(ctx, s.client, r.AdminURL+"/metrics")
}

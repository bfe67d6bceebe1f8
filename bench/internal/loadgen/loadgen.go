// Package loadgen generates HTTP load and records the latency of every answer: GETs over HTTP/1.1 without TLS, on kept-alive
// connections, one request at a time on each.
//
// The client shares the machine with what it measures, so it does little. A connection writes the bytes of a request, which were formed
// once, and fasthttp reads the answer, usually with a single system call: it parses all header fields and copies the body. There is no
// pool, and no timeout for each request. An answer counts once it is complete by its length or its chunks; one without either is an error,
// and so are bytes after the end. If the server closed the connection before the first byte of the answer, the request is sent again once.
//
// A closed loop sends on every connection as soon as the previous answer is complete: it measures throughput. An open loop
// sends at a fixed rate, and measures the latency of a request from the time at which it was due. So the wait of a request for a
// free connection is in the figures too, as it is for a user behind a slow answer: this avoids coordinated omission.
// The number of connections limits how many requests are in flight.
//
// Latencies go into HDR histograms, in nanoseconds with two significant digits, up to a minute. A request without a complete
// HTTP answer, whatever its status, ends the run with an error: no failure disappears from the figures.
package loadgen

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/valyala/fasthttp"
)

// A Request is a GET, with the bytes to send. It is immutable.
type Request []byte

// Get returns a request for a path with its query, both sent as they are written. Headers are names and values in turn.
func Get(path string, headers ...string) Request {
	request := "GET " + path + " HTTP/1.1\r\nHost: sara.example\r\n"
	for i := 0; i+1 < len(headers); i += 2 {
		request += headers[i] + ": " + headers[i+1] + "\r\n"
	}
	return Request(request + "\r\n")
}

// A Source returns the n-th request of a run, counted from 0. Many goroutines call it concurrently.
type Source func(n int64) Request

// Rotate is a Source that repeats these requests in order.
func Rotate(requests ...Request) Source {
	return func(n int64) Request { return requests[n%int64(len(requests))] }
}

// A Load ends after Requests or after Duration, whichever comes first; at least one of them must be set. A request that was
// sent before the end, or due before the end of an open loop, is still answered and counted.
type Load struct {
	Addresses   []string // host:port; connections are distributed over them round-robin
	Source      Source
	Connections int
	Requests    int64
	Duration    time.Duration
	Rate        float64       // requests a second, for an open loop; 0 for a closed loop
	Patience    time.Duration // how long after Duration answers may be missing before the run fails; 0 for ten seconds
}

// A Result holds the figures of a run.
type Result struct {
	Statuses map[int]int64
	Cache    map[string]int64 // answers by their X-Cache header
	Examples map[int]string   // the first 500 bytes of one body for each status except 200 and 304
	Latency  *hdrhistogram.Histogram
	Elapsed  time.Duration // from the first request to the last answer
	Received int64         // bytes, response headers included
}

// Requests returns the number of answers.
func (r *Result) Requests() int64 { return r.Latency.TotalCount() }

// Throughput returns the answers per second.
func (r *Result) Throughput() float64 { return float64(r.Requests()) / r.Elapsed.Seconds() }

// Percentile returns a percentile of the latency, such as 99.9.
func (r *Result) Percentile(percent float64) time.Duration {
	return time.Duration(r.Latency.ValueAtQuantile(percent))
}

// Max returns the longest latency.
func (r *Result) Max() time.Duration { return time.Duration(r.Latency.Max()) }

// Unexpected returns an error, with examples, unless every status is one of those expected.
func (r *Result) Unexpected(expected ...int) error {
	odd := r.Requests()
	for _, status := range expected {
		odd -= r.Statuses[status]
	}
	if odd == 0 {
		return nil
	}
	text := fmt.Sprintf("%d of %d answers have another status than %v: %v", odd, r.Requests(), expected, r.Statuses)
	for status, example := range r.Examples {
		text += fmt.Sprintf("\n%d, for example: %s", status, example)
	}
	return errors.New(text)
}

// Run sends the load. When it returns, it has closed its connections.
func (l Load) Run(ctx context.Context) (_ *Result, err error) {
	clock, err := newTimer()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, clock.Close()) }()
	return l.run(ctx, clock)
}

// Once sends every request once, over a few connections, and fails unless all are answered with 200.
func Once(ctx context.Context, address string, requests ...Request) error {
	const connections = 4
	load := Load{Addresses: []string{address}, Source: Rotate(requests...), Connections: connections, Requests: int64(len(requests))}
	result, err := load.Run(ctx)
	if err != nil {
		return err
	}
	return result.Unexpected(fasthttp.StatusOK)
}

func (l Load) check() error {
	switch {
	case len(l.Addresses) == 0 || l.Source == nil || l.Connections < 1:
		return errors.New("a load needs addresses, a source and connections")
	case l.Requests <= 0 && l.Duration <= 0:
		return errors.New("a load needs a number of requests or a duration")
	case l.Rate < 0:
		return fmt.Errorf("the rate %g is negative", l.Rate)
	}
	return nil
}

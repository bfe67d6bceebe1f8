// Package wire drives HTTP servers at the speed of the wire: requests are bytes that are ready to send, answers are read
// just far enough to know where they end and what they are. It is for measuring, so it is quick before it is complete:
// HTTP/1.1 without TLS, GETs only, connections that stay open, one request at a time on each.
//
// A closed loop asks on every connection as fast as the answers come; it tells the throughput. An open loop asks at a fixed
// rate whatever the answers do, and counts the latency of a request from when it was due: one that waits behind others for
// a connection waits in the figures too, which is what a user behind a slow answer sees. Its connections bound how many
// requests are under way at once.
//
// Latencies are kept in HDR histograms, in nanoseconds with two digits, up to a minute. A Load is run by one goroutine for
// each connection and one that watches the clock. An exchange that does not end well, other than by an HTTP status, ends
// the run with an error: nothing is dropped silently.
package wire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Source appends the n-th request of a run, from 0, to dst and returns it. It is called from many goroutines at once.
type Source func(dst []byte, n int64) []byte

// Get returns a GET as it goes over the wire. Header lines are written as they are, such as "Accept: text/html".
func Get(path string, headers ...string) []byte {
	request := fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: sara.example\r\n", path)
	for _, line := range headers {
		request = append(append(request, line...), "\r\n"...)
	}
	return append(request, "\r\n"...)
}

// Rotate is the source that asks these over and over, in their order.
func Rotate(requests ...[]byte) Source {
	return func(dst []byte, n int64) []byte { return append(dst, requests[n%int64(len(requests))]...) }
}

// A Load is what to ask. It ends after Requests or after Duration, whatever comes first; one of the two has to be set. A
// request that was begun before the end, or was due in an open loop, is answered and counted.
type Load struct {
	Addresses   []string // host:port; the connections are dealt out to them in turn
	Source      Source
	Connections int
	Requests    int64
	Duration    time.Duration
	Rate        float64       // requests a second of an open loop; 0: a closed loop
	Patience    time.Duration // how much longer than Duration all may take before it is an error; 0: ten seconds
}

// A Result is what came back.
type Result struct {
	Statuses map[int]int64
	Cache    map[string]int64 // X-Cache of the answers that have one
	Examples map[int]string   // the beginning of one body of each status but 200 and 304
	Latency  *hdrhistogram.Histogram
	Elapsed  time.Duration // from the start to the last answer
	Sent     int64         // bytes
	Received int64         // bytes, with the heads of the answers
	Closed   int64         // connections that the server closed; they are opened anew
}

// Requests is how many were answered.
func (r *Result) Requests() int64 { return r.Latency.TotalCount() }

// Throughput is the answers a second.
func (r *Result) Throughput() float64 { return float64(r.Requests()) / r.Elapsed.Seconds() }

// Percentile returns the latency that so many percent of the answers did not exceed.
func (r *Result) Percentile(percent float64) time.Duration {
	return time.Duration(r.Latency.ValueAtQuantile(percent))
}

// Max is the longest latency.
func (r *Result) Max() time.Duration { return time.Duration(r.Latency.Max()) }

// Run asks and counts. It has closed its connections when it returns.
func (l Load) Run(ctx context.Context) (_ *Result, err error) {
	clock, err := newWallClock()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, clock.Close()) }()
	return l.run(ctx, clock)
}

func (l Load) check() error {
	switch {
	case len(l.Addresses) == 0 || l.Source == nil || l.Connections < 1:
		return errors.New("a load needs addresses, a source and connections")
	case l.Requests <= 0 && l.Duration <= 0:
		return errors.New("a load needs an end: a number of requests or a duration")
	case l.Rate < 0:
		return fmt.Errorf("a rate of %g requests a second", l.Rate)
	}
	return nil
}

const defaultPatience = 10 * time.Second

package main

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"

	"sara/bench/internal/loadgen"
)

// newClient returns a client of one sara, for many concurrent requests.
func newClient(address string) *fasthttp.HostClient {
	const most = 512
	return &fasthttp.HostClient{Addr: address, MaxConns: most, NoDefaultUserAgentHeader: true, DisablePathNormalizing: true,
		MaxConnWaitTimeout: quietPatience, MaxIdleConnDuration: time.Minute, MaxIdemponentCallAttempts: 2,
		RetryIfErr: func(_ *fasthttp.Request, _ int, err error) (resetTimeout, retry bool) {
			return false, loadgen.ClosedBetweenAnswers(err)
		}}
}

// describe shortens the error of a request, so that equal ones count together.
func describe(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case loadgen.ClosedBetweenAnswers(err), errors.Is(err, fasthttp.ErrConnectionClosed):
		return "connection closed"
	case errors.Is(err, fasthttp.ErrTimeout), errors.Is(err, fasthttp.ErrDialTimeout):
		return "timeout"
	}
	return err.Error()
}

// send sends a request of the abuser, and counts the result.
func (s *stage) send(ctx context.Context, client *fasthttp.HostClient, request *fasthttp.Request) {
	if ctx.Err() != nil {
		return
	}
	var response fasthttp.Response
	if err := client.DoTimeout(request, &response, quietPatience); err != nil {
		s.tally.add("no answer", 1)
		return
	}
	s.tally.answer(&response)
}

// sendAll sends requests over some connections, sequentially on each.
func (s *stage) sendAll(ctx context.Context, connections, requests int, request func(n int) *fasthttp.Request) {
	client := newClient(s.replica.Address)
	defer client.CloseIdleConnections()
	work := make(chan int)
	var group sync.WaitGroup
	for range connections {
		group.Go(func() {
			for n := range work {
				s.send(ctx, client, request(n))
			}
		})
	}
	for n := range requests {
		work <- n
	}
	close(work)
	group.Wait()
}

// every calls a function at each interval for some time.
func every(ctx context.Context, interval, duration time.Duration, call func(n int)) {
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for n := range int(duration / interval) {
		select {
		case <-ticks.C:
			call(n)
		case <-ctx.Done():
			return
		}
	}
}

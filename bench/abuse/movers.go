package main

import (
	"context"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// sitesOfSpender is how many big sites each spender has: the live calls a minute of one would not let all its movers through.
const sitesOfSpender = 4

// movers sends one key's minute of movers at once.
func movers(ctx context.Context, s *stage) error {
	s.spend(ctx, s.spenders[:1])
	if s.tally.count("200") == 0 {
		s.problem("none of the key's movers was answered")
	}
	return nil
}

// spenders sends those of many accounts at once.
func spenders(ctx context.Context, s *stage) error {
	s.spend(ctx, s.spenders[1:])
	return nil
}

// spend sends the movers of some spenders at once.
func (s *stage) spend(ctx context.Context, spenders []int) {
	client := newClient(s.replica.Address)
	defer client.CloseIdleConnections()
	var group sync.WaitGroup
	for _, account := range spenders {
		for i := range s.spenderMovers {
			path := s.property(account, i%sitesOfSpender) + "/movers/pages?" + s.days()
			group.Go(func() { s.send(ctx, client, get(path, s.Keys[account][0])) })
		}
	}
	group.Wait()
}

// send sends a request of the abuser, and counts what comes of it.
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

// sendAll sends requests over some connections, one after the other on each.
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

// every calls something each interval for some time.
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

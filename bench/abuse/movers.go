package main

import (
	"context"
	"sync"
)

// sitesOfSpender is how many big sites each spender has: the per-minute live calls of a single one would not admit all its movers.
const sitesOfSpender = 4

// movers sends one key's minute of movers at once.
func movers(ctx context.Context, s *stage) error {
	s.spend(ctx, s.spenders[:1])
	if s.tally.count("200") == 0 {
		s.problem("none of the key's movers was answered")
	}
	return nil
}

// spenders sends the movers of many accounts at once.
func spenders(ctx context.Context, s *stage) error {
	s.spend(ctx, s.spenders[1:])
	return nil
}

// spend sends the movers of some spenders at once.
func (s *stage) spend(ctx context.Context, spenders []int) {
	client := newClient(s.replica.Address)
	client.Dial = dialFromOne // one address may open only a part of the connections
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

package policy

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"
)

const (
	// strangerKeys is how many keys that are not known one address may try in a minute.
	strangerKeys = 30
	// strangerAddresses bounds the memory; who has more addresses than this has more than keys to guess with.
	strangerAddresses = 100_000
)

// strangers limits the guessing of keys, by the address it comes from. A key that memory does not know is a try until the
// directory has been asked: at no time can more tries turn out to be guesses than the limit has left. Tries beyond that
// wait for those before them, because after a restart, behind an address that many clients share, most of them are good.
type authLimiter struct {
	now func() time.Time

	mu        sync.Mutex // guards what follows, and the origins in it
	addresses memory[string, *origin]
}

// origin is what is known of one address.
type origin struct {
	guesses bucket
	trying  int           // tries that took from the bucket and are not decided yet
	decided chan struct{} // closed with the next decision
}

func newAuthLimiter(now func() time.Time) (*authLimiter, error) {
	addresses, err := otter.New(&otter.Options[string, *origin]{MaximumSize: strangerAddresses})
	if err != nil {
		return nil, fmt.Errorf("make a memory of addresses: %w", err)
	}
	return &authLimiter{now: now, addresses: addresses}, nil
}

// try begins a try from an address. decided has to be called with whether the key was a guess.
func (s *authLimiter) try(ctx context.Context, address string) (decided func(guess bool), refusal *Refusal) {
	for {
		o, wait, next := s.take(address)
		switch {
		case wait == 0:
			return func(guess bool) { s.decide(o, guess) }, nil
		case next == nil:
			return nil, &Refusal{AddressMinute, strangerKeys, wait}
		}
		select {
		case <-next:
		case <-ctx.Done():
			return nil, &Refusal{AddressMinute, strangerKeys, wait}
		}
	}
}

// take takes a try from the address' bucket. If it has none it tells how long until then, and what to wait for if others
// may give theirs back before.
func (s *authLimiter) take(address string) (o *origin, wait time.Duration, next <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.addresses.GetIfPresent(address)
	if !ok {
		o = &origin{decided: make(chan struct{})}
		s.addresses.Set(address, o)
	}
	if o.guesses, wait = o.guesses.take(s.now().UnixMicro(), 1, strangerKeys); wait == 0 {
		o.trying++
	} else if o.trying > 0 {
		next = o.decided
	}
	return o, wait, next
}

func (s *authLimiter) decide(o *origin, guess bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.trying--
	if !guess {
		o.guesses -= bucket(minute / strangerKeys)
	}
	close(o.decided)
	o.decided = make(chan struct{})
}

package policy

import (
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

// strangers limits the guessing of keys, by the address it comes from.
type strangers struct {
	now func() time.Time

	mu      sync.Mutex // makes taking from a bucket one step
	buckets *otter.Cache[string, bucket]
}

func newStrangers(now func() time.Time) (*strangers, error) {
	buckets, err := otter.New(&otter.Options[string, bucket]{MaximumSize: strangerAddresses})
	if err != nil {
		return nil, fmt.Errorf("make a memory of addresses: %w", err)
	}
	return &strangers{now: now, buckets: buckets}, nil
}

// suspect takes one try from an address, before it is known whether the key is good: of many tries at once, no more than
// the limit get to ask the directory.
func (s *strangers) suspect(address string) *Refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, _ := s.buckets.GetIfPresent(address)
	after, wait := before.take(s.now().UnixMicro(), 1, strangerKeys)
	if wait > 0 {
		return &Refusal{AddressMinute, strangerKeys, wait}
	}
	s.buckets.Set(address, after)
	return nil
}

// absolve gives the try back: the key was good.
func (s *strangers) absolve(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, ok := s.buckets.GetIfPresent(address); ok {
		s.buckets.Set(address, before-bucket(minute/strangerKeys))
	}
}

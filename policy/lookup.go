package policy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/singleflight"
)

const (
	freshFor      = time.Second     // how long an answer of the Directory is used without asking again
	staleFor      = 5 * time.Minute // how long it is used while the Directory fails
	lookupTimeout = 2 * time.Second // the longest that one question to the Directory may take
)

// A lookup remembers the Directory's answers to one kind of question. Simultaneous questions for the same thing are asked
// once, on a context of their own, so that a caller who leaves does not fail the others.
type lookup[K comparable, V any] struct {
	now        func() time.Time
	generation func() uint64
	answers    *otter.Cache[K, answer[V]]
	flights    singleflight.Group
}

// answer is what the Directory said, an ErrUnknown included.
type answer[V any] struct {
	value      V
	err        error
	said       time.Time // when it was asked for
	tried      time.Time // when it was last asked for again, in vain or not
	generation uint64
}

func newLookup[K comparable, V any](now func() time.Time, generation func() uint64, size int) (*lookup[K, V], error) {
	answers, err := otter.New(&otter.Options[K, answer[V]]{MaximumSize: size})
	if err != nil {
		return nil, fmt.Errorf("make a cache of %d answers: %w", size, err)
	}
	return &lookup[K, V]{now: now, generation: generation, answers: answers}, nil
}

// get returns the answer for key, from memory while it is fresh, from load otherwise.
func (l *lookup[K, V]) get(ctx context.Context, key K, load func(context.Context) (V, error)) (V, error) {
	// The generation is read before the Directory is asked: an answer that a change has overtaken is never fresh.
	generation := l.generation()
	known, ok := l.answers.GetIfPresent(key)
	ok = ok && known.generation == generation && l.within(known.said, staleFor)
	if ok && l.within(known.tried, freshFor) {
		return known.value, known.err
	}
	loaded, err := l.load(ctx, key, generation, load)
	switch {
	case err == nil:
		return loaded.value, loaded.err
	case ok:
		// One vain try a second is enough: requests do not queue up behind a directory that hangs.
		known.tried = l.now()
		l.answers.Set(key, known)
		return known.value, known.err
	}
	var zero V
	return zero, err
}

// holds reports whether key was there when it was last asked for, in the time that answers are kept at all.
func (l *lookup[K, V]) holds(key K) bool {
	known, ok := l.answers.GetIfPresent(key)
	return ok && known.err == nil && l.within(known.said, staleFor)
}

// within reports whether at is no longer ago than d. A clock that went backwards counts as long ago.
func (l *lookup[K, V]) within(at time.Time, d time.Duration) bool {
	age := l.now().Sub(at)
	return age >= 0 && age <= d
}

func (l *lookup[K, V]) load(ctx context.Context, key K, generation uint64, load func(context.Context) (V, error)) (answer[V], error) {
	flight := fmt.Sprint(generation, key)
	done := l.flights.DoChan(flight, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
		defer cancel()
		asked := l.now()
		value, err := load(ctx)
		if err != nil && !errors.Is(err, ErrUnknown) {
			return nil, err
		}
		a := answer[V]{value: value, err: err, said: asked, tried: asked, generation: generation}
		l.answers.Set(key, a)
		return a, nil
	})
	select {
	case result := <-done:
		if result.Err != nil {
			return answer[V]{}, result.Err
		}
		return result.Val.(answer[V]), nil
	case <-ctx.Done():
		return answer[V]{}, ctx.Err()
	}
}

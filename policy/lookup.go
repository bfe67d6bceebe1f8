package policy

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/singleflight"
)

const (
	editionTTL    = time.Second      // how long the Directory's edition is taken for the present one without asking again
	answerTTL     = 30 * time.Second // how long what it said of that edition is, in case its keeper was changed by hand
	staleTTL      = 5 * time.Minute  // how long either is used while the Directory fails
	lookupTimeout = time.Second      // the longest that one question to the Directory may take; no longer than freshFor
)

// memory is what is used of an otter.Cache. Fields are of this type because a field of a generic type has every package that
// imports the field's struct compile all methods of the generic type again, which for otter's is more than the package itself.
type boundedCache[K comparable, V any] interface {
	GetIfPresent(K) (V, bool)
	Set(K, V) (V, bool)
}

// A lookup remembers the Directory's answers to one kind of question. Simultaneous questions for the same thing are asked
// once, on a context of their own, so that a caller who leaves does not fail the others.
type cache[K comparable, V any] struct {
	now     func() time.Time
	ttl     time.Duration // how long an answer is used without asking again
	load    func(context.Context, K) (V, error)
	answers boundedCache[K, answer[V]]
	flights singleflight.Group
}

// answer is what the Directory said, an ErrUnknown included.
type answer[V any] struct {
	value    V
	err      error
	loadedAt time.Time // when it was asked for
	triedAt  time.Time // when it was last asked for again; after said only while the Directory fails
	version  version
}

func newCache[K comparable, V any](now func() time.Time, fresh time.Duration, size int,
	load func(context.Context, K) (V, error)) (*cache[K, V], error) {
	answers, err := otter.New(&otter.Options[K, answer[V]]{MaximumSize: size})
	if err != nil {
		return nil, fmt.Errorf("make a cache of %d answers: %w", size, err)
	}
	return &cache[K, V]{now: now, ttl: fresh, load: load, answers: answers}, nil
}

// get returns the answer for key, from memory while it is fresh and of the generation, from the Directory otherwise. The
// generation has to be read before this: an answer that a change has overtaken is never fresh.
func (l *cache[K, V]) get(ctx context.Context, key K, generation version) (V, error) {
	now := l.now()
	known, ok := l.cached(now, key, generation)
	if ok && within(now, known.triedAt, l.ttl) {
		return known.value, known.err
	}
	asked, err := l.fill(ctx, key, generation)
	switch {
	case err == nil:
		return asked.value, asked.err
	case ok && ctx.Err() != nil:
		// The Directory did not answer in the caller's time. It may yet, so this says nothing to others.
		return known.value, known.err
	}
	var zero V
	return zero, err
}

// remembered returns the answer for key if it may still be used, though perhaps only because the Directory fails. That
// something is unknown is nothing to keep alive then.
func (l *cache[K, V]) cached(now time.Time, key K, generation version) (answer[V], bool) {
	known, ok := l.answers.GetIfPresent(key)
	usable := staleTTL
	if known.err != nil {
		usable = l.ttl
	}
	return known, ok && known.version == generation && within(now, known.loadedAt, usable)
}

// holds reports whether key was there when it was last asked for, in the time that answers are kept at all.
func (l *cache[K, V]) knows(key K) bool {
	known, ok := l.answers.GetIfPresent(key)
	return ok && known.err == nil && within(l.now(), known.loadedAt, staleTTL)
}

// within reports whether at is no longer before now than d. A clock that went backwards counts as long ago.
func within(now, at time.Time, d time.Duration) bool {
	age := now.Sub(at)
	return age >= 0 && age <= d
}

// join waits for the answer to the one question for key that is under way, and starts it if there is none.
func (l *cache[K, V]) fill(ctx context.Context, key K, generation version) (answer[V], error) {
	// Quoted, so that no two keys make the same flight.
	done := l.flights.DoChan(fmt.Sprintf("%v %#v", generation, key), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
		defer cancel()
		return l.refresh(ctx, key, generation)
	})
	select {
	case result := <-done:
		if bug, ok := errors.AsType[*loadPanic](result.Err); ok {
			panic(bug)
		}
		if result.Err != nil {
			return answer[V]{}, result.Err
		}
		return result.Val.(answer[V]), nil
	case <-ctx.Done():
		return answer[V]{}, ctx.Err()
	}
}

// ask asks the Directory and remembers the answer; while the Directory fails, it returns the answer before.
func (l *cache[K, V]) refresh(ctx context.Context, key K, generation version) (a answer[V], err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &loadPanic{value: p, stack: debug.Stack()}
		}
	}()
	asked := l.now()
	known, ok := l.cached(asked, key, generation)
	switch {
	case ok && within(asked, known.triedAt, l.ttl):
		return known, nil // another flight landed just before this one started
	case ok && known.triedAt.After(known.loadedAt):
		// The last try was in vain: those who come during this one do not wait for a directory that may hang.
		known.triedAt = asked
		l.answers.Set(key, known)
	}
	value, err := l.load(ctx, key)
	if err == nil || errors.Is(err, ErrUnknown) {
		known = answer[V]{value: value, err: err, loadedAt: asked, triedAt: asked, version: generation}
	} else {
		now := l.now()
		if known, ok = l.cached(now, key, generation); !ok {
			return answer[V]{}, err
		}
		known.triedAt = now
	}
	l.answers.Set(key, known)
	return known, nil
}

// A loadPanic is a panic of load, on its way from the goroutine of its own to those who wait for it. There they can
// recover from it; in a goroutine of ours it would end the process.
type loadPanic struct {
	value any
	stack []byte
}

func (p *loadPanic) Error() string { return fmt.Sprintf("%v\n%s", p.value, p.stack) }

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
	freshFor      = time.Second      // how long the Directory's edition is taken for the present one without asking again
	sameFor       = 30 * time.Second // how long what it said of that edition is, in case its keeper was changed by hand
	staleFor      = 5 * time.Minute  // how long either is used while the Directory fails
	lookupTimeout = time.Second      // the longest that one question to the Directory may take; no longer than freshFor
)

// memory is what is used of an otter.Cache. Fields are of this type because a field of a generic type has every package that
// imports the field's struct compile all methods of the generic type again, which for otter's is more than the package itself.
type memory[K comparable, V any] interface {
	GetIfPresent(K) (V, bool)
	Set(K, V) (V, bool)
}

// A lookup remembers the Directory's answers to one kind of question. Simultaneous questions for the same thing are asked
// once, on a context of their own, so that a caller who leaves does not fail the others.
type lookup[K comparable, V any] struct {
	now     func() time.Time
	fresh   time.Duration // how long an answer is used without asking again
	load    func(context.Context, K) (V, error)
	answers memory[K, answer[V]]
	flights singleflight.Group
}

// answer is what the Directory said, an ErrUnknown included.
type answer[V any] struct {
	value      V
	err        error
	said       time.Time // when it was asked for
	tried      time.Time // when it was last asked for again; after said only while the Directory fails
	generation generation
}

func newLookup[K comparable, V any](now func() time.Time, fresh time.Duration, size int,
	load func(context.Context, K) (V, error)) (*lookup[K, V], error) {
	answers, err := otter.New(&otter.Options[K, answer[V]]{MaximumSize: size})
	if err != nil {
		return nil, fmt.Errorf("make a cache of %d answers: %w", size, err)
	}
	return &lookup[K, V]{now: now, fresh: fresh, load: load, answers: answers}, nil
}

// get returns the answer for key, from memory while it is fresh and of the generation, from the Directory otherwise. The
// generation has to be read before this: an answer that a change has overtaken is never fresh.
func (l *lookup[K, V]) get(ctx context.Context, key K, generation generation) (V, error) {
	now := l.now()
	known, ok := l.remembered(now, key, generation)
	if ok && within(now, known.tried, l.fresh) {
		return known.value, known.err
	}
	asked, err := l.join(ctx, key, generation)
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
func (l *lookup[K, V]) remembered(now time.Time, key K, generation generation) (answer[V], bool) {
	known, ok := l.answers.GetIfPresent(key)
	usable := staleFor
	if known.err != nil {
		usable = l.fresh
	}
	return known, ok && known.generation == generation && within(now, known.said, usable)
}

// holds reports whether key was there when it was last asked for, in the time that answers are kept at all.
func (l *lookup[K, V]) holds(key K) bool {
	known, ok := l.answers.GetIfPresent(key)
	return ok && known.err == nil && within(l.now(), known.said, staleFor)
}

// within reports whether at is no longer before now than d. A clock that went backwards counts as long ago.
func within(now, at time.Time, d time.Duration) bool {
	age := now.Sub(at)
	return age >= 0 && age <= d
}

// join waits for the answer to the one question for key that is under way, and starts it if there is none.
func (l *lookup[K, V]) join(ctx context.Context, key K, generation generation) (answer[V], error) {
	// Quoted, so that no two keys make the same flight.
	done := l.flights.DoChan(fmt.Sprintf("%v %#v", generation, key), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
		defer cancel()
		return l.ask(ctx, key, generation)
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
func (l *lookup[K, V]) ask(ctx context.Context, key K, generation generation) (a answer[V], err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &loadPanic{value: p, stack: debug.Stack()}
		}
	}()
	asked := l.now()
	known, ok := l.remembered(asked, key, generation)
	switch {
	case ok && within(asked, known.tried, l.fresh):
		return known, nil // another flight landed just before this one started
	case ok && known.tried.After(known.said):
		// The last try was in vain: those who come during this one do not wait for a directory that may hang.
		known.tried = asked
		l.answers.Set(key, known)
	}
	value, err := l.load(ctx, key)
	if err == nil || errors.Is(err, ErrUnknown) {
		known = answer[V]{value: value, err: err, said: asked, tried: asked, generation: generation}
	} else {
		now := l.now()
		if known, ok = l.remembered(now, key, generation); !ok {
			return answer[V]{}, err
		}
		known.tried = now
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

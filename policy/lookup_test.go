package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// forKeysAndProperties runs a test on both caches of a gate, with a lookup that succeeds and one that finds nothing.
func forKeysAndProperties(t *testing.T, do func(t *testing.T, w *fixture, known, unknown func(context.Context) (string, error), unknownCode string)) {
	t.Run("key", func(t *testing.T) {
		w := newFixture(t)
		do(t, w, w.admit, func(ctx context.Context) (string, error) {
			_, err := w.request(ctx, "Bearer "+unknownKeyText, 0)
			return codeOf(err)
		}, CodeInvalidKey)
	})
	t.Run("property", func(t *testing.T) {
		w := newFixture(t)
		find := func(reference string) func(context.Context) (string, error) {
			return func(ctx context.Context) (string, error) { return w.find(ctx, reference) }
		}
		do(t, w, find("shop"), find("nowhere"), CodeNotFound)
	})
}

func TestAnswersAreCachedUntilTheDirectoryChanges(t *testing.T) {
	forKeysAndProperties(t, func(t *testing.T, w *fixture, known, unknown func(context.Context) (string, error), unknownCode string) {
		f := func(ask func(context.Context) (string, error), code string) {
			t.Helper()
			asked := w.directory.calls()
			for range 3 {
				wantCode(t, code, nil)(ask(t.Context()))
				w.clock.advance(2 * editionTTL)
			}
			wantCalls(t, w.directory, asked+1)
			w.directory.changeElsewhere(func() {})
			wantCode(t, code, nil)(ask(t.Context()))
			wantCalls(t, w.directory, asked+2)
			w.clock.advance(answerTTL)
			wantCode(t, code, nil)(ask(t.Context()))
			wantCalls(t, w.directory, asked+2)
			w.clock.advance(1)
			wantCode(t, code, nil)(ask(t.Context()))
			wantCalls(t, w.directory, asked+3)
		}
		f(known, "")
		f(unknown, unknownCode)
	})
}

func TestEditionIsReadOncePerSecond(t *testing.T) {
	w := newFixture(t)
	for reads := 1; reads <= 3; reads++ {
		wantCode(t, "", nil)(w.admit(t.Context()))
		w.clock.advance(editionTTL)
		wantCode(t, "", nil)(w.find(t.Context(), "shop"))
		if w.directory.editionReads != reads {
			t.Errorf("the edition was read %d times, want %d", w.directory.editionReads, reads)
		}
		w.clock.advance(1)
	}
	wantCalls(t, w.directory, 2)
}

func TestClockSetBackExpiresCachedAnswers(t *testing.T) {
	forKeysAndProperties(t, func(t *testing.T, w *fixture, known, _ func(context.Context) (string, error), _ string) {
		wantCode(t, "", nil)(known(t.Context()))
		w.clock.advance(-time.Minute)
		wantCode(t, "", nil)(known(t.Context()))
		wantCalls(t, w.directory, 2)
	})
}

func TestChangeByAnotherProcessIsSeenWithinOneSecond(t *testing.T) {
	w := newFixture(t)
	wantCode(t, "", nil)(w.admit(t.Context()))
	wantCode(t, CodeNotFound, nil)(w.find(t.Context(), "new"))
	w.edit(revoke)
	w.directory.changeElsewhere(func() { w.directory.properties[propertyQuery{"p1", "", "new"}] = []Property{{Slug: "new"}} })
	w.clock.advance(time.Second + 1)
	wantCode(t, CodeRevokedKey, nil)(w.admit(t.Context()))
	wantCode(t, "", nil)(w.find(t.Context(), "new"))
}

func TestChangeByThisProcessIsSeenAtOnce(t *testing.T) {
	w := newFixture(t)
	wantCode(t, "", nil)(w.admit(t.Context()))
	wantCode(t, "", nil)(w.find(t.Context(), "shop"))
	w.directory.changeHere(func() {
		w.directory.edit(revoke)
		delete(w.directory.properties, propertyQuery{"p1", "", "shop"})
	})
	wantCode(t, CodeRevokedKey, nil)(w.admit(t.Context()))
	wantCode(t, CodeNotFound, nil)(w.find(t.Context(), "shop"))

	w.directory.changeHere(func() {})
	w.directory.fail(errDirectoryDown)
	wantCode(t, "", errDirectoryDown)(w.admit(t.Context()))
}

// An answer that was read before a write is only for callers that asked before it.
func TestAnswerInFlightDuringAChangeIsNotUsedAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSynctestFixture(t)
		wantCode(t, CodeNotFound, nil)(w.find(t.Context(), "nowhere")) // reads the edition, so that only the key is blocked
		release := w.directory.block()
		var callers sync.WaitGroup
		callers.Go(func() { wantCode(t, "", nil)(w.admit(t.Context())) })
		synctest.Wait()
		w.directory.unblock()
		w.directory.changeHere(func() { w.directory.edit(revoke) })
		callers.Go(func() { wantCode(t, CodeRevokedKey, nil)(w.admit(t.Context())) })
		synctest.Wait()
		release()
		callers.Wait()
		wantCode(t, CodeRevokedKey, nil)(w.admit(t.Context()))
	})
}

// While the directory hangs, known keys and properties are answered at once, except for the requests that find it out.
func TestHungDirectoryDelaysKnownAnswersOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSynctestFixture(t)
		ask := func() {
			wantCode(t, "", nil)(w.admit(t.Context()))
			wantCode(t, "", nil)(w.find(t.Context(), "shop"))
		}
		ask()
		defer w.directory.block()()
		const rounds, pause = 500, 10 * time.Millisecond
		for _, expired := range []time.Duration{editionTTL, answerTTL, staleTTL / 2} { // the edition's expires first, then all
			time.Sleep(expired + 1) // synctest
			var waited time.Duration
			for range rounds {
				sent := time.Now()
				ask()
				waited += time.Since(sent)
				time.Sleep(pause) // synctest
			}
			if waited > 3*refreshPatience {
				t.Errorf("after %v more, requests waited %v in all, want at most %v", expired, waited, 3*refreshPatience)
			}
		}
	})
}

func TestConcurrentMissesShareOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSynctestFixture(t)
		release := w.directory.block()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { wantCode(t, "", nil)(w.admit(t.Context())) })
			all.Go(func() { wantCode(t, "", nil)(w.find(t.Context(), "shop")) })
		}
		synctest.Wait()
		release()
		all.Wait()
		wantCalls(t, w.directory, 2)
	})
}

// The directory may have read its answer at the start of the call.
func TestAnswerAgesFromTheStartOfTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSynctestFixture(t)
		time.AfterFunc(editionTTL/2, w.directory.block())
		wantCode(t, "", nil)(w.admit(t.Context()))
		w.directory.unblock()
		w.edit(revoke)
		time.Sleep(editionTTL / 2)
		wantCode(t, "", nil)(w.admit(t.Context()))
		time.Sleep(time.Nanosecond)
		wantCode(t, CodeRevokedKey, nil)(w.admit(t.Context()))
	})
}

func TestCancelledCallerDoesNotFailOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSynctestFixture(t)
		release := w.directory.block()
		ctx, cancel := context.WithCancel(t.Context())
		var first, second sync.WaitGroup
		first.Go(func() { wantCode(t, "", context.Canceled)(w.admit(ctx)) })
		synctest.Wait()
		second.Go(func() { wantCode(t, "", nil)(w.admit(t.Context())) })
		synctest.Wait()
		cancel()
		first.Wait()
		release()
		second.Wait()
		wantCalls(t, w.directory, 1)
	})
}

func TestCacheIsBounded(t *testing.T) {
	const size = 100
	w := newFixture(t)
	l := newCache(w.clock.now, editionTTL, size, defaultLookupTimeout, func(_ context.Context, n int) (int, error) {
		if n%2 == 0 {
			return 0, ErrUnknown
		}
		return n, nil
	})
	for n := range 50 * size {
		if got, err := l.get(t.Context(), n, version{}); n%2 == 0 && !errors.Is(err, ErrUnknown) || n%2 == 1 && got != n {
			t.Fatalf("%d: %d, %v", n, got, err)
		}
	}
	if got := l.positive.Len() + l.negative.Len(); got == 0 || got > size+size/2 {
		t.Errorf("%d answers are cached, want 1 to %d", got, size)
	}
}

// Person, workspace and reference all distinguish lookups, whatever characters they contain, both cached and in flight.
func TestDifferentLookupsNeverShareAnAnswer(t *testing.T) {
	queries := []propertyQuery{
		{"p1", "", "x"}, {"p2", "", "x"}, {"p1", "w", "x"}, {"p2", "w", "x"}, {"p1", "w2", "x"}, {"p1", "", "X"},
		{"p", "1", "x"}, {"p1", " ", "x"}, {"p1", "", " x"}, {"p1 w", "", "x"}, {"p1", "w ", "x"}, {"p1", "", "w x"}, {"p1", "w x", ""}, {"p1 w x", "", ""},
		{`p1" "w`, "", "x"}, {"p1", `" "w`, "x"},
	}
	synctest.Test(t, func(t *testing.T) {
		w := newSynctestFixture(t)
		for i, q := range queries {
			w.directory.properties[q] = []Property{{ID: fmt.Sprint(i), Site: q.reference}}
		}
		release := w.directory.block()
		findAll := func() *sync.WaitGroup {
			var all sync.WaitGroup
			for i, q := range queries {
				grant := &Grant{Key: &Key{PersonID: q.personID, Workspace: &Workspace{ID: q.workspaceID}}}
				all.Go(func() {
					if p, err := w.Property(t.Context(), grant, q.reference); err != nil || p.ID != fmt.Sprint(i) {
						t.Errorf("%q got the answer %+v, %v", q, p, err)
					}
				})
			}
			return &all
		}
		inFlight := findAll()
		synctest.Wait()
		release()
		inFlight.Wait()
		findAll().Wait()
		wantCalls(t, w.directory, len(queries))
	})
}

func TestTooLongReferenceIsNeitherLookedUpNorCached(t *testing.T) {
	w := newFixture(t)
	reference := strings.Repeat("x", maxReferenceLength+1)
	w.directory.properties[propertyQuery{"p1", "", reference}] = []Property{{Site: reference}}
	w.directory.properties[propertyQuery{"p1", "", reference[1:]}] = []Property{{Site: reference[1:]}}
	wantCode(t, CodeNotFound, nil)(w.find(t.Context(), reference))
	wantCalls(t, w.directory, 0)
	wantCode(t, "", nil)(w.find(t.Context(), reference[1:]))
}

// A read after a write sees that write or a later one, whatever fails, is cancelled or refreshes meanwhile.
func TestReadsSeeEarlierWrites(t *testing.T) {
	const writes = 2_000
	w := newFixture(t)
	start := w.clock.now().Add(time.Hour).UnixNano()
	set := func(n int64) func(k *Key) { return func(k *Key) { k.ExpiresAt = time.Unix(0, start+n) } }
	w.edit(set(0))
	var written atomic.Int64
	var readers sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		readers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				ctx, cancel := context.WithCancel(t.Context())
				if n%5 == 0 {
					cancel()
				}
				least := written.Load()
				grant, err := w.request(ctx, "Bearer "+validKeyText, 0)
				if err == nil && grant.Key.ExpiresAt.UnixNano()-start < least {
					t.Errorf("read write %d after write %d was done", grant.Key.ExpiresAt.UnixNano()-start, least)
				}
				cancel()
			}
		})
	}
	for n := int64(1); n <= writes; n++ {
		w.directory.changeHere(func() {
			w.directory.edit(set(n))
			w.directory.failure = nil
			if n%3 == 0 {
				w.directory.failure = errDirectoryDown
			}
		})
		written.Store(n)
		w.clock.advance(100 * time.Millisecond)
	}
	close(done)
	readers.Wait()
	w.directory.fail(nil)
	if grant, err := w.request(t.Context(), "Bearer "+validKeyText, 0); err != nil || grant.Key.ExpiresAt.UnixNano() != start+writes {
		t.Errorf("after all writes: %+v, %v", grant, err)
	}
}

// begin and Revalidate put an answer back that they have read before: it must not replace one that came in between.
func TestAnswerThatIsPutBackDoesNotReplaceALaterOne(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, later := range map[string]error{"a change": nil, "a removal": ErrUnknown} {
		c := newAnswers[string, int](func() time.Time { return now }, answerTTL, 1)
		older, _ := c.finish(now.Add(-time.Second), "key", version{}, 7, nil)
		newer, _ := c.finish(now, "key", version{}, 8, later)
		c.put("key", older)
		if known, ok := c.cached(now, "key", version{}); !ok || known != newer {
			t.Errorf("%s: known is %+v, %t; want %+v", name, known, ok, newer)
		}
	}
}

// A change is published while the database takes long to tell its edition. What is known since the change must stay usable: the database
// may be about to go away.
func TestSlowAnswerDoesNotReplaceALaterOne(t *testing.T) {
	t.Parallel()
	before, after := version{knownChanges: 1}, version{knownChanges: 2}
	slow, asked := make(chan struct{}), make(chan struct{})
	var calls atomic.Int32
	c := newCache(time.Now, editionTTL, 1, defaultLookupTimeout, func(context.Context, string) (uint64, error) {
		if calls.Add(1) > 1 {
			return 8, nil
		}
		close(asked)
		<-slow
		return 7, nil
	})
	var first sync.WaitGroup
	first.Go(func() { _, _ = c.get(t.Context(), "edition", before) })
	<-asked
	if edition, err := c.get(t.Context(), "edition", after); edition != 8 || err != nil {
		t.Fatalf("edition %d, %v", edition, err)
	}
	close(slow)
	first.Wait()
	if known, ok := c.cached(time.Now(), "edition", after); !ok || known.value != 8 {
		t.Errorf("known is %+v", known)
	}
}

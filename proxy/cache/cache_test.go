package cache

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sara/translate"
)

func TestRowsAreFreshForTheTTL(t *testing.T) {
	clock, upstream := newClock(), answering(rowsOf(t, 3))
	c := newReplica(t, nil, clock)
	q := upstream.request("p", narrow("a"))
	q.RequestHash = 42
	filled := c.do(t, q, Filled)
	if filled.Entry.RequestHash() != 42 || !filled.Entry.Filled().Equal(clock.Now()) || filled.Entry.Rows().Len() != 3 {
		t.Errorf("filled %+v", filled.Entry)
	}
	clock.advance(ttl - 1)
	if found := c.do(t, q, HitMemory); found.Entry != filled.Entry {
		t.Error("found another entry than the filled one")
	}
	upstream.want(t, 1)
}

// Rows are as old as the call that asked for them: the upstream may have answered long before a slow fill, or one of a machine that slept
// meanwhile, ends. So of two fills, the one that began last has the newer rows, in whichever order they end.
func TestRowsAgeFromTheBeginningOfTheirFill(t *testing.T) {
	clock, release := newClock(), make(chan struct{})
	c := newReplica(t, nil, clock)
	began := clock.Now()
	asked := make(chan struct{})
	slow := (&backend{fill: func(context.Context, int64) (*translate.Rows, error) {
		close(asked)
		<-release
		return rowsOf(t, 3), nil
	}}).request("p", narrow("a"))
	ended := make(chan Found)
	go func() {
		found, _ := c.Do(context.Background(), slow)
		ended <- found
	}()
	<-asked
	clock.advance(ttl)
	newer := answering(rowsOf(t, 4)).request("p", narrow("a"))
	newer.Bypass = true
	second := c.do(t, newer, Filled)
	close(release)
	if first := <-ended; first.Entry == nil || !first.Entry.Filled().Equal(began) {
		t.Errorf("found %+v, filled at %s", first, began)
	}
	c.settle()
	if found := c.do(t, slow, HitMemory); found.Entry != second.Entry {
		t.Error("the fill that ended last has replaced newer rows")
	}
}

func TestStaleWhileRevalidate(t *testing.T) {
	clock, upstream := newClock(), answering(rowsOf(t, 3))
	c := newReplica(t, nil, clock)
	q := upstream.request("p", narrow("a"))
	old := c.do(t, q, Filled)
	clock.advance(ttl)
	release := make(chan struct{})
	upstream.fill = func(context.Context, int64) (*translate.Rows, error) {
		<-release
		return rowsOf(t, 4), nil
	}
	for range 5 {
		found, err := c.Do(t.Context(), q)
		if err != nil || found.Entry != old.Entry || !found.Stale || found.Status != HitMemory {
			t.Errorf("found %+v, %v, want the stale entry", found, err)
		}
		if !c.Has(t.Context(), q) {
			t.Error("Has is false for a stale entry")
		}
	}
	close(release)
	c.settle()
	if found := c.do(t, q, HitMemory); found.Entry.Rows().Len() != 4 {
		t.Error("the refill is not in memory")
	}
	upstream.want(t, 2)
	if n := c.metric(t, "stale_total", "revalidating"); n != 5 {
		t.Errorf("counted %v stale entries", n)
	}
}

func TestStaleIfErrorAfterAFailedRefill(t *testing.T) {
	clock, upstream := newClock(), answering(rowsOf(t, 3))
	c := newReplica(t, nil, clock)
	q := upstream.request("p", narrow("a"))
	old := c.do(t, q, Filled)
	clock.advance(ttl)
	upstream.fill = failing(errUpstream).fill
	if found, err := c.Do(t.Context(), q); err != nil || !found.Stale {
		t.Fatalf("found %+v, %v, want a stale entry", found, err)
	}
	c.settle()
	if c.Has(t.Context(), q) {
		t.Error("Has is true, but Do would wait for a fill")
	}
	found, err := c.Do(t.Context(), q)
	if !errors.Is(err, errUpstream) || found.Entry != old.Entry || !found.Stale {
		t.Errorf("found %+v, %v, want the error and the stale entry", found, err)
	}
	upstream.fill = answering(rowsOf(t, 4)).fill
	c.do(t, q, Filled)
	upstream.want(t, 4)
}

func TestRefusedRefillLeavesStaleRowsServed(t *testing.T) {
	clock, upstream := newClock(), answering(rowsOf(t, 3))
	c := newReplica(t, nil, clock)
	q := upstream.request("p", narrow("a"))
	c.do(t, q, Filled)
	clock.advance(ttl)
	upstream.fill = failing(errBudget).fill
	for range 3 {
		if found, err := c.Do(t.Context(), q); err != nil || !found.Stale {
			t.Errorf("found %+v, %v, want a stale entry", found, err)
		}
		c.settle()
	}
	upstream.want(t, 4)
	if n := c.metric(t, "fills_total", "refused"); n != 3 {
		t.Errorf("counted %v refusals", n)
	}
}

func TestRowsAreDroppedAfterADay(t *testing.T) {
	clock, upstream := newClock(), answering(rowsOf(t, 3))
	c := newReplica(t, nil, clock)
	q := upstream.request("p", narrow("a"))
	c.do(t, q, Filled)
	clock.advance(MaxStale)
	upstream.fill = failing(errUpstream).fill
	if found, err := c.Do(t.Context(), q); !errors.Is(err, errUpstream) || found.Entry != nil {
		t.Errorf("found %+v, %v, want the error only", found, err)
	}
}

func TestSiblingSamplesAnswerForEachOther(t *testing.T) {
	few, full := rowsOf(t, 3), rowsOf(t, translate.NarrowSample)
	for _, test := range []struct {
		name       string
		has, wants translate.Query
		rows       *translate.Rows
		status     Status
	}{
		{"wide answers narrow", wide("a"), narrow("a"), full, HitMemory},
		{"narrow with all rows answers wide", narrow("a"), wide("a"), few, HitMemory},
		{"full narrow does not answer wide", narrow("a"), wide("a"), full, Filled},
		{"another site does not answer", wide("b"), narrow("a"), few, Filled},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newReplica(t, nil, newClock())
			upstream := answering(test.rows)
			c.do(t, upstream.request("p", test.has), Filled)
			c.do(t, upstream.request("p", test.wants), test.status)
		})
	}
}

// A running fill of the other sample may answer too.
func TestSiblingFillsAreAwaited(t *testing.T) {
	for _, test := range []struct {
		name          string
		filled, wants translate.Query
		rows          int
		calls         int64
	}{
		{"narrow waits for wide", wide("a"), narrow("a"), translate.NarrowSample, 1},
		{"wide waits for narrow, which has all rows", narrow("a"), wide("a"), 3, 1},
		{"wide waits for narrow, which was enlarged", narrow("a"), wide("a"), translate.NarrowSample + 1, 1},
		{"wide waits for narrow, and fills", narrow("a"), wide("a"), translate.NarrowSample, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newReplica(t, nil, newClock())
				answers := make(chan struct{})
				upstream := &backend{fill: func(context.Context, int64) (*translate.Rows, error) {
					<-answers
					return rowsOf(t, test.rows), nil
				}}
				var ended sync.WaitGroup
				for _, q := range []translate.Query{test.filled, test.wants} {
					ended.Go(func() {
						if found, err := c.Do(t.Context(), upstream.request("p", q)); err != nil || found.Entry.Rows().Len() != test.rows {
							t.Errorf("found %+v, %v", found, err)
						}
					})
					synctest.Wait()
				}
				upstream.want(t, 1)
				close(answers)
				ended.Wait()
				upstream.want(t, test.calls)
			})
		})
	}
}

func TestNewestSampleIsServed(t *testing.T) {
	clock, upstream := newClock(), answering(rowsOf(t, 3))
	c := newReplica(t, nil, clock)
	c.do(t, upstream.request("p", narrow("a")), Filled)
	clock.advance(time.Minute)
	bypass := upstream.request("p", wide("a"))
	bypass.Bypass = true
	newer := c.do(t, bypass, Filled)
	if found := c.do(t, upstream.request("p", narrow("a")), HitMemory); found.Entry != newer.Entry {
		t.Error("served the older of two entries")
	}
}

func TestPropertiesNeverShareRows(t *testing.T) {
	c := newReplica(t, nil, newClock())
	one, other := answering(rowsOf(t, 1)), answering(rowsOf(t, 2))
	c.do(t, one.request("p1", narrow("a")), Filled)
	if found := c.do(t, other.request("p2", narrow("a")), Filled); found.Entry.Rows().Len() != 2 {
		t.Error("got the rows of another property")
	}
	if c.Has(t.Context(), one.request("p3", narrow("a"))) {
		t.Error("Has is true for the rows of another property")
	}
}

func TestBypassFillsAndReplacesTheCopy(t *testing.T) {
	c := newReplica(t, nil, newClock())
	upstream := answering(rowsOf(t, 3))
	q := upstream.request("p", narrow("a"))
	c.do(t, q, Filled)
	bypass := q
	bypass.Bypass = true
	if c.Has(t.Context(), bypass) {
		t.Error("Has is true for a bypass")
	}
	upstream.fill = answering(rowsOf(t, 4)).fill
	newer := c.do(t, bypass, Filled)
	if found := c.do(t, q, HitMemory); found.Entry != newer.Entry {
		t.Error("the entry was not replaced")
	}
	upstream.fill = failing(errUpstream).fill
	if found, err := c.Do(t.Context(), bypass); !errors.Is(err, errUpstream) || found.Entry != newer.Entry || found.Stale {
		t.Errorf("found %+v, %v, want the error and the entry", found, err)
	}
	upstream.want(t, 3)
}

// A bypass gets newer rows: it does not use an earlier fill, and other requests do not wait for it.
func TestBypassSharesNoFillWithOthers(t *testing.T) {
	for _, bypassFirst := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := newReplica(t, nil, newClock())
			answers := make(chan struct{})
			upstream := &backend{fill: func(_ context.Context, n int64) (*translate.Rows, error) {
				<-answers
				return rowsOf(t, int(n)), nil
			}}
			var ended sync.WaitGroup
			for n := range 2 {
				q := upstream.request("p", narrow("a"))
				q.Bypass = (n == 0) == bypassFirst
				ended.Go(func() {
					if found, err := c.Do(t.Context(), q); err != nil || found.Entry.Rows().Len() != n+1 || found.Status != Filled {
						t.Errorf("request %d, bypass %v: found %+v, %v", n, q.Bypass, found, err)
					}
				})
				synctest.Wait()
			}
			close(answers)
			ended.Wait()
			upstream.want(t, 2)
		})
	}
}

func TestNewRefusesInvalidConfig(t *testing.T) {
	for _, config := range []Config{{Errors: errorCodec{}}, {Bytes: -1, Errors: errorCodec{}}, {Bytes: 1}} {
		if _, err := New(config); err == nil {
			t.Errorf("New(%+v) succeeds", config)
		}
	}
}

package cache

import (
	"context"
	"errors"
	"testing"
	"time"

	"sara/translate"
)

func TestACopyIsFreshForTheLifeOfTheQuestion(t *testing.T) {
	clock, upstream := newClock(), sourceOf(rowsOf(t, 3))
	c := newReplica(t, nil, clock)
	q := upstream.question("p", narrow("a"))
	q.RequestHash = 42
	filled := c.do(t, q, Filled)
	if filled.Entry.RequestHash() != 42 || !filled.Entry.Filled().Equal(clock.Now()) || filled.Entry.Rows().Len() != 3 {
		t.Errorf("filled %+v", filled.Entry)
	}
	clock.advance(life - 1)
	if found := c.do(t, q, HitMemory); found.Entry != filled.Entry {
		t.Error("found another entry than was filled")
	}
	upstream.want(t, 1)
}

func TestAStaleCopyIsServedWhileOneRefillRuns(t *testing.T) {
	clock, upstream := newClock(), sourceOf(rowsOf(t, 3))
	c := newReplica(t, nil, clock)
	q := upstream.question("p", narrow("a"))
	old := c.do(t, q, Filled)
	clock.advance(life)
	release := make(chan struct{})
	upstream.fill = func(context.Context, int64) (*translate.Rows, error) {
		<-release
		return rowsOf(t, 4), nil
	}
	for range 5 {
		found, err := c.Do(t.Context(), q)
		if err != nil || found.Entry != old.Entry || !found.Stale || found.Status != HitMemory {
			t.Errorf("found %+v, %v, want the stale copy", found, err)
		}
		if !c.Has(t.Context(), q) {
			t.Error("a stale copy is not an answer")
		}
	}
	close(release)
	c.landed()
	if found := c.do(t, q, HitMemory); found.Entry.Rows().Len() != 4 {
		t.Error("the refill did not come to memory")
	}
	upstream.want(t, 2)
	if n := c.metric(t, "stale_total", "revalidating"); n != 5 {
		t.Errorf("counted %v stale copies", n)
	}
}

func TestAfterAFailedRefillTheNextOneIsWaitedFor(t *testing.T) {
	clock, upstream := newClock(), sourceOf(rowsOf(t, 3))
	c := newReplica(t, nil, clock)
	q := upstream.question("p", narrow("a"))
	old := c.do(t, q, Filled)
	clock.advance(life)
	upstream.fill = failing(errUpstream).fill
	if found, err := c.Do(t.Context(), q); err != nil || !found.Stale {
		t.Fatalf("found %+v, %v, want a stale copy", found, err)
	}
	c.landed()
	if c.Has(t.Context(), q) {
		t.Error("it has an answer that it would have to wait for")
	}
	found, err := c.Do(t.Context(), q)
	if !errors.Is(err, errUpstream) || found.Entry != old.Entry || !found.Stale {
		t.Errorf("found %+v, %v, want the error beside the copy", found, err)
	}
	upstream.fill = sourceOf(rowsOf(t, 4)).fill
	c.do(t, q, Filled)
	upstream.want(t, 4)
}

func TestARefusedRefillLeavesTheCopyServed(t *testing.T) {
	clock, upstream := newClock(), sourceOf(rowsOf(t, 3))
	c := newReplica(t, nil, clock)
	q := upstream.question("p", narrow("a"))
	c.do(t, q, Filled)
	clock.advance(life)
	upstream.fill = failing(errBudget).fill
	for range 3 {
		if found, err := c.Do(t.Context(), q); err != nil || !found.Stale {
			t.Errorf("found %+v, %v, want a stale copy", found, err)
		}
		c.landed()
	}
	upstream.want(t, 4)
	if n := c.metric(t, "fills_total", "refused"); n != 3 {
		t.Errorf("counted %v refusals", n)
	}
}

func TestACopyIsOfUseForADay(t *testing.T) {
	clock, upstream := newClock(), sourceOf(rowsOf(t, 3))
	c := newReplica(t, nil, clock)
	q := upstream.question("p", narrow("a"))
	c.do(t, q, Filled)
	clock.advance(maxStale)
	upstream.fill = failing(errUpstream).fill
	if found, err := c.Do(t.Context(), q); !errors.Is(err, errUpstream) || found.Entry != nil {
		t.Errorf("found %+v, %v, want nothing but the error", found, err)
	}
}

func TestSamplesAnswerForEachOther(t *testing.T) {
	few, full := rowsOf(t, 3), rowsOf(t, translate.NarrowSample)
	for _, test := range []struct {
		name       string
		has, wants translate.Query
		rows       *translate.Rows
		how        Status
	}{
		{"the wide for the narrow", wide("a"), narrow("a"), full, HitMemory},
		{"the narrow that has all for the wide", narrow("a"), wide("a"), few, HitMemory},
		{"the full narrow not for the wide", narrow("a"), wide("a"), full, Filled},
		{"not of another site", wide("b"), narrow("a"), few, Filled},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newReplica(t, nil, newClock())
			upstream := sourceOf(test.rows)
			c.do(t, upstream.question("p", test.has), Filled)
			c.do(t, upstream.question("p", test.wants), test.how)
		})
	}
}

func TestTheFreshestSampleIsServed(t *testing.T) {
	clock, upstream := newClock(), sourceOf(rowsOf(t, 3))
	c := newReplica(t, nil, clock)
	c.do(t, upstream.question("p", narrow("a")), Filled)
	clock.advance(time.Minute)
	bypass := upstream.question("p", wide("a"))
	bypass.Bypass = true
	newer := c.do(t, bypass, Filled)
	if found := c.do(t, upstream.question("p", narrow("a")), HitMemory); found.Entry != newer.Entry {
		t.Error("served the older of two copies")
	}
}

func TestPropertiesNeverShare(t *testing.T) {
	c := newReplica(t, nil, newClock())
	one, other := sourceOf(rowsOf(t, 1)), sourceOf(rowsOf(t, 2))
	c.do(t, one.question("p1", narrow("a")), Filled)
	if found := c.do(t, other.question("p2", narrow("a")), Filled); found.Entry.Rows().Len() != 2 {
		t.Error("a property was answered with the rows of another")
	}
	if c.Has(t.Context(), one.question("p3", narrow("a"))) {
		t.Error("a property has the rows of another")
	}
}

func TestABypassAsksAndRefreshesTheCopy(t *testing.T) {
	c := newReplica(t, nil, newClock())
	upstream := sourceOf(rowsOf(t, 3))
	q := upstream.question("p", narrow("a"))
	c.do(t, q, Filled)
	bypass := q
	bypass.Bypass = true
	if c.Has(t.Context(), bypass) {
		t.Error("a bypass is answered by a copy")
	}
	upstream.fill = sourceOf(rowsOf(t, 4)).fill
	newer := c.do(t, bypass, Filled)
	if found := c.do(t, q, HitMemory); found.Entry != newer.Entry {
		t.Error("the copy was not refreshed")
	}
	upstream.fill = failing(errUpstream).fill
	if found, err := c.Do(t.Context(), bypass); !errors.Is(err, errUpstream) || found.Entry != newer.Entry || found.Stale {
		t.Errorf("found %+v, %v, want the copy beside the error", found, err)
	}
	upstream.want(t, 3)
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	for _, config := range []Config{{Errors: failures{}}, {Bytes: -1, Errors: failures{}}, {Bytes: 1}} {
		if _, err := New(config); err == nil {
			t.Errorf("New(%+v) works", config)
		}
	}
}

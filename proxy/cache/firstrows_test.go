package cache

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"sara/policy/redistest"
)

// first returns the request for some first rows.
func first(q Request, n int) Request {
	q.FirstRows = n
	return q
}

// A request for a page decodes the first rows of a copy. The next one that needs all gets them without Redis.
func TestOnlyTheFirstRowsOfACopyAreDecoded(t *testing.T) {
	server := redistest.Single(t)
	clock, rows := newClock(), rowsOf(t, 5000)
	upstream := answering(rows)
	q := upstream.request("p", wide("a"))
	filler := newReplica(t, server.Client(), clock)
	filler.do(t, first(q, 10), Filled)
	filler.settle()

	c := newReplica(t, server.Client(), clock)
	entry := c.do(t, first(q, 10), HitShared).Entry
	few := c.memory.values.Weight()
	if entry.Rows().Len() != 5000 || !entry.Rows().HasFirst(10) || entry.Rows().HasFirst(1000) || few > int64(rows.Size())/2 {
		t.Errorf("a page has %d rows, and memory %d bytes", entry.Rows().Len(), few)
	}
	c.do(t, first(q, 20), HitMemory)
	if now := c.memory.values.Weight(); now != few {
		t.Errorf("another page makes %d bytes of %d", now, few)
	}
	server.Client().FlushAll(t.Context())
	all := c.do(t, q, HitMemory).Entry
	if all != entry || !sameRows(t, all.Rows(), rows) {
		t.Error("all rows differ from the upstream's")
	}
	if now := c.memory.values.Weight(); now < int64(rows.Size()) {
		t.Errorf("all rows weigh %d bytes, want at least %d", now, rows.Size())
	}
	upstream.want(t, 1)
}

// What is damaged behind the first rows does not matter to a page, and is a miss for a request that needs all.
func TestDamageBehindTheFirstRowsIsAMiss(t *testing.T) {
	server := redistest.Single(t)
	clock := newClock()
	upstream := answering(rowsOf(t, 25_000))
	q := upstream.request("p", wide("a"))
	c := newReplica(t, server.Client(), clock)
	damage(t, server, q, clock)
	c.do(t, first(q, 10), HitShared)
	upstream.want(t, 0)
	c.do(t, q, Filled)
	c.settle()
	upstream.want(t, 1)
	if n := c.metric(t, "discarded_total", "not_authentic"); n == 0 {
		t.Error("it is not counted")
	}
	newReplica(t, server.Client(), clock).do(t, q, HitShared)
}

// damage leaves a copy in Redis whose last segment is altered.
func damage(t *testing.T, server *redistest.Server, q Request, clock *clock) {
	t.Helper()
	own := newLookup(&q).own
	value := newTestCodec(t, maxPayload).encode(&Entry{key: own.key, rows: rowsOf(t, 25_000), filled: clock.Now()})
	value[len(value)-1]++
	if err := server.Client().Set(t.Context(), own.redisKey, value, 0).Err(); err != nil {
		t.Fatal(err)
	}
}

// A request that needs all rows waits for the look into Redis of one that needs the first.
func TestWaitersGetTheRowsThatTheyNeed(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		server := redistest.Single(t)
		clock, rows := newClock(), rowsOf(t, 25_000)
		upstream := answering(rows)
		q := upstream.request("p", wide("a"))
		if damaged {
			damage(t, server, q, clock)
		} else {
			filler := newReplica(t, server.Client(), clock)
			filler.do(t, q, Filled)
			filler.settle()
		}
		before := upstream.calls.Load()
		client := server.Client()
		held := holding{make(chan struct{}), make(chan struct{}), new(sync.Once)}
		client.AddHook(held)
		c := newReplica(t, client, clock)
		var done sync.WaitGroup
		done.Go(func() { c.do(t, first(q, 10), HitShared) })
		<-held.asked
		found, err := c.Do(entering{t.Context(), sync.OnceFunc(func() { close(held.released) })}, q)
		done.Wait()
		if err != nil || found.Stale || !sameRows(t, found.Entry.Rows(), rows) {
			t.Errorf("damaged %t: %+v, %v", damaged, found, err)
		}
		if calls := upstream.calls.Load() - before; (calls == 1) != damaged || (found.Status == Filled) != damaged {
			t.Errorf("damaged %t: %d calls, status %v", damaged, calls, found.Status)
		}
	}
}

// holding holds the first script back until it is released.
type holding struct {
	asked, released chan struct{}
	once            *sync.Once
}

func (h holding) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h holding) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			h.once.Do(func() {
				close(h.asked)
				<-h.released
			})
		}
		return next(ctx, cmd)
	}
}
func (h holding) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// entering is a context that calls back when Do begins to wait for the look of another request into Redis.
type entering struct {
	context.Context
	entered func()
}

func (e entering) Done() <-chan struct{} {
	if pc, _, _, _ := runtime.Caller(1); strings.HasSuffix(runtime.FuncForPC(pc).Name(), ".enter") {
		e.entered()
	}
	return e.Context.Done()
}

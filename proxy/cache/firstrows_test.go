package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"sara/policy/redistest"
	"sara/translate"
)

// first returns the request for some first rows.
func first(q Request, n int) Request {
	q.FirstRows = n
	return q
}

// share makes another replica leave a copy of a request's rows in Redis.
func share(t *testing.T, server *redistest.Server, clock *clock, q Request) {
	t.Helper()
	filler := newReplica(t, server.Client(), clock)
	filler.do(t, q, Filled)
	filler.settle()
}

// A request reads as many parts of a copy as it needs for its rows.
func TestOnlyTheFirstRowsOfACopyAreRead(t *testing.T) {
	server := redistest.Single(t)
	clock, rows := newClock(), rowsOf(t, 5000)
	upstream := answering(rows)
	q := upstream.request("p", wide("a"))
	share(t, server, clock, q)
	size := server.Client().StrLen(t.Context(), newLookup(&q).own.redisKey).Val()

	client := redistest.Open(t, server.URL())
	read := new(bytesRead)
	client.AddHook(read)
	c := newReplica(t, client, clock)
	var weight int64
	for _, test := range []struct {
		first  int
		status Status
		bytes  int64 // read from the copy, at most
	}{
		{10, HitShared, size / 20}, {100, HitMemory, 0}, {101, HitShared, size / 4}, {1001, HitMemory, 0}, {10, HitMemory, 0},
		{1002, HitShared, size}, {0, HitMemory, 0}, {100, HitMemory, 0},
	} {
		before := read.Load()
		got := c.do(t, first(q, test.first), test.status).Entry.Rows()
		if n := read.Load() - before; got.Len() != 5000 || !got.HasFirst(test.first) || n > test.bytes || (n == 0) != (test.status == HitMemory) {
			t.Errorf("first %d: %d rows, %d of %d bytes of the copy are read", test.first, got.Len(), n, size)
		}
		if now := c.memory.values.Weight(); now < weight || now == weight != (test.status == HitMemory) {
			t.Errorf("first %d: memory has %d bytes after %d", test.first, now, weight)
		} else {
			weight = now
		}
	}
	if all := c.do(t, q, HitMemory).Entry.Rows(); !sameRows(t, all, rows) || weight < int64(rows.Size()) {
		t.Errorf("%d rows of %d bytes, not those of the upstream", all.Len(), weight)
	}
	upstream.want(t, 1)
}

// bytesRead counts the bytes of the values in replies.
type bytesRead struct{ atomic.Int64 }

func (b *bytesRead) DialHook(next redis.DialHook) redis.DialHook { return next }
func (b *bytesRead) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (b *bytesRead) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		switch cmd := cmd.(type) {
		case *redis.StringCmd:
			b.Add(int64(len(cmd.Val())))
		case *redis.Cmd:
			values, _ := cmd.Slice()
			for _, value := range values {
				text, _ := value.(string)
				b.Add(int64(len(text)))
			}
		}
		return err
	}
}

// Among unranked rows, any may be one of the first: all are read.
func TestRowsThatAreNotRankedAreReadAsAWhole(t *testing.T) {
	server, clock := redistest.Single(t), newClock()
	var build translate.RowsBuilder
	for i := range 2000 {
		build.Add(fmt.Appendf(nil, "%d", i), translate.Metrics{Clicks: int64(i), Impressions: 3000, CTR: float64(i) / 3000, Position: 1})
	}
	rows := build.Rows()
	upstream := answering(rows)
	q := upstream.request("p", wide("a"))
	share(t, server, clock, q)
	if got := newReplica(t, server.Client(), clock).do(t, first(q, 10), HitShared).Entry.Rows(); !sameRows(t, got, rows) {
		t.Errorf("%d rows, not those of the upstream", got.Len())
	}
}

// If Redis has lost the copy whose first rows are in memory, a request for other rows is a miss.
func TestRestOfALostCopyIsAMiss(t *testing.T) {
	server, clock := redistest.Single(t), newClock()
	upstream := answering(rowsOf(t, 5000))
	q := upstream.request("p", wide("a"))
	share(t, server, clock, q)
	c := newReplica(t, server.Client(), clock)
	c.do(t, first(q, 10), HitShared)
	server.Client().FlushAll(t.Context())
	c.do(t, first(q, 10), HitMemory)
	c.do(t, q, Filled)
	upstream.want(t, 2)
}

// Whatever value the script parses as frames, the result is a miss or all rows.
func TestFirstRowsOfOtherValuesAreAMiss(t *testing.T) {
	server, clock := redistest.Single(t), newClock()
	client := server.Client()
	key := newLookup(new(answering(nil).request("p", wide("a")))).own.redisKey
	head := append([]byte(magic), version)
	for name, value := range map[string][]byte{
		"short": head, "of the next version": append([]byte(magic), version+1),
		"frames of nothing": append(head, make([]byte, 1000)...), "many": append(head, make([]byte, 2*longestAlong)...),
		"a frame that is too long": append(head, bytes.Repeat([]byte{0xff}, 1000)...), "another program's": []byte("hello"),
	} {
		client.Set(t.Context(), key, value, 0)
		c := newReplica(t, client, clock)
		c.do(t, first(answering(rowsOf(t, 3)).request("p", wide("a")), 10), Filled)
		c.settle()
		if n := c.metric(t, "redis_errors_total", ""); n != 0 {
			t.Errorf("%s: %g Redis errors", name, n)
		}
	}
	client.Del(t.Context(), key)
	client.LPush(t.Context(), key, "hello")
	newReplica(t, client, clock).do(t, first(answering(rowsOf(t, 3)).request("p", wide("a")), 10), Filled)
}

// Damage after the first rows does not affect a page, but is a miss for a request that needs all rows.
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

// A request that needs all rows waits for the Redis look of one that needs only the first.
func TestWaitersGetTheRowsThatTheyNeed(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		server := redistest.Single(t)
		clock, rows := newClock(), rowsOf(t, 25_000)
		upstream := answering(rows)
		q := upstream.request("p", wide("a"))
		if damaged {
			damage(t, server, q, clock)
		} else {
			share(t, server, clock, q)
		}
		before := upstream.calls.Load()
		client := server.Client()
		held := holding{make(chan struct{}), make(chan struct{}), new(sync.Once)}
		client.AddHook(held)
		c := newReplica(t, client, clock)
		var done sync.WaitGroup
		done.Go(func() { c.do(t, first(q, 10), HitShared) })
		<-held.asked
		found, err := c.Do(waiting{t.Context(), "enter", sync.OnceFunc(func() { close(held.released) })}, q)
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

// waiting is a context that calls back when a function begins to wait: enter for another request's look into Redis, await for a fill.
type waiting struct {
	context.Context
	in    string // the function
	waits func()
}

func (w waiting) Done() <-chan struct{} {
	if pc, _, _, _ := runtime.Caller(1); strings.HasSuffix(runtime.FuncForPC(pc).Name(), "."+w.in) {
		w.waits()
	}
	return w.Context.Done()
}

// A failed refill is remembered for the rows, however many of them a request needs: the next request waits for another refill.
func TestFailedRefillOfTheFirstRowsIsOneOfAll(t *testing.T) {
	server, clock := redistest.Single(t), newClock()
	upstream := answering(rowsOf(t, 5000))
	q := upstream.request("p", wide("a"))
	share(t, server, clock, q)
	c := newReplica(t, server.Client(), clock)
	clock.advance(ttl)
	upstream.fill = func(context.Context, int64) (*translate.Rows, error) { return nil, errUpstream }
	if found, err := c.Do(t.Context(), first(q, 10)); err != nil || !found.Stale {
		t.Fatalf("the first rows: %+v, %v", found, err)
	}
	c.settle()
	if found, err := c.Do(t.Context(), q); !errors.Is(err, errUpstream) || found.Entry == nil || !found.Entry.Rows().HasFirst(0) {
		t.Errorf("all rows: %+v, %v", found, err)
	}
	upstream.want(t, 3)
}

// A request that needs all rows, and whose copy is lost, gets them even if a refill in its process ends with the first rows of another
// replica's.
func TestRefillOfAnotherReplicaForTheFirstRowsIsNotAll(t *testing.T) {
	server, clock, rows := redistest.Single(t), newClock(), rowsOf(t, 5000)
	upstream := answering(rows)
	q := upstream.request("p", wide("a"))
	other := newReplica(t, server.Client(), clock)
	other.do(t, q, Filled)
	other.settle()
	clock.advance(ttl)

	began, goOn := make(chan struct{}), make(chan struct{})
	slow := answering(rows)
	slow.fill = func(context.Context, int64) (*translate.Rows, error) { close(began); <-goOn; return rows, nil }
	wantStale := func(c *replica, q Request) {
		if found, err := c.Do(t.Context(), q); err != nil || !found.Stale {
			t.Fatalf("%+v, %v, want stale rows", found, err)
		}
	}
	wantStale(other, slow.request("p", wide("a")))
	<-began
	c := newReplica(t, server.Client(), clock)
	wantStale(c, first(q, 10)) // the refill waits for the other replica's
	server.Client().Del(t.Context(), newLookup(&q).own.redisKey)
	found, err := c.Do(waiting{t.Context(), "await", sync.OnceFunc(func() { close(goOn) })}, q)
	if err != nil || found.Stale || !sameRows(t, found.Entry.Rows(), rows) {
		t.Errorf("%+v, %v", found, err)
	}
	upstream.want(t, 1)
}

package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/policy/redisconn"
	"sara/policy/redistest"
	"sara/proxy/cpubound"
	"sara/translate"
)

// gate holds back the calls of seek.lua until it is opened, and then counts those sent in each round trip.
type gate struct {
	held   sync.WaitGroup // the round trips that are awaited
	opened chan struct{}

	mu    sync.Mutex
	trips []int
}

func (g *gate) DialHook(next redis.DialHook) redis.DialHook { return next }
func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" || cmd.Name() == "eval" {
			g.pass(1)
		}
		return next(ctx, cmd)
	}
}
func (g *gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		if name := commands[0].Name(); name == "evalsha" || name == "eval" {
			g.pass(len(commands))
		}
		return next(ctx, commands)
	}
}

func (g *gate) pass(calls int) {
	select {
	case <-g.opened:
	default:
		g.held.Done()
		<-g.opened
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trips = append(g.trips, calls)
}

// Requests that arrive while others look into Redis share a look. Each gets its own rows, whether the server knows the script or not.
func TestSeeksShareRoundTrips(t *testing.T) {
	t.Parallel()
	redistest.OnBoth(t, func(t *testing.T, connect func() redisconn.Client) {
		t.Run("that knows the script", func(t *testing.T) { testSeeksShareRoundTrips(t, connect, true) })
		t.Run("that does not", func(t *testing.T) { testSeeksShareRoundTrips(t, connect, false) })
	})
}

func testSeeksShareRoundTrips(t *testing.T, connect func() redisconn.Client, knows bool) {
	const late = maxSeeks + 5 // requests that arrive while the first ones look
	property := func(i int) string { return fmt.Sprint(t.Name(), i) }
	clock := newClock()
	filler := newReplica(t, connect(), clock)
	upstreams := make([]*backend, maxPipelines+late)
	for i := range upstreams {
		upstreams[i] = answering(rowsOf(t, i))
		filler.do(t, upstreams[i].request(property(i), narrow("a")), Filled)
	}
	filler.settle()
	client := connect()
	if !knows {
		if err := redisconn.EachMaster(t.Context(), client, func(ctx context.Context, master redis.Cmdable) error {
			return master.ScriptFlush(ctx).Err()
		}); err != nil {
			t.Fatal(err)
		}
	}
	c := newReplica(t, client, clock)
	g := &gate{opened: make(chan struct{})}
	client.AddHook(g)
	var done sync.WaitGroup
	look := func(i int) {
		done.Go(func() {
			if found := c.do(t, upstreams[i].request(property(i), narrow("a")), HitShared); found.Entry.Rows().Len() != i {
				t.Errorf("%d rows for request %d", found.Entry.Rows().Len(), i)
			}
		})
	}
	for i := range maxPipelines { // one after the other: each is alone
		g.held.Add(1)
		look(i)
		g.held.Wait()
	}
	for i := range late {
		look(maxPipelines + i)
	}
	c.await(t, late)
	close(g.opened)
	done.Wait()
	most, calls := 0, 0
	for _, n := range g.trips {
		most, calls = max(most, n), calls+n
	}
	if unknown := calls - maxPipelines - late; most != maxSeeks || (unknown > 0) == knows {
		t.Errorf("the calls of the round trips are %d", g.trips)
	}
	for _, u := range upstreams {
		u.want(t, 1)
	}
}

// await waits until a given number of calls of seek.lua are waiting.
func (r *replica) await(t *testing.T, calls int) {
	t.Helper()
	for {
		r.redis.seeks.mu.Lock()
		waiting := len(r.redis.seeks.waiting)
		r.redis.seeks.mu.Unlock()
		if waiting == calls {
			return
		}
		if t.Context().Err() != nil {
			t.Fatal("the test has ended")
		}
		runtime.Gosched()
	}
}

// A reply that has arrived counts even if its caller's time is up.
func TestSeekAfterAPauseHasItsReply(t *testing.T) {
	t.Parallel()
	s := newReplica(t, redistest.Single(t).Client(), newClock()).redis
	s.seeks.running = maxPipelines // so that nothing is sent
	for range 64 {                 // a reply and the timeout are noticed in any order
		call := s.seeks.newCall()
		call.command = redis.NewCmd(t.Context())
		call.command.SetVal([]any{"reply"})
		call.done <- struct{}{}
		if reply, err := s.wait(call, time.Now().Add(-time.Minute)); err != nil || len(reply) != 1 {
			t.Fatalf("%v, %v", reply, err)
		}
		s.seeks.waiting = nil
	}
}

// A long copy is read by a separate command, so that it does not delay what shares its pipeline. One whose length the script may not
// measure is read by the first command.
func TestLongCopiesAreReadAlone(t *testing.T) {
	t.Parallel()
	server, clock := redistest.Single(t), newClock()
	filler := newReplica(t, server.Client(), clock)
	upstreams := map[int]*backend{62: answering(rowsOf(t, 62)), 25_000: answering(rowsOf(t, 25_000))}
	for n, upstream := range upstreams {
		filler.do(t, upstream.request(fmt.Sprint("p", n), wide("a")), Filled)
	}
	filler.settle()
	if err := server.Client().Do(t.Context(), "acl", "setuser", "former", "on", ">secret", "~*", "&*", "+@all", "-strlen",
		"-getrange").Err(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name     string
		user     string
		rows     int
		first    int
		commands int64
	}{
		{"a short copy", "", 62, 0, 1}, {"a long copy", "", 25_000, 0, 2}, {"a long copy without STRLEN", "former:secret@", 25_000, 0, 1},
		{"a page of a long copy", "", 25_000, 10, 1}, {"a page without GETRANGE", "former:secret@", 25_000, 10, 1},
	} {
		client := redistest.Open(t, strings.Replace(server.URL(), "redis://", "redis://"+test.user, 1))
		c := newReplica(t, client, clock)
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		counted := new(roundTrips)
		client.AddHook(counted)
		found := c.do(t, first(upstreams[test.rows].request(fmt.Sprint("p", test.rows), wide("a")), test.first), HitShared)
		if n := found.Entry.Rows().Len(); n != test.rows || counted.commands.Load() != test.commands {
			t.Errorf("%s: %d rows by %d commands, want %d by %d", test.name, n, counted.commands.Load(), test.rows, test.commands)
		}
	}
}

// turnstile holds back commands that read one value until it is opened, and counts those in flight.
type turnstile struct {
	came   chan struct{} // gets a value for each command
	opened chan struct{}

	running, most atomic.Int64
}

func (s *turnstile) DialHook(next redis.DialHook) redis.DialHook { return next }
func (s *turnstile) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (s *turnstile) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "get" {
			return next(ctx, cmd)
		}
		s.most.Store(max(s.most.Load(), s.running.Add(1)))
		defer s.running.Add(-1)
		s.came <- struct{}{}
		<-s.opened
		return next(ctx, cmd)
	}
}

// However many requests read long copies, they take turns, and each gets its rows. A request for a short copy
// does not wait for them.
func TestLongCopiesAreReadFewAtATime(t *testing.T) {
	t.Parallel()
	const rows = 5000
	readers := 3 * maxLongReads()
	server, clock := redistest.Single(t), newClock()
	filler := newReplica(t, server.Client(), clock)
	upstreams := make([]*backend, readers)
	property := func(i int) string { return fmt.Sprint("p", i) }
	for i := range upstreams {
		upstreams[i] = answering(rowsOf(t, rows+i))
		filler.do(t, upstreams[i].request(property(i), wide("a")), Filled)
	}
	short := answering(rowsOf(t, 62))
	filler.do(t, short.request("short", wide("a")), Filled)
	filler.settle()
	client := redistest.Open(t, server.URL())
	turns := &turnstile{came: make(chan struct{}, readers), opened: make(chan struct{})}
	client.AddHook(turns)
	c := newReplica(t, client, clock)
	var done sync.WaitGroup
	for i := range readers {
		done.Go(func() {
			if found := c.do(t, upstreams[i].request(property(i), wide("a")), HitShared); found.Entry.Rows().Len() != rows+i {
				t.Errorf("%d rows for request %d", found.Entry.Rows().Len(), i)
			}
		})
	}
	for range maxLongReads() {
		<-turns.came
	}
	c.do(t, short.request("short", wide("a")), HitShared)
	close(turns.opened)
	done.Wait()
	if most := turns.most.Load(); most > int64(maxLongReads()) {
		t.Errorf("%d long copies were read at a time", most)
	}
}

// leaver makes a caller leave once Redis has answered its look.
type leaver struct {
	leave context.CancelFunc
}

func (l *leaver) DialHook(next redis.DialHook) redis.DialHook { return next }
func (l *leaver) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (l *leaver) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if strings.HasPrefix(cmd.Name(), "eval") {
			l.leave()
		}
		return err
	}
}

// A request that leaves does not wait for its turn to read a long copy. The copy is still read, for later requests.
func TestCallerLeavesQueueOfLongCopies(t *testing.T) {
	t.Parallel()
	server, clock := redistest.Single(t), newClock()
	filler, upstream := newReplica(t, server.Client(), clock), answering(rowsOf(t, 5000))
	filler.do(t, upstream.request("p", wide("a")), Filled)
	filler.settle()
	client := redistest.Open(t, server.URL())
	ctx, leave := context.WithCancel(t.Context())
	client.AddHook(&leaver{leave})
	c := newReplica(t, client, clock)
	for range maxLongReads() {
		c.redis.longReads <- struct{}{}
	}
	if _, err := c.Do(ctx, upstream.request("p", wide("a"))); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who has left: %v", err)
	}
	for range maxLongReads() {
		<-c.redis.longReads
	}
	c.settle()
	c.do(t, upstream.request("p", wide("a")), HitMemory)
	if n := c.metric(t, "redis_errors_total", ""); n != 0 {
		t.Errorf("%g errors of Redis are counted", n)
	}
}

// If a request leaves while a long copy of the query beside it waits to be read, its lease is not lost: the fill need not wait for its expiry.
func TestLeaseOfALeaverIsUsed(t *testing.T) {
	t.Parallel()
	server, clock, day := redistest.Single(t), newClock(), translate.NewDate(2026, 11, 18)
	series := seriesQuery(day)
	filler, upstream := newReplica(t, server.Client(), clock), answering(rowsOf(t, 3))
	filler.do(t, answering(seriesRows(t, day, 5)).request("p", series), Filled)
	filler.settle()
	client := redistest.Open(t, server.URL())
	ctx, leave := context.WithCancel(t.Context())
	c, commands := newReplica(t, client, clock), new(roundTrips)
	c.redis.script.longest = 1                              // byte, so that every copy is long
	c.do(t, upstream.request("p", narrow("first")), Filled) // loads the scripts, and looks at the memory
	c.settle()
	client.AddHook(&leaver{leave})
	client.AddHook(commands)
	for range maxLongReads() {
		c.redis.longReads <- struct{}{}
	}
	r := upstream.request("p", narrow("a"))
	r.Beside = &series
	if _, err := c.Do(ctx, r); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who has left: %v", err)
	}
	c.settle()
	upstream.want(t, 2)
	if n := commands.commands.Load(); n != 2 {
		t.Errorf("%d commands, want one that takes the lease, and one that writes the rows", n)
	}
	newReplica(t, server.Client(), clock).do(t, upstream.request("p", narrow("a")), HitShared)
}

// Decoding a long copy takes a CPU slot, and the turn to read long copies lasts until then. A short copy waits for neither.
func TestLongCopiesAreDecodedInASlot(t *testing.T) {
	t.Parallel()
	server, clock := redistest.Single(t), newClock()
	filler := newReplica(t, server.Client(), clock)
	long, short := answering(rowsOf(t, 5000)).request("long", wide("a")), answering(rowsOf(t, 62)).request("short", wide("a"))
	filler.do(t, long, Filled)
	filler.do(t, short, Filled)
	filler.settle()
	client := redistest.Open(t, server.URL())
	turns := &turnstile{came: make(chan struct{}, 1), opened: make(chan struct{})}
	close(turns.opened)
	client.AddHook(turns)
	c, slots := newReplica(t, client, clock), cpubound.New()
	c.redis.codec.slots = slots
	full, stop := context.WithCancel(t.Context())
	stop()
	taken := 0
	for slots.Acquire(full) == nil {
		taken++
	}
	var done sync.WaitGroup
	var answered atomic.Bool
	done.Go(func() {
		c.do(t, long, HitShared)
		answered.Store(true)
	})
	<-turns.came
	for range 100 {
		if found := c.Copy(t.Context(), short); found.Entry == nil {
			t.Error("a short copy is not read")
		}
	}
	if n := len(c.redis.longReads); n != 1 || answered.Load() {
		t.Errorf("%d read long copies, answered %t", n, answered.Load())
	}
	for range taken {
		slots.Release()
	}
	done.Wait()
	if n := len(c.redis.longReads); n != 0 {
		t.Errorf("%d read long copies in the end", n)
	}
}

// If Redis fails, the requests that wait for their turn do not try it one after the other.
func TestLongCopiesWaitForNoBrokenRedis(t *testing.T) {
	t.Parallel()
	c := newReplica(t, redistest.Single(t).Client(), newClock())
	for range maxLongReads() {
		c.redis.longReads <- struct{}{}
	}
	errs := make(chan error)
	go func() {
		call := c.redis.seeks.newCall()
		err := c.redis.beginLong(t.Context(), call, false)
		c.redis.release(call)
		errs <- err
	}()
	c.redis.settle(t.Context(), io.ErrUnexpectedEOF)
	<-c.redis.longReads
	if err := <-errs; !errors.Is(err, errPaused) || c.redis.settle(t.Context(), err) {
		t.Errorf("%v", err)
	}
	if n := c.metric(t, "redis_errors_total", ""); n != 1 {
		t.Errorf("%g errors are counted, want 1", n)
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	c.redis.longReads <- struct{}{}
	if err := c.redis.beginLong(left, new(seekCall), false); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who has left: %v", err)
	}
}

// A value longer than any copy is not read: it would take up the memory of this process.
func TestValueLongerThanAnyCopyIsAMiss(t *testing.T) {
	server, clock := redistest.Single(t), newClock()
	upstream := answering(rowsOf(t, 3))
	q := upstream.request("p", wide("a"))
	client := server.Client()
	if err := client.SetRange(t.Context(), newLookup(&q).own.redisKey, maxPayload+maxPayload/4, "x").Err(); err != nil {
		t.Fatal(err)
	}
	read := new(bytesRead)
	client.AddHook(read)
	c := newReplica(t, client, clock)
	c.do(t, q, Filled)
	c.settle()
	if n := read.Load(); n > longestAlong {
		t.Errorf("%d bytes are read", n)
	}
	if torn, failed := c.metric(t, "discarded_total", "torn"), c.metric(t, "redis_errors_total", ""); torn == 0 || failed > 0 {
		t.Errorf("counted %v damaged copies and %v errors", torn, failed)
	}
	newReplica(t, client, clock).do(t, q, HitShared) // it has been replaced
	upstream.want(t, 1)
}

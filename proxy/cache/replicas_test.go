package cache

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/policy/redisconn"
	"sara/policy/redistest"
	"sara/translate"
)

// leaseHook calls back when a replica has its first lease, or waits for the holder of one.
type leaseHook struct {
	once   sync.Once
	leased func()

	renewed func() // called at each renewal; nil for none
}

func (h *leaseHook) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h *leaseHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		h.look(cmd, err)
		return err
	}
}
func (h *leaseHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		err := next(ctx, commands)
		for _, cmd := range commands {
			h.look(cmd, cmd.Err())
		}
		return err
	}
}

func (h *leaseHook) look(cmd redis.Cmder, err error) {
	if err != nil || len(cmd.Args()) < 2 { // such as that Redis does not have the script yet
		return
	}
	switch script := cmd.Args()[1]; {
	case script == seekLua || script == redis.NewScript(seekLua).Hash():
		// Without the lease, a replica first looks, and then asks for it while it expects the holder's event.
		reply, _ := cmd.(*redis.Cmd).Slice()
		keys, _ := cmd.Args()[2].(int)
		if anyway := cmd.Args()[3+keys+2]; reply[len(reply)-1] == int64(1) || anyway == true {
			h.once.Do(h.leased)
		}
	case script == renewLua && h.renewed != nil:
		h.renewed()
	}
}

// twoReplicas returns two replicas, each of which counts waiting down when it asks for its first lease.
func twoReplicas(t *testing.T, client func() redisconn.Client, waiting *sync.WaitGroup) (*clock, []*replica) {
	t.Helper()
	clock := newClock()
	var replicas []*replica
	for range 2 {
		waiting.Add(1)
		own := client()
		own.AddHook(&leaseHook{leased: waiting.Done})
		replicas = append(replicas, newReplica(t, own, clock))
	}
	return clock, replicas
}

func TestReplicas(t *testing.T) {
	t.Parallel()
	redistest.OnBoth(t, func(t *testing.T, client func() redisconn.Client) {
		for name, test := range map[string]func(*testing.T, func() redisconn.Client){
			"coalesce fills": coalesceFills, "share a failure": shareFailure,
			"retry after an unshared error": retryAfterUnsharedError,
			"share rows":                    shareRows,
			"share the newest rows":         shareNewestRows,
		} {
			t.Run(name, func(t *testing.T) { test(t, client) })
		}
	})
}

func coalesceFills(t *testing.T, client func() redisconn.Client) {
	for range 10 {
		var waiting sync.WaitGroup
		waiting.Add(40)
		_, replicas := twoReplicas(t, client, &waiting)
		upstream := &backend{fill: func(context.Context, int64) (*translate.Rows, error) {
			waiting.Wait()
			return rowsOf(t, 3), nil
		}}
		// A separate property for each round.
		all, errs := concurrently(t, 40, &waiting, upstream.request(t.Name()+newToken(), narrow("a")), replicas...)
		statuses := map[Status]int{}
		for i, found := range all {
			if errs[i] != nil || found.Entry.id != all[0].Entry.id || found.Entry.Rows().Len() != 3 {
				t.Errorf("found %+v, %v", found, errs[i])
			}
			statuses[found.Status]++
		}
		if statuses[Filled] != 1 || statuses[Filled]+statuses[Coalesced] != 40 {
			t.Errorf("found %v, want one fill and the others coalesced", statuses)
		}
		upstream.want(t, 1)
		awaited := 0.0
		for _, r := range replicas {
			awaited += r.metric(t, "awaited_total", "replica")
			r.Close()
		}
		if awaited != 1 {
			t.Errorf("%v flights were coalesced across replicas", awaited)
		}
	}
}

func shareFailure(t *testing.T, client func() redisconn.Client) {
	var waiting sync.WaitGroup
	waiting.Add(40)
	_, replicas := twoReplicas(t, client, &waiting)
	awaitSubscriptions(t, replicas)
	upstream := &backend{fill: func(context.Context, int64) (*translate.Rows, error) {
		waiting.Wait()
		return nil, errUpstream
	}}
	_, errs := concurrently(t, 40, &waiting, upstream.request(t.Name(), narrow("a")), replicas...)
	for _, err := range errs {
		if !errors.Is(err, errUpstream) {
			t.Errorf("Do: %v", err)
		}
	}
	upstream.want(t, 1)
}

// awaitSubscriptions returns when a message of the first replica reaches every replica. It publishes in a loop; each
// round trip is a sufficient pause.
func awaitSubscriptions(t *testing.T, replicas []*replica) {
	t.Helper()
	for _, r := range replicas {
		event, cancel := r.redis.events.expect("test")
		for arrived := false; !arrived; {
			message := fillEvent{kind: fillReleased}.encode("test")
			if err := replicas[0].redis.client.Publish(t.Context(), fillChannel, message).Err(); err != nil {
				t.Fatal(err)
			}
			select {
			case <-event:
				arrived = true
			case <-t.Context().Done():
				t.Fatal("no message arrived")
			default:
			}
		}
		cancel()
	}
}

func retryAfterUnsharedError(t *testing.T, client func() redisconn.Client) {
	var waiting sync.WaitGroup
	waiting.Add(40)
	_, replicas := twoReplicas(t, client, &waiting)
	upstream := &backend{fill: func(_ context.Context, n int64) (*translate.Rows, error) {
		waiting.Wait()
		if n == 1 {
			return nil, errBudget
		}
		return rowsOf(t, 3), nil
	}}
	_, errs := concurrently(t, 40, &waiting, upstream.request(t.Name(), narrow("a")), replicas...)
	failed := 0
	for _, err := range errs {
		if err != nil {
			failed++
		}
	}
	if failed != 1 {
		t.Errorf("%d failed, want only the one that ran into the error: %v", failed, errors.Join(errs...))
	}
	upstream.want(t, 2)
}

func shareRows(t *testing.T, client func() redisconn.Client) {
	clock, upstream := newClock(), answering(rowsOf(t, 3))
	one, other := newReplica(t, client(), clock), newReplica(t, client(), clock)
	q := upstream.request(t.Name(), narrow("a"))
	q.RequestHash = 42
	filled := one.do(t, q, Filled).Entry
	one.settle()
	clock.advance(ttl - 1)
	if !other.Has(t.Context(), upstream.request(t.Name(), wide("a"))) {
		t.Error("Has is false for the wide sample, though the narrow one has all rows")
	}
	found := other.do(t, q, HitMemory).Entry
	if found.RequestHash() != 42 || !found.Filled().Equal(filled.Filled()) || found.id != filled.id || found.Rows().Len() != 3 {
		t.Errorf("found %+v, filled %+v", found, filled)
	}
	third := newReplica(t, client(), clock)
	third.do(t, q, HitShared)
	clock.advance(1)
	if found, err := third.Do(t.Context(), q); err != nil || !found.Stale || found.Status != HitMemory {
		t.Errorf("found %+v, %v, want the stale entry with its age", found, err)
	}
	third.settle()
	upstream.want(t, 2)
}

func TestLeaseOfADeadReplicaExpires(t *testing.T) {
	server := redistest.Single(t)
	c := newReplica(t, server.Client(), newClock())
	c.redis.limits.held = 100 * time.Millisecond
	upstream := answering(rowsOf(t, 3))
	q := upstream.request("p", narrow("a"))
	if err := server.Client().Set(t.Context(), newLookup(&q).lease, "dead", c.redis.limits.held).Err(); err != nil {
		t.Fatal(err)
	}
	c.do(t, q, Filled)
	upstream.want(t, 1)
}

func TestLeaseIsRenewedWhileTheFillRuns(t *testing.T) {
	t.Parallel()
	var waiting sync.WaitGroup
	waiting.Add(2)
	server := redistest.Single(t)
	_, replicas := twoReplicas(t, server.Client, &waiting)
	const interval = 20 * time.Millisecond
	renewals, begun := make(chan struct{}), time.Now()
	for _, r := range replicas {
		r.redis.limits.held, r.redis.limits.renewal = 400*time.Millisecond, interval
		r.redis.client.AddHook(&leaseHook{leased: func() {}, renewed: func() { renewals <- struct{}{} }})
	}
	upstream := &backend{fill: func(ctx context.Context, _ int64) (*translate.Rows, error) {
		waiting.Wait()
		for range 30 { // together longer than a lease lasts
			select {
			case <-renewals:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		if took := time.Since(begun); took < 30*interval {
			t.Errorf("30 renewals within %v", took)
		}
		go func() { // drain the renewals until the fill has ended
			for range renewals {
			}
		}()
		return rowsOf(t, 3), nil
	}}
	_, errs := concurrently(t, 2, &waiting, upstream.request("p", narrow("a")), replicas...)
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	upstream.want(t, 1)
	for _, r := range replicas {
		r.Close()
	}
	close(renewals)
}

// A Redis that hangs in a renewal delays only what comes after the answer.
func TestNoRequestWaitsForARenewal(t *testing.T) {
	c := newReplica(t, redistest.Single(t).Client(), newClock())
	c.redis.limits.renewal = time.Millisecond
	hangs, answers := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c.redis.client.AddHook(&leaseHook{leased: func() {}, renewed: func() {
		once.Do(func() { close(hangs) })
		<-answers
	}})
	upstream := &backend{fill: func(context.Context, int64) (*translate.Rows, error) {
		<-hangs
		return rowsOf(t, 3), nil
	}}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if found, err := c.Do(ctx, upstream.request("p", narrow("a"))); err != nil || found.Status != Filled {
		t.Errorf("found %+v, %v", found, err)
	}
	close(answers)
	c.Close()
	checkNoGoroutine(t)
}

func TestCloseReleasesTheLease(t *testing.T) {
	server := redistest.Single(t)
	clock := newClock()
	dying, living := newReplica(t, server.Client(), clock), newReplica(t, server.Client(), clock)
	living.redis.limits.held = time.Hour // far beyond the time of the test
	dying.redis.limits.held = time.Hour
	awaitSubscriptions(t, []*replica{living})
	var waiting sync.WaitGroup
	waiting.Add(1)
	cut := &backend{fill: func(ctx context.Context, _ int64) (*translate.Rows, error) {
		waiting.Done()
		<-ctx.Done()
		return nil, sharedError("canceled")
	}}
	upstream := answering(rowsOf(t, 3))
	var ended sync.WaitGroup
	ended.Go(func() {
		if _, err := dying.Do(t.Context(), cut.request("p", narrow("a"))); err == nil {
			t.Error("a canceled fill succeeded")
		}
	})
	waiting.Wait()
	ended.Go(func() { living.do(t, upstream.request("p", narrow("a")), Filled) })
	dying.Close()
	ended.Wait()
	living.Close()
	checkNoGoroutine(t)
}

// A replica that is closed while it waits for another's fill neither waits on nor fills itself.
func TestCloseEndsTheWaitForALease(t *testing.T) {
	var waiting sync.WaitGroup
	_, replicas := twoReplicas(t, redistest.Single(t).Client, &waiting)
	filling, fills := make(chan struct{}), make(chan struct{})
	upstream := &backend{fill: func(context.Context, int64) (*translate.Rows, error) {
		close(filling)
		<-fills
		return rowsOf(t, 3), nil
	}}
	var ended sync.WaitGroup
	ended.Go(func() { replicas[0].do(t, upstream.request("p", narrow("a")), Filled) })
	<-filling
	ended.Go(func() {
		if found, err := replicas[1].Do(t.Context(), upstream.request("p", narrow("a"))); err == nil {
			t.Errorf("found %+v", found)
		}
	})
	waiting.Wait()
	replicas[1].Close()
	close(fills)
	ended.Wait()
	upstream.want(t, 1)
	replicas[0].Close()
	checkNoGoroutine(t)
}

// A fill for which a replica has no memory is left to the other: all waiters of that replica get the refusal, and none of them
// tries itself.
func TestAFillWithoutMemoryIsLeftToAnotherReplica(t *testing.T) {
	client := redistest.Single(t).Client
	var waiting sync.WaitGroup
	_, replicas := twoReplicas(t, client, &waiting)
	full := errors.New("no memory")
	rows := answering(rowsOf(t, 3))
	poor, rich := rows.request("p", narrow("s")), rows.request("p", narrow("s"))
	var refusals atomic.Int64
	waiting.Add(4)
	poor.Reserve = func(context.Context) (func(), error) {
		waiting.Wait() // until all wait for this flight
		refusals.Add(1)
		return nil, full
	}
	waiting.Done() // the second replica asks for no lease yet
	_, errs := concurrently(t, 4, &waiting, poor, replicas[0])
	for _, err := range errs {
		if !errors.Is(err, full) {
			t.Errorf("got %v", err)
		}
	}
	rows.want(t, 0)
	if n := refusals.Load(); n != 1 {
		t.Errorf("%d fills were tried", n)
	}
	replicas[0].settle()
	released := false
	rich.Reserve = func(context.Context) (func(), error) { return func() { released = true }, nil }
	waiting.Add(1) // for its lease
	replicas[1].do(t, rich, Filled)
	replicas[1].settle()
	if rows.want(t, 1); !released {
		t.Error("the memory is not given back")
	}
}

// A lease that no replica has taken does not stop fills: it never expires, or has another type.
func TestForeignLeaseDelaysAFillOnce(t *testing.T) {
	client := redistest.Single(t).Client()
	c, upstream := newReplica(t, client, newClock()), answering(rowsOf(t, 3))
	c.redis.limits.held = 50 * time.Millisecond
	for name, plant := range map[string]func(key string) error{
		"without end":  func(key string) error { return client.Set(t.Context(), key, "x", 0).Err() },
		"too long":     func(key string) error { return client.Set(t.Context(), key, "x", time.Hour).Err() },
		"another type": func(key string) error { return client.LPush(t.Context(), key, "x").Err() },
	} {
		q := upstream.request(name, narrow("a"))
		l := newLookup(&q)
		if err := plant(l.lease); err != nil {
			t.Fatal(err)
		}
		c.do(t, q, Filled)
		c.settle()
		newReplica(t, client, newClock()).do(t, q, HitShared)
	}
}

// A stranger publishes events: garbage, the failure of a fill that did not fail, and its end before the actual end. The waiting replica
// asks again, and gets the rows.
func TestForeignEventsChangeNoOutcome(t *testing.T) {
	clock, connect := newClock(), redistest.Single(t).Client
	client := connect()
	one, other := newReplica(t, client, clock), newReplica(t, connect(), clock)
	awaitSubscriptions(t, []*replica{one, other})
	filling, finish := make(chan struct{}), make(chan struct{})
	upstream := &backend{fill: func(context.Context, int64) (*translate.Rows, error) {
		close(filling)
		<-finish
		return rowsOf(t, 3), nil
	}}
	q := upstream.request("p", narrow("a"))
	own := newLookup(&q).own
	var both sync.WaitGroup
	both.Go(func() { one.do(t, q, Filled) })
	<-filling
	waiting := make(chan struct{})
	both.Go(func() {
		ctx := arriving{t.Context(), new(sync.Once), func() { close(waiting) }}
		if found, err := other.Do(ctx, q); err != nil || found.Entry.Rows().Len() != 3 {
			t.Errorf("the other replica finds %+v, %v", found, err)
		}
	})
	<-waiting
	forged := fillEvent{kind: fillFailed, failure: []byte(errUpstream)}
	ofAnother := fillEvent{kind: fillFailed, failure: one.redis.sealer.AppendSeal(nil, []byte(errUpstream), []byte("another key"))}
	for _, message := range []any{"", "x", "f\xff\xff", bytes.Repeat([]byte{0xff}, 1<<20), forged.encode(own.redisKey), ofAnother.encode(own.redisKey),
		fillEvent{kind: fillDone}.encode(own.redisKey), fillEvent{kind: fillReleased}.encode(own.redisKey), fillEvent{kind: fillDone}.encode("no key")} {
		// Once the replica expects no event, it is asking again.
		awaitExpecting(t, other, own.redisKey)
		if err := client.Publish(t.Context(), fillChannel, message).Err(); err != nil {
			t.Error(err)
		}
	}
	close(finish)
	both.Wait()
	upstream.want(t, 1)
}

// awaitExpecting returns when a replica waits for the event of a key.
func awaitExpecting(t *testing.T, r *replica, redisKey string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; runtime.Gosched() {
		r.redis.events.mu.Lock()
		expecting := r.redis.events.waiting[redisKey] != nil
		r.redis.events.mu.Unlock()
		if expecting {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the replica does not wait for an event")
		}
	}
}

// A fill that ends after a newer one leaves the newer rows in Redis, whether they pass through a script or are too long for it.
func shareNewestRows(t *testing.T, client func() redisconn.Client) {
	for name, longest := range map[string]int{"short": 3, "long": translate.WideSample - 1} {
		t.Run(name, func(t *testing.T) {
			clock, property := newClock(), t.Name()+newToken()
			first, second, third := newReplica(t, client(), clock), newReplica(t, client(), clock), newReplica(t, client(), clock)
			older, newer := rowsOf(t, longest), rowsOf(t, longest-1)
			slow := &backend{fill: func(context.Context, int64) (*translate.Rows, error) {
				clock.advance(10 * time.Second)
				refresh := answering(newer).request(property, wide("a"))
				refresh.Bypass = true
				second.do(t, refresh, Filled)
				second.settle()
				clock.advance(10 * time.Second)
				return older, nil
			}}
			first.do(t, slow.request(property, wide("a")), Filled)
			first.settle()
			wantShared := func(r *replica, rows *translate.Rows) {
				t.Helper()
				if found := r.do(t, failing(errUpstream).request(property, wide("a")), HitShared); found.Entry.Rows().Len() != rows.Len() {
					t.Errorf("Redis has %d rows, want the %d of the fill that began last", found.Entry.Rows().Len(), rows.Len())
				}
			}
			wantShared(third, newer)

			clock.advance(time.Minute)
			refresh := answering(older).request(property, wide("a"))
			refresh.Bypass = true
			first.do(t, refresh, Filled)
			first.settle()
			wantShared(newReplica(t, client(), clock), older)
		})
	}
}

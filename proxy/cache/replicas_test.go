package cache

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/policy/redistest"
	"sara/translate"
)

// asksForLease tells when a replica has asked for its first lease.
type asksForLease struct {
	once sync.Once
	told func()

	renewed func() // nil, or told of each renewal
}

func (h *asksForLease) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h *asksForLease) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "eval" && h.renewed != nil {
			h.renewed()
		}
		return err
	}
}
func (h *asksForLease) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return slices.Contains(cmd.Args(), any("nx")) }) {
			h.once.Do(h.told)
		}
		return err
	}
}

// twoReplicas returns two that have asked for a lease when begun is done.
func twoReplicas(t *testing.T, client func() redis.UniversalClient, begun *sync.WaitGroup) (*clock, []*replica) {
	t.Helper()
	clock := newClock()
	var replicas []*replica
	for range 2 {
		begun.Add(1)
		own := client()
		own.AddHook(&asksForLease{told: begun.Done})
		replicas = append(replicas, newReplica(t, own, clock))
	}
	return clock, replicas
}

func TestReplicasFillOnceTogether(t *testing.T) {
	onRedis(t, func(t *testing.T, client func() redis.UniversalClient) {
		for range 10 {
			var begun sync.WaitGroup
			_, replicas := twoReplicas(t, client, &begun)
			upstream := &backend{fill: func(context.Context, int64) (*translate.Rows, error) {
				begun.Wait()
				return rowsOf(t, 3), nil
			}}
			// The properties of the rounds have nothing to do with each other.
			all, errs := crowd(t, 40, &begun, upstream.question(t.Name()+newToken(), narrow("a")), replicas...)
			hows := map[How]int{}
			for i, found := range all {
				if errs[i] != nil || found.Entry.id != all[0].Entry.id || found.Entry.Rows().Len() != 3 {
					t.Errorf("found %+v, %v", found, errs[i])
				}
				hows[found.How]++
			}
			if hows[Filled] != 1 || hows[Filled]+hows[Awaited] != 40 {
				t.Errorf("found %v, want one that filled and the others that waited", hows)
			}
			upstream.want(t, 1)
			awaited := 0.0
			for _, r := range replicas {
				awaited += r.metric(t, "awaited_total", "replica")
				r.Close()
			}
			if awaited != 1 {
				t.Errorf("%v flights waited for another replica", awaited)
			}
		}
	})
}

func TestReplicasFailOnceTogether(t *testing.T) {
	onRedis(t, func(t *testing.T, client func() redis.UniversalClient) {
		var begun sync.WaitGroup
		_, replicas := twoReplicas(t, client, &begun)
		awaitSubscriptions(t, replicas)
		upstream := &backend{fill: func(context.Context, int64) (*translate.Rows, error) {
			begun.Wait()
			return nil, errUpstream
		}}
		_, errs := crowd(t, 40, &begun, upstream.question("p", narrow("a")), replicas...)
		for _, err := range errs {
			if !errors.Is(err, errUpstream) {
				t.Errorf("Do: %v", err)
			}
		}
		upstream.want(t, 1)
	})
}

// awaitSubscriptions returns when a notice of the first replica reaches every replica. It sends them without a pause, each
// of which is a round trip.
func awaitSubscriptions(t *testing.T, replicas []*replica) {
	t.Helper()
	for _, r := range replicas {
		told, forget := r.redis.notices.register("test")
		for arrived := false; !arrived; {
			message := notice{kind: noticeReleased}.encode("test")
			if err := replicas[0].redis.client.Publish(t.Context(), noticeChannel, message).Err(); err != nil {
				t.Fatal(err)
			}
			select {
			case <-told:
				arrived = true
			case <-t.Context().Done():
				t.Fatal("no notice arrived")
			default:
			}
		}
		forget()
	}
}

func TestAPersonalErrorLeavesTheOthersOfAllReplicasToTry(t *testing.T) {
	onRedis(t, func(t *testing.T, client func() redis.UniversalClient) {
		var begun sync.WaitGroup
		_, replicas := twoReplicas(t, client, &begun)
		upstream := &backend{fill: func(_ context.Context, n int64) (*translate.Rows, error) {
			begun.Wait()
			if n == 1 {
				return nil, errBudget
			}
			return rowsOf(t, 3), nil
		}}
		_, errs := crowd(t, 40, &begun, upstream.question("p", narrow("a")), replicas...)
		failed := 0
		for _, err := range errs {
			if err != nil {
				failed++
			}
		}
		if failed != 1 {
			t.Errorf("%d failed, want only the one who ran into it: %v", failed, errors.Join(errs...))
		}
		upstream.want(t, 2)
	})
}

func TestACopyOfAnotherReplicaIsFoundAndKept(t *testing.T) {
	onRedis(t, func(t *testing.T, client func() redis.UniversalClient) {
		clock, upstream := newClock(), sourceOf(rowsOf(t, 3))
		one, other := newReplica(t, client(), clock), newReplica(t, client(), clock)
		q := upstream.question("p", narrow("a"))
		q.Asked = 42
		filled := one.do(t, q, Filled).Entry
		one.landed()
		clock.advance(life - 1)
		if !other.Has(t.Context(), upstream.question("p", wide("a"))) {
			t.Error("the wide sample is not answered by the narrow one, which has all rows")
		}
		found := other.do(t, q, Memory).Entry
		if found.Asked() != 42 || !found.Filled().Equal(filled.Filled()) || found.id != filled.id || found.Rows().Len() != 3 {
			t.Errorf("found %+v, filled %+v", found, filled)
		}
		third := newReplica(t, client(), clock)
		third.do(t, q, Shared)
		clock.advance(1)
		if found, err := third.Do(t.Context(), q); err != nil || !found.Stale || found.How != Memory {
			t.Errorf("found %+v, %v, want a copy as old as it is", found, err)
		}
		third.landed()
		upstream.want(t, 2)
	})
}

func TestAReplicaThatDiesCostsItsLeaseAtMost(t *testing.T) {
	server := redistest.Single(t)
	c := newReplica(t, patient(t, server), newClock())
	c.redis.limits.held = 100 * time.Millisecond
	upstream := sourceOf(rowsOf(t, 3))
	q := upstream.question("p", narrow("a"))
	if err := server.Client().Set(t.Context(), leaseKey(newInquiry(&q)), "dead", c.redis.limits.held).Err(); err != nil {
		t.Fatal(err)
	}
	c.do(t, q, Filled)
	upstream.want(t, 1)
}

func TestALeaseIsRenewedAsLongAsTheFillRuns(t *testing.T) {
	var begun sync.WaitGroup
	server := redistest.Single(t)
	_, replicas := twoReplicas(t, func() redis.UniversalClient { return patient(t, server) }, &begun)
	renewals := make(chan struct{})
	for _, r := range replicas {
		r.redis.limits.held, r.redis.limits.renewal = 400*time.Millisecond, 20*time.Millisecond
		r.redis.client.AddHook(&asksForLease{told: func() {}, renewed: func() { renewals <- struct{}{} }})
	}
	upstream := &backend{fill: func(context.Context, int64) (*translate.Rows, error) {
		begun.Wait()
		for range 30 { // which take longer than a lease lasts
			<-renewals
		}
		go func() { // what comes until the fill has ended
			for range renewals {
			}
		}()
		return rowsOf(t, 3), nil
	}}
	_, errs := crowd(t, 2, &begun, upstream.question("p", narrow("a")), replicas...)
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	upstream.want(t, 1)
	for _, r := range replicas {
		r.Close()
	}
	close(renewals)
}

func TestAProcessThatEndsGivesItsLeaseBack(t *testing.T) {
	server := redistest.Single(t)
	clock := newClock()
	dying, living := newReplica(t, patient(t, server), clock), newReplica(t, patient(t, server), clock)
	living.redis.limits.held = time.Hour // so that waiting it out would take too long
	dying.redis.limits.held = time.Hour
	awaitSubscriptions(t, []*replica{living})
	var begun sync.WaitGroup
	begun.Add(1)
	cut := &backend{fill: func(ctx context.Context, _ int64) (*translate.Rows, error) {
		begun.Done()
		<-ctx.Done()
		return nil, sharedError("cut off")
	}}
	upstream := sourceOf(rowsOf(t, 3))
	var ended sync.WaitGroup
	ended.Go(func() {
		if _, err := dying.Do(t.Context(), cut.question("p", narrow("a"))); err == nil {
			t.Error("a fill that was cut off has rows")
		}
	})
	begun.Wait()
	ended.Go(func() { living.do(t, upstream.question("p", narrow("a")), Filled) })
	dying.Close()
	ended.Wait()
	living.Close()
	wantNoGoroutine(t)
}

func TestWhatIsNotUnderstoodIsAMiss(t *testing.T) {
	server := redistest.Single(t)
	client, clock := server.Client(), newClock()
	upstream := sourceOf(rowsOf(t, 3))
	q := upstream.question("p", narrow("a"))
	key := newInquiry(&q).own.shared
	newReplica(t, patient(t, server), clock).do(t, q, Filled)
	for _, test := range []struct {
		name, reason string
		change       func(value []byte) any
	}{
		{"truncated", "torn", func(v []byte) any { return v[:len(v)-1] }},
		{"cut to its magic", "torn", func(v []byte) any { return v[:4] }},
		{"flipped", "torn", func(v []byte) any { v[40]++; return v }},
		{"of another version", "version", func(v []byte) any { v[4]++; return v }},
		{"of another program", "torn", func([]byte) any { return "hello" }},
		{"of another key", "foreign", func([]byte) any { return encoded(t, "other", clock.Now()) }},
		{"from the future", "foreign", func([]byte) any { return encoded(t, newInquiry(&q).own.key, clock.Now().Add(6*time.Minute)) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			value, err := encodedBy(t, newInquiry(&q).own.key, clock.Now())
			if err == nil {
				err = client.Set(t.Context(), key, test.change(value), 0).Err()
			}
			if err != nil {
				t.Fatal(err)
			}
			c := newReplica(t, patient(t, server), clock)
			if c.Has(t.Context(), q) {
				t.Error("it has what it cannot understand")
			}
			if n := c.metric(t, "discarded_total", test.reason); n != 1 {
				t.Errorf("counted %v values", n)
			}
			c.do(t, q, Filled)
			c.landed()
			newReplica(t, patient(t, server), clock).do(t, q, Shared)
		})
	}
	t.Run("of another type", func(t *testing.T) {
		client.Del(t.Context(), key)
		client.LPush(t.Context(), key, "hello")
		c := newReplica(t, patient(t, server), clock)
		c.do(t, q, Filled)
		c.landed()
		newReplica(t, patient(t, server), clock).do(t, q, Shared)
		if n := c.metric(t, "redis_errors_total", ""); n != 0 {
			t.Errorf("counted %v errors of Redis", n)
		}
	})
}

func TestKeysAreOfTheirProperty(t *testing.T) {
	q := sourceOf(nil).question("sc-1", narrow("a"))
	i := newInquiry(&q)
	if !strings.HasPrefix(i.own.shared, "sara:c:{sc-1}:") || len(i.own.shared) != len("sara:c:{sc-1}:")+16 {
		t.Errorf("the key is %q", i.own.shared)
	}
	if i.others[0].shared == i.own.shared {
		t.Error("the samples share a key")
	}
}

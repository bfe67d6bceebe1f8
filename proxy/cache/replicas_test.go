package cache

import (
	"context"
	"errors"
	"slices"
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

func TestReplicas(t *testing.T) {
	for _, kind := range []struct {
		name  string
		start func(t *testing.T) (client func() redis.UniversalClient)
	}{{"on one Redis", onSingle}, {"on a cluster", onCluster}} {
		t.Run(kind.name, func(t *testing.T) {
			client := kind.start(t)
			for name, test := range map[string]func(*testing.T, func() redis.UniversalClient){
				"fill once together": fillOnceTogether, "fail once together": failOnceTogether,
				"try one by one after personal errors": tryAfterAPersonalError,
				"find each other's copies":             findEachOthersCopies,
			} {
				t.Run(name, func(t *testing.T) { test(t, client) })
			}
		})
	}
}

func fillOnceTogether(t *testing.T, client func() redis.UniversalClient) {
	for range 10 {
		var begun sync.WaitGroup
		begun.Add(40)
		_, replicas := twoReplicas(t, client, &begun)
		upstream := &backend{fill: func(context.Context, int64) (*translate.Rows, error) {
			begun.Wait()
			return rowsOf(t, 3), nil
		}}
		// The properties of the rounds have nothing to do with each other.
		all, errs := crowd(t, 40, &begun, upstream.question(t.Name()+newToken(), narrow("a")), replicas...)
		hows := map[Status]int{}
		for i, found := range all {
			if errs[i] != nil || found.Entry.id != all[0].Entry.id || found.Entry.Rows().Len() != 3 {
				t.Errorf("found %+v, %v", found, errs[i])
			}
			hows[found.Status]++
		}
		if hows[Filled] != 1 || hows[Filled]+hows[Coalesced] != 40 {
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
}

func failOnceTogether(t *testing.T, client func() redis.UniversalClient) {
	var begun sync.WaitGroup
	begun.Add(40)
	_, replicas := twoReplicas(t, client, &begun)
	awaitSubscriptions(t, replicas)
	upstream := &backend{fill: func(context.Context, int64) (*translate.Rows, error) {
		begun.Wait()
		return nil, errUpstream
	}}
	_, errs := crowd(t, 40, &begun, upstream.question(t.Name(), narrow("a")), replicas...)
	for _, err := range errs {
		if !errors.Is(err, errUpstream) {
			t.Errorf("Do: %v", err)
		}
	}
	upstream.want(t, 1)
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

func tryAfterAPersonalError(t *testing.T, client func() redis.UniversalClient) {
	var begun sync.WaitGroup
	begun.Add(40)
	_, replicas := twoReplicas(t, client, &begun)
	upstream := &backend{fill: func(_ context.Context, n int64) (*translate.Rows, error) {
		begun.Wait()
		if n == 1 {
			return nil, errBudget
		}
		return rowsOf(t, 3), nil
	}}
	_, errs := crowd(t, 40, &begun, upstream.question(t.Name(), narrow("a")), replicas...)
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
}

func findEachOthersCopies(t *testing.T, client func() redis.UniversalClient) {
	clock, upstream := newClock(), sourceOf(rowsOf(t, 3))
	one, other := newReplica(t, client(), clock), newReplica(t, client(), clock)
	q := upstream.question(t.Name(), narrow("a"))
	q.RequestHash = 42
	filled := one.do(t, q, Filled).Entry
	one.landed()
	clock.advance(life - 1)
	if !other.Has(t.Context(), upstream.question(t.Name(), wide("a"))) {
		t.Error("the wide sample is not answered by the narrow one, which has all rows")
	}
	found := other.do(t, q, HitMemory).Entry
	if found.RequestHash() != 42 || !found.Filled().Equal(filled.Filled()) || found.id != filled.id || found.Rows().Len() != 3 {
		t.Errorf("found %+v, filled %+v", found, filled)
	}
	third := newReplica(t, client(), clock)
	third.do(t, q, HitShared)
	clock.advance(1)
	if found, err := third.Do(t.Context(), q); err != nil || !found.Stale || found.Status != HitMemory {
		t.Errorf("found %+v, %v, want a copy as old as it is", found, err)
	}
	third.landed()
	upstream.want(t, 2)
}

func TestAReplicaThatDiesCostsItsLeaseAtMost(t *testing.T) {
	server := redistest.Single(t)
	c := newReplica(t, patient(t, server), newClock())
	c.redis.limits.held = 100 * time.Millisecond
	upstream := sourceOf(rowsOf(t, 3))
	q := upstream.question("p", narrow("a"))
	if err := server.Client().Set(t.Context(), leaseKey(newLookup(&q)), "dead", c.redis.limits.held).Err(); err != nil {
		t.Fatal(err)
	}
	c.do(t, q, Filled)
	upstream.want(t, 1)
}

func TestALeaseIsRenewedAsLongAsTheFillRuns(t *testing.T) {
	var begun sync.WaitGroup
	begun.Add(2)
	server := redistest.Single(t)
	_, replicas := twoReplicas(t, func() redis.UniversalClient { return patient(t, server) }, &begun)
	renewals := make(chan struct{})
	for _, r := range replicas {
		r.redis.limits.held, r.redis.limits.renewal = 400*time.Millisecond, 20*time.Millisecond
		r.redis.client.AddHook(&asksForLease{told: func() {}, renewed: func() { renewals <- struct{}{} }})
	}
	upstream := &backend{fill: func(ctx context.Context, _ int64) (*translate.Rows, error) {
		begun.Wait()
		for range 30 { // which take longer than a lease lasts
			select {
			case <-renewals:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
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

package cache

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sara/policy/panics"
	"sara/policy/redisconn"
	"sara/policy/redistest"
	"sara/translate"
)

func TestConcurrentRequestsAreCoalesced(t *testing.T) {
	for _, bypass := range []bool{false, true} {
		c := newReplica(t, nil, newClock())
		var waiting sync.WaitGroup
		waiting.Add(40)
		upstream := &backend{fill: func(context.Context, int64) (*translate.Rows, error) {
			waiting.Wait()
			return rowsOf(t, 3), nil
		}}
		q := upstream.request("p", narrow("a"))
		q.Bypass = bypass
		all, errs := concurrently(t, 40, &waiting, q, c)
		statuses := map[Status]int{}
		for i, found := range all {
			if errs[i] != nil || found.Entry != all[0].Entry {
				t.Errorf("found %+v, %v", found, errs[i])
			}
			statuses[found.Status]++
		}
		if statuses[Filled] != 1 || statuses[Coalesced] != 39 {
			t.Errorf("found %v, want one fill and the others coalesced", statuses)
		}
		upstream.want(t, 1)
	}
}

func TestWaitersGetSharedErrorsOnly(t *testing.T) {
	for _, test := range []struct {
		name         string
		err          error
		failed, fill int64
	}{{"shared", errUpstream, 40, 1}, {"unshared", errBudget, 1, 2}} {
		t.Run(test.name, func(t *testing.T) {
			c := newReplica(t, nil, newClock())
			var waiting sync.WaitGroup
			waiting.Add(40)
			upstream := &backend{fill: func(_ context.Context, n int64) (*translate.Rows, error) {
				waiting.Wait()
				if n == 1 {
					return nil, test.err
				}
				return rowsOf(t, 3), nil
			}}
			_, errs := concurrently(t, 40, &waiting, upstream.request("p", narrow("a")), c)
			failed := int64(0)
			for _, err := range errs {
				if err == nil {
					continue
				}
				failed++
				if !errors.Is(err, test.err) {
					t.Errorf("failed with %v", err)
				}
			}
			if failed != test.failed {
				t.Errorf("%d failed, want %d", failed, test.failed)
			}
			upstream.want(t, test.fill)
		})
	}
}

func TestFillOutlivesItsLeader(t *testing.T) {
	c := newReplica(t, nil, newClock())
	leader, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	waiting.Add(20)
	upstream := &backend{fill: func(ctx context.Context, _ int64) (*translate.Rows, error) {
		cancel()
		waiting.Wait()
		return rowsOf(t, 3), ctx.Err()
	}}
	q := upstream.request("p", narrow("a"))
	if found, err := c.Do(leader, q); !errors.Is(err, context.Canceled) || found.Entry != nil {
		t.Errorf("the leader found %+v, %v", found, err)
	}
	_, errs := concurrently(t, 20, &waiting, q, c)
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	upstream.want(t, 1)
}

func TestCanceledCallerStartsNoFill(t *testing.T) {
	c := newReplica(t, nil, newClock())
	upstream := answering(rowsOf(t, 3))
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Do(canceled, upstream.request("p", narrow("a"))); !errors.Is(err, context.Canceled) {
		t.Errorf("Do: %v", err)
	}
	upstream.want(t, 0)
}

func TestFillTimesOut(t *testing.T) {
	c := newReplica(t, nil, newClock())
	c.fillTimeout = time.Nanosecond
	upstream := &backend{fill: func(ctx context.Context, _ int64) (*translate.Rows, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	if _, err := c.Do(t.Context(), upstream.request("p", narrow("a"))); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Do: %v", err)
	}
}

func TestCloseCancelsFillsAndLeavesNoGoroutine(t *testing.T) {
	c := newReplica(t, nil, newClock())
	var waiting sync.WaitGroup
	waiting.Add(10)
	upstream := &backend{fill: func(ctx context.Context, _ int64) (*translate.Rows, error) {
		waiting.Wait()
		go c.Close()
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	q := upstream.request("p", narrow("a"))
	if _, errs := concurrently(t, 10, &waiting, q, c); errors.Join(errs...) == nil || errs[3] == nil {
		t.Errorf("calls succeeded after Close: %v", errs)
	}
	c.Close()
	checkNoGoroutine(t)
	if _, err := c.Do(t.Context(), q); !errors.Is(err, errClosed) {
		t.Errorf("Do after Close: %v", err)
	}
	upstream.want(t, 1)
}

// checkNoGoroutine fails if a goroutine of a cache does not end. One that has done its work may still be about to return.
func checkNoGoroutine(t *testing.T) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	frames := []string{".(*Cache).run", ".(*sharedStore).", ".subscribe."}
	for deadline := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		all := string(stacks[:runtime.Stack(stacks, true)])
		if !slices.ContainsFunc(frames, func(frame string) bool { return strings.Contains(all, frame) }) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a goroutine of the cache still runs:\n%s", all)
		}
	}
}

// A fill that has waited for its memory reads again what came along with the look into Redis: after a second, or after the patience of the
// cache, if that is longer.
func TestFillReadsAgainWhatCameAlongLongAgo(t *testing.T) {
	t.Parallel()
	client := redistest.Single(t).Client()
	hasty, patient := newReplicaWithDefaults(t, client, newClock()), newReplica(t, client, newClock())
	for _, test := range []struct {
		replica *replica
		ago     time.Duration
		want    bool
	}{{hasty, time.Second, false}, {patient, time.Second, true}, {patient, 10 * time.Second, false}} {
		request := answering(rowsOf(t, 3)).request("p", narrow("a"))
		request.Along = &Along{Read: true}
		l := newLookup(&request)
		l.began = l.began.Add(-test.ago)
		if o := test.replica.callUpstream(t.Context(), l); o.err != nil || request.Along.Read != test.want {
			t.Errorf("after %v: read %v, %v; want %v", test.ago, request.Along.Read, o.err, test.want)
		}
	}
}

// A bug in a fill is the error of those who wait for it, and frees what the fill has reserved. The process lives, and others fill.
func TestBugInAFillIsAnError(t *testing.T) {
	server, clock := redistest.Single(t), newClock()
	for name, client := range map[string]redisconn.Client{"alone": nil, "with Redis": server.Client()} {
		t.Run(name, func(t *testing.T) {
			c := newReplica(t, client, clock)
			var log bytes.Buffer
			c.log = slog.New(slog.NewTextHandler(&log, nil))
			broken := answering(nil) // without rows, and without an error
			q := broken.request("p", narrow("a"))
			reserved := 0
			q.Reserve = func(context.Context) (func(), error) { reserved++; return func() { reserved-- }, nil }
			if found, err := c.Do(t.Context(), q); found.Entry != nil || !errors.As(err, new(*panics.Error)) {
				t.Errorf("found %+v, %v", found, err)
			}
			c.settle()
			if reserved != 0 || !strings.Contains(log.String(), "BUG") {
				t.Errorf("%d reservations are left, and the log is %q", reserved, &log)
			}
			c.do(t, answering(rowsOf(t, 3)).request("p", narrow("a")), Filled)
		})
	}
}

// The same is so for a bug of the caller, and the lease is not left to expire.
func TestBugInTheCallbackOfAFillIsAnError(t *testing.T) {
	server, clock := redistest.Single(t), newClock()
	client := server.Client()
	c := newReplica(t, client, clock)
	broken := &backend{fill: func(context.Context, int64) (*translate.Rows, error) { panic("a bug") }}
	q := broken.request("p", narrow("a"))
	reserved := 0
	q.Reserve = func(context.Context) (func(), error) { reserved++; return func() { reserved-- }, nil }
	if found, err := c.Do(t.Context(), q); found.Entry != nil || !errors.As(err, new(*panics.Error)) {
		t.Errorf("found %+v, %v", found, err)
	}
	c.settle()
	if leases := client.Exists(t.Context(), newLookup(&q).lease).Val(); reserved != 0 || leases != 0 {
		t.Errorf("%d reservations and %d leases are left", reserved, leases)
	}
	c.do(t, answering(rowsOf(t, 3)).request("p", narrow("a")), Filled)
}

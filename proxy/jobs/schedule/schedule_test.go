package schedule

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sara/proxy/upstream"
)

// leases is the table of leases of a store.
type leases struct {
	mu      sync.Mutex
	holders map[string]string
	until   map[string]time.Time
	down    error         // nil: the store works
	slow    time.Duration // how long the answer to AcquireLease takes
}

func newLeases() *leases {
	return &leases{holders: make(map[string]string), until: make(map[string]time.Time)}
}

func (l *leases) AcquireLease(_ context.Context, name, holder string, ttl time.Duration) (bool, error) {
	defer time.Sleep(l.slow)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down != nil || l.holders[name] != holder && time.Now().Before(l.until[name]) {
		return false, l.down
	}
	l.holders[name], l.until[name] = holder, time.Now().Add(ttl)
	return true, nil
}

func (l *leases) RenewLease(_ context.Context, name, holder string, ttl time.Duration) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down != nil || l.holders[name] != holder || !time.Now().Before(l.until[name]) {
		return false, l.down
	}
	l.until[name] = time.Now().Add(ttl)
	return true, nil
}

func (l *leases) ReleaseLease(_ context.Context, name, holder string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down == nil && l.holders[name] == holder {
		delete(l.holders, name)
		delete(l.until, name)
	}
	return l.down
}

// steal gives a lease to another holder; with an error it also makes the store fail.
func (l *leases) steal(name string, down error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holders[name], l.until[name], l.down = "another", time.Now().Add(LeaseTTL), down
}

func TestLeaseIsHeldForAsLongAsTheWorkRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeases()
		try := func(name, holder string) (ran, acquired bool) {
			acquired, err := WithLease(t.Context(), l, name, holder, func(context.Context) error { ran = true; return nil })
			if err != nil {
				t.Errorf("%s acquires %s: %v", holder, name, err)
			}
			return ran, acquired
		}
		acquired, err := WithLease(t.Context(), l, "shop", "a", func(ctx context.Context) error {
			for range 60 {
				time.Sleep(time.Minute)
				if ran, acquired := try("shop", "b"); ran || acquired {
					t.Error("two holders have one lease")
				}
			}
			if ran, acquired := try("blog", "b"); !ran || !acquired {
				t.Error("another lease is not free")
			}
			for _, down := range []error{errWork, nil} { // one renewal fails
				l.mu.Lock()
				l.down = down
				l.mu.Unlock()
				time.Sleep(renewEvery)
			}
			return errors.Join(context.Cause(ctx), errWork)
		})
		if !acquired || !errors.Is(err, errWork) || errors.Is(err, ErrLeaseLost) {
			t.Errorf("acquired %t, %v", acquired, err)
		}
		if ran, acquired := try("shop", "b"); !ran || !acquired {
			t.Error("the lease was not released")
		}
	})
}

var errWork = errors.New("the work is not done")

func TestLostLeaseCancelsTheWork(t *testing.T) {
	for name, down := range map[string]error{"another holder": nil, "store outage": errors.New("the store is down")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLeases()
				began := time.Now()
				_, err := WithLease(t.Context(), l, "shop", "a", func(ctx context.Context) error {
					l.steal("shop", down)
					return Sleep(ctx, time.Hour)
				})
				if took := time.Since(began); !errors.Is(err, ErrLeaseLost) || down != nil && !errors.Is(err, down) || took >= LeaseTTL {
					t.Errorf("ended after %s with %v", took, err)
				}
			})
		})
	}
}

// A lease lasts from when the store has granted it, not from when its answer comes.
func TestWorkEndsBeforeALeaseThatWasAcquiredSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeases()
		l.slow = LeaseTTL / 2
		began := time.Now()
		_, err := WithLease(t.Context(), l, "shop", "a", func(ctx context.Context) error {
			l.steal("shop", errors.New("the store is down"))
			return Sleep(ctx, time.Hour)
		})
		if took := time.Since(began); !errors.Is(err, ErrLeaseLost) || took >= LeaseTTL {
			t.Errorf("ended after %s with %v", took, err)
		}
	})
}

func TestYieldToTrafficEndsWhenIdleAtTheLimitAndWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		yield := func(ctx context.Context, busyFor time.Duration) (time.Duration, error) {
			began := time.Now()
			err := yieldToTraffic(ctx, func() bool { return time.Since(began) < busyFor }, time.Minute)
			return time.Since(began), err
		}
		for busyFor, want := range map[time.Duration]time.Duration{0: 0, 10 * time.Second: 10 * time.Second, time.Hour: time.Minute} {
			if waited, err := yield(t.Context(), busyFor); waited != want || err != nil {
				t.Errorf("busy for %s: waited %s, %v", busyFor, waited, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if waited, err := yield(ctx, time.Hour); waited != 20*time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("interrupted after %s with %v", waited, err)
		}
	})
}

// jobTest has properties that are due until their work is done.
type jobTest struct {
	mu    sync.Mutex
	left  map[string]error // the outcome of a property's work
	tries map[string]int
}

// tried returns how often each property was worked on.
func (j *jobTest) tried() map[string]int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.tries)
}

type outcome struct {
	property string
	err      error
}

func (j *jobTest) job(l Leases, holder string) *Job[string, outcome] {
	return &Job[string, outcome]{
		Name: "job", Leases: l, Holder: holder, Now: time.Now,
		Properties: func(context.Context) ([]string, error) {
			j.mu.Lock()
			defer j.mu.Unlock()
			return slices.Sorted(maps.Keys(j.left)), nil
		},
		Status: func(property string) Status { return Status{ID: property, Enabled: true} },
		Covers: func(_, _ time.Time) bool { return false },
		Work: func(ctx context.Context, due []string) (outcomes []outcome, err error) {
			for _, property := range due {
				if err := Sleep(ctx, time.Minute); err != nil {
					return outcomes, err
				}
				j.mu.Lock()
				j.tries[property]++
				outcomes = append(outcomes, outcome{property, j.left[property]})
				if j.left[property] == nil {
					delete(j.left, property)
				}
				j.mu.Unlock()
			}
			return outcomes, nil
		},
		Outcome: func(o outcome) (string, error) { return o.property, o.err },
		Report:  func(context.Context, []outcome, error) {},
	}
}

func TestJobRunsOnOneReplicaAndBacksOffFailedProperties(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, ctx := newLeases(), t.Context()
		ctx, stop := context.WithCancel(ctx)
		fail := func(kind upstream.Kind) error { return fmt.Errorf("call: %w", &upstream.Error{Kind: kind}) }
		test := &jobTest{tries: make(map[string]int), left: map[string]error{
			"fine": nil, "well": nil, "broken": errWork, "down": fail(upstream.Unavailable), "slow": fail(upstream.Interrupted),
			"quota": fail(upstream.Quota), "cooldown": NewCooldownError(time.Now().Add(time.Hour), time.Now()),
			"forbidden": fail(upstream.Forbidden), "revoked": fail(upstream.Revoked), "misconfigured": fail(upstream.Misconfigured),
			"rejected": fail(upstream.Rejected),
		}}
		var running sync.WaitGroup
		running.Go(func() { test.job(l, "a").Run(ctx) })
		time.Sleep(30 * time.Second) // the second replica starts while the first one works
		running.Go(func() { test.job(l, "b").Run(ctx) })
		time.Sleep(11 * time.Minute)
		for property, n := range test.tried() {
			if n != 1 {
				t.Errorf("%s: %d tries in the first round", property, n)
			}
		}
		time.Sleep(24*time.Hour - 11*time.Minute)
		stop()
		running.Wait()
		tries := test.tried()
		most := map[string]int{"fine": 1, "well": 1, "broken": 16, "down": 16, "slow": 16, "quota": 16, "cooldown": 16,
			"forbidden": 6, "revoked": 6, "misconfigured": 6, "rejected": 6}
		for property, most := range most { // backoff is per process: each replica has to fail by itself
			if n := tries[property]; n > most || n < max(1, most/3) {
				t.Errorf("%s: %d tries in a day, want at most %d", property, n, most)
			}
		}
		if len(l.holders) > 0 {
			t.Errorf("leases that were not released: %v", l.holders)
		}
	})
}

// A property that another replica has done does not fail again and again: after its next failure, the pause is the first one.
func TestPausesBeginAnewOnceAnotherReplicaHasDoneTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		test := &jobTest{tries: make(map[string]int), left: map[string]error{"shop": &upstream.Error{Kind: upstream.Unavailable}}}
		job := test.job(newLeases(), "a")
		var done *time.Time
		job.Status = func(property string) Status { return Status{ID: property, Enabled: true, DoneAt: done} }
		job.Covers = func(done, now time.Time) bool { return now.Sub(done) < 24*time.Hour }
		backoff := make(map[string]pause)
		fail := func() {
			if results, _, err := job.round(t.Context(), backoff); err != nil || len(results) != 1 {
				t.Errorf("got %v, %v", results, err)
			}
		}
		fail()
		time.Sleep(firstBackoff)
		fail()
		now := time.Now()
		done = &now
		if results, _, err := job.round(t.Context(), backoff); err != nil || len(results) > 0 {
			t.Errorf("got %v, %v", results, err)
		}
		time.Sleep(24 * time.Hour)
		fail()
		time.Sleep(firstBackoff)
		fail()
	})
}

// keptLeases are leases that cannot be released.
type keptLeases struct{ *leases }

func (keptLeases) ReleaseLease(context.Context, string, string) error { return errWork }

// The work is done nevertheless, so that a property that failed for good is not retried at once.
func TestJobBacksOffIfItsLeaseIsNotReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		test := &jobTest{tries: make(map[string]int), left: map[string]error{"forbidden": &upstream.Error{Kind: upstream.Forbidden}}}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { test.job(keptLeases{newLeases()}, "a").Run(ctx) })
		time.Sleep(repairBackoff)
		stop()
		running.Wait()
		if n := test.tries["forbidden"]; n != 1 {
			t.Errorf("%d tries", n)
		}
	})
}

func TestJobTakesOverFromDeadReplicaWhenLeaseExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeases()
		l.steal("job", nil) // by a holder that never renews or releases it
		test := &jobTest{tries: make(map[string]int), left: map[string]error{"fine": nil}}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { test.job(l, "a").Run(ctx) })
		time.Sleep(2*LeaseTTL + time.Minute) // a property takes a minute
		stop()
		running.Wait()
		if test.tries["fine"] != 1 {
			t.Errorf("%d tries", test.tries["fine"])
		}
	})
}

func TestJobOrdersWhatIsDue(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := func(hours int) *time.Time { at := now.Add(time.Duration(hours) * time.Hour); return &at }
	all := []Status{
		{ID: "done", Enabled: true, DoneAt: at(-1)}, {ID: "off"}, {ID: "cooling", Enabled: true, CooldownUntil: at(1)},
		{ID: "backoff", Enabled: true}, {ID: "stale", Enabled: true, DoneAt: at(-30)},
		{ID: "cooled", Enabled: true, CooldownUntil: at(-1)}, {ID: "new", Enabled: true},
		{ID: "cooling until midnight", Enabled: true, CooldownUntil: at(25)},
		{ID: "cooling by a clock that was ahead", Enabled: true, CooldownUntil: at(26)},
		{ID: "done by a clock that was ahead", Enabled: true, DoneAt: at(500)},
	}
	j := Job[Status, outcome]{
		Name: "job", Now: func() time.Time { return now }, Status: func(s Status) Status { return s },
		Properties: func(context.Context) ([]Status, error) { return all, nil },
		Covers:     func(done, now time.Time) bool { return now.Sub(done) < 24*time.Hour },
		Order:      func(a, b Status) int { return strings.Compare(a.ID, b.ID) },
	}
	due, err := j.due(t.Context(), map[string]pause{"backoff": {until: now.Add(time.Minute)}, "new": {until: now}})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, s := range due {
		ids = append(ids, s.ID)
	}
	if want := []string{"cooled", "cooling by a clock that was ahead", "done by a clock that was ahead", "new", "stale"}; !slices.Equal(ids, want) {
		t.Errorf("due: %v, want %v", ids, want)
	}
	j.Properties = func(context.Context) ([]Status, error) { return nil, errWork }
	if _, err := j.due(t.Context(), nil); !errors.Is(err, errWork) {
		t.Errorf("got %v", err)
	}
}

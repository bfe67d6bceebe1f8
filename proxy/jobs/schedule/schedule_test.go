package schedule

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// leases is a store's table of leases.
type leases struct {
	mu      sync.Mutex
	holders map[string]string
	until   map[string]time.Time
	down    error // nil: the store answers
}

func newLeases() *leases {
	return &leases{holders: make(map[string]string), until: make(map[string]time.Time)}
}

func (l *leases) AcquireLease(_ context.Context, name, holder string, ttl time.Duration) (bool, error) {
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

// steal gives a lease to somebody who is not in the test, or with an error takes the store away.
func (l *leases) steal(name string, down error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holders[name], l.until[name], l.down = "somebody else", time.Now().Add(LeaseTime), down
}

func TestALeaseIsHeldAsLongAsTheWorkTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeases()
		try := func(name, holder string) (ran, free bool) {
			free, err := Hold(t.Context(), l, name, holder, func(context.Context) error { ran = true; return nil })
			if err != nil {
				t.Errorf("%s holds %s: %v", holder, name, err)
			}
			return ran, free
		}
		free, err := Hold(t.Context(), l, "shop", "a", func(ctx context.Context) error {
			for range 60 {
				time.Sleep(time.Minute)
				if ran, free := try("shop", "b"); ran || free {
					t.Error("two hold one lease")
				}
			}
			if ran, free := try("blog", "b"); !ran || !free {
				t.Error("another lease is not free")
			}
			return errors.Join(context.Cause(ctx), errWork)
		})
		if !free || !errors.Is(err, errWork) || errors.Is(err, ErrLeaseLost) {
			t.Errorf("held %t, %v", free, err)
		}
		if ran, free := try("shop", "b"); !ran || !free {
			t.Error("the lease is not given back")
		}
	})
}

var errWork = errors.New("the work is not done")

func TestALostLeaseEndsTheWork(t *testing.T) {
	for name, down := range map[string]error{"to another": nil, "to an outage": errors.New("the store is out")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLeases()
				began := time.Now()
				_, err := Hold(t.Context(), l, "shop", "a", func(ctx context.Context) error {
					l.steal("shop", down)
					return Pause(ctx, time.Hour)
				})
				if took := time.Since(began); !errors.Is(err, ErrLeaseLost) || down != nil && !errors.Is(err, down) || took >= LeaseTime {
					t.Errorf("ended after %s with %v", took, err)
				}
			})
		})
	}
}

func TestGivingWayEndsWithTheCustomersTheLimitAndTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		way := func(ctx context.Context, busyFor time.Duration) (time.Duration, error) {
			began = time.Now()
			err := GiveWay(ctx, func() bool { return time.Since(began) < busyFor }, time.Minute)
			return time.Since(began), err
		}
		for busyFor, want := range map[time.Duration]time.Duration{0: 0, 10 * time.Second: 10 * time.Second, time.Hour: time.Minute} {
			if waited, err := way(t.Context(), busyFor); waited != want || err != nil {
				t.Errorf("busy for %s: waited %s, %v", busyFor, waited, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if waited, err := way(ctx, time.Hour); waited != 20*time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("interrupted after %s with %v", waited, err)
		}
	})
}

// A job whose items are due until they are done.
type jobTest struct {
	mu    sync.Mutex
	left  map[string]error // what an item ends with
	tries map[string]int
}

// tried returns how often each item was worked on.
func (j *jobTest) tried() map[string]int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.tries)
}

type outcome struct {
	item string
	err  error
}

func (j *jobTest) job(l Leases, holder string) *Job[string, outcome] {
	return &Job[string, outcome]{
		Leases: l, Lease: "job", Holder: holder, Now: time.Now,
		ID: func(item string) string { return item },
		Due: func(context.Context) ([]string, error) {
			j.mu.Lock()
			defer j.mu.Unlock()
			return slices.Sorted(maps.Keys(j.left)), nil
		},
		Work: func(ctx context.Context, due []string) (outcomes []outcome, err error) {
			for _, item := range due {
				if err := Pause(ctx, time.Minute); err != nil {
					return outcomes, err
				}
				j.mu.Lock()
				j.tries[item]++
				outcomes = append(outcomes, outcome{item, j.left[item]})
				if j.left[item] == nil {
					delete(j.left, item)
				}
				j.mu.Unlock()
			}
			return outcomes, nil
		},
		Ended:  func(o outcome) (string, error) { return o.item, o.err },
		Report: func(context.Context, []outcome, error) {},
	}
}

func TestOfTheReplicasOneWorksAndWhatFailsIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, ctx := newLeases(), t.Context()
		ctx, stop := context.WithCancel(ctx)
		refuse := func(class Class) error { return fmt.Errorf("ask: %w", &Refusal{Class: class, Err: errWork}) }
		test := &jobTest{tries: make(map[string]int), left: map[string]error{
			"fine": nil, "well": nil, "broken": errWork, "out": refuse(Unavailable), "tired": refuse(Quota),
			"closed": refuse(AccessLost), "cut": refuse(ConnectionLost), "wrong": refuse(Rejected),
		}}
		var running sync.WaitGroup
		running.Go(func() { test.job(l, "a").Run(ctx) })
		time.Sleep(30 * time.Second) // the second comes while the first is at work
		running.Go(func() { test.job(l, "b").Run(ctx) })
		time.Sleep(7 * time.Minute)
		for item, n := range test.tried() {
			if n != 1 {
				t.Errorf("%s: %d tries in the first round", item, n)
			}
		}
		time.Sleep(24*time.Hour - 7*time.Minute)
		stop()
		running.Wait()
		tries := test.tried()
		for item, n := range tries { // each replica has to find out for itself
			most := map[string]int{"fine": 1, "well": 1, "broken": 48, "out": 48, "tired": 48, "closed": 6, "cut": 6, "wrong": 6}[item]
			if n > most || most > 1 && n < most/3 {
				t.Errorf("%s: %d tries in a day, want %d at most", item, n, most)
			}
		}
		if len(tries) != 8 {
			t.Errorf("tried %v", tries)
		}
		if len(l.holders) > 0 {
			t.Errorf("leases are not given back: %v", l.holders)
		}
	})
}

// A replica that was killed is not waited for longer than its lease.
func TestTheWorkOfADeadReplicaIsTakenOverSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeases()
		l.steal("job", nil) // by somebody who never comes back for it
		test := &jobTest{tries: make(map[string]int), left: map[string]error{"fine": nil}}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { test.job(l, "a").Run(ctx) })
		time.Sleep(2*LeaseTime + time.Minute) // an item takes a minute
		stop()
		running.Wait()
		if test.tries["fine"] != 1 {
			t.Errorf("%d tries", test.tries["fine"])
		}
	})
}

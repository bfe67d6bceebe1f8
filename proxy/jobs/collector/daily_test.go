package collector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sara/proxy/jobs/schedule"
	"sara/proxy/upstream"
	"sara/translate"
)

// leases is the table of leases of a store, with one lease.
type leases struct {
	mu     sync.Mutex
	holder string
	until  time.Time
	down   error // nil: the store works
}

func (l *leases) AcquireLease(_ context.Context, _, holder string, ttl time.Duration) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down != nil || l.holder != holder && time.Now().Before(l.until) {
		return false, l.down
	}
	l.holder, l.until = holder, time.Now().Add(ttl)
	return true, nil
}

func (l *leases) RenewLease(_ context.Context, _, holder string, ttl time.Duration) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down != nil || l.holder != holder || !time.Now().Before(l.until) {
		return false, l.down
	}
	l.until = time.Now().Add(ttl)
	return true, nil
}

func (l *leases) ReleaseLease(_ context.Context, _, holder string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down == nil && l.holder == holder {
		l.holder, l.until = "", time.Time{}
	}
	return l.down
}

// steal gives the lease to another holder; with an error it also makes the store fail.
func (l *leases) steal(holder string, down error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holder, l.until, l.down = holder, time.Now().Add(schedule.LeaseTTL), down
}

// replicas run the daily job over the same properties.
type replicas struct {
	*bubble
	leases *leases
	ids    []string

	mu       sync.Mutex
	reported map[string][]string // by holder
	stop     []context.CancelFunc
	running  sync.WaitGroup
}

func newReplicas(b *bubble, ids ...string) *replicas {
	return &replicas{bubble: b, leases: &leases{}, ids: ids, reported: make(map[string][]string)}
}

// start starts a replica.
func (r *replicas) start(jitter time.Duration) (stop context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = append(r.stop, cancel)
	holder := fmt.Sprint("replica ", len(r.stop))
	d := r.paced().Daily(func(context.Context) ([]Property, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.properties(r.ids...), nil
	})
	d.Leases, d.Holder, d.Jitter = r.leases, holder, jitter
	d.Report = func(_ context.Context, results []Result, err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, result := range results {
			r.reported[holder] = append(r.reported[holder], fmt.Sprint(result.Property.PropertyID, " ", result.Err))
		}
		if err != nil {
			r.reported[holder] = append(r.reported[holder], err.Error())
		}
	}
	r.running.Go(func() { d.Run(ctx) })
	return cancel
}

// end stops all replicas and waits for them.
func (r *replicas) end() {
	for _, stop := range r.stop {
		stop()
	}
	r.running.Wait()
}

// reports returns how many results and errors were reported since the last time it was called.
func (r *replicas) reports() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, reports := range r.reported {
		n += len(reports)
	}
	clear(r.reported)
	return n
}

func (r *replicas) add(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids = append(r.ids, id)
}

// started returns how often each property was started, which is how often its series was queried.
func (r *replicas) started() map[string]int {
	n := make(map[string]int)
	for _, q := range r.calls() {
		if q.query.Dimension == translate.ByDate {
			n[q.target.PropertyID]++
		}
	}
	return n
}

func TestDailyCollectsEachPropertyOncePerDay(t *testing.T) {
	inBubble(t, func(b *bubble) {
		r := newReplicas(b, "shop", "blog")
		for n := range 3 {
			r.start(time.Duration(n) * 20 * time.Minute)
		}
		time.Sleep(2 * time.Hour)
		for day := range 3 {
			if n := r.started(); n["shop"] != 1 || n["blog"] != 1 {
				t.Errorf("day %d: started %v, want each once", day, n)
			}
			equal(t, "reports", r.reports(), 2)
			for _, id := range r.ids {
				if last := *b.state(id).Last; last < b.anchor()-1 {
					t.Errorf("day %d: %s ends at %s, the anchor is %s", day, id, last, b.anchor())
				}
			}
			time.Sleep(24 * time.Hour)
		}
		r.end()
	})
}

func TestDailyDelaysOldPropertiesByJitterAndNewOnesNot(t *testing.T) {
	inBubble(t, func(b *bubble) {
		r := newReplicas(b, "shop")
		const jitter = 3 * time.Hour
		r.start(jitter)
		time.Sleep(time.Hour)
		r.calls()
		for anchor := b.anchor(); b.anchor() == anchor; {
			time.Sleep(time.Minute)
		}
		midnight := time.Now()
		time.Sleep(time.Hour)
		equal(t, "started before the jitter has passed", r.started()["shop"], 0)
		r.add("blog")
		time.Sleep(time.Hour)
		if n := r.started(); n["shop"] != 0 || n["blog"] != 1 {
			t.Errorf("started %v, want the new property", n)
		}
		time.Sleep(2 * time.Hour)
		if n := r.started(); n["shop"] != 1 || n["blog"] != 0 {
			t.Errorf("started %v %s after midnight, want the old property", n, time.Since(midnight))
		}
		r.end()
	})
}

func TestDailyContinuesWhenLeaseOfDeadReplicaExpires(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.leaseOf(func(r *replicas) {
			r.leases.steal("a dead replica", nil)
			r.start(0)
			time.Sleep(time.Second)
			equal(t, "calls while another replica has the lease", len(r.calls()), 0)
			time.Sleep(time.Hour)
			equal(t, "started after it has expired", r.started()["shop"], 1)
		})
	})
}

// leaseOf runs a test with replicas over one property.
func (b *bubble) leaseOf(test func(*replicas)) {
	r := newReplicas(b, "shop")
	test(r)
	r.end()
}

func TestLostLeaseStopsCollecting(t *testing.T) {
	for name, lose := range map[string]func(*leases){
		"to another replica": func(l *leases) { l.steal("another", nil) },
		"to an outage":       func(l *leases) { l.steal("replica 1", errors.New("the store is down")) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.leaseOf(func(r *replicas) {
					r.start(0)
					time.Sleep(90 * time.Second) // shorter than the first run, longer than an unrenewed lease
					before := len(r.calls())
					lose(r.leases)
					time.Sleep(schedule.LeaseTTL - time.Second)
					r.calls()
					time.Sleep(5 * time.Second)
					if after := len(r.calls()); before == 0 || after > 0 {
						t.Errorf("%d calls before the lease was lost, %d after it could have expired", before, after)
					}
					equal(t, "reports", r.reports(), 2)

					r.leases.steal("", nil)
					time.Sleep(time.Hour)
					if r.state("shop").CollectedAt == nil {
						t.Error("no replica continues")
					}
				})
			})
		})
	}
}

func TestDailyBacksOffFailedProperties(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for name, test := range map[string]struct {
		err  error
		want int // tries in a day
	}{
		"unavailable": {fail(upstream.Unavailable, 0), 8},
		"forbidden":   {fail(upstream.Forbidden, 0), 2},
		"quota":       {fail(upstream.Quota, 5*time.Hour), 5},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				r := newReplicas(b, "shop", "blog")
				b.failingFor("shop", test.err)
				r.start(0)
				time.Sleep(24 * time.Hour)
				n := r.started()
				tries := n["shop"]
				if schedule.KindOf(test.err) == upstream.Unavailable {
					tries /= schedule.MaxAttempts
				}
				if tries < test.want/2 || tries > test.want || n["blog"] > 2 {
					t.Errorf("started %v, want the failing one at most %d times", n, test.want)
				}
				b.failing(nil)
				time.Sleep(13 * time.Hour)
				if s := b.state("shop"); s.CollectedAt == nil || s.Failures != 0 {
					t.Errorf("after it was repaired: %+v", s)
				}
				r.end()
			})
		})
	}
}

func TestDailyEndsWithContext(t *testing.T) {
	inBubble(t, func(b *bubble) {
		r := newReplicas(b, "shop")
		stop := r.start(0)
		time.Sleep(30 * time.Second)
		stop()
		r.running.Wait()
		synctest.Wait()
		equal(t, "reports of an interrupted run", r.reports(), 0)
		if r.leases.holder != "" {
			t.Error("the lease was not released")
		}
	})
}

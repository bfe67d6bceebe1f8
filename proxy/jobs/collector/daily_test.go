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
	"sara/translate"
)

// leases is a store's table of leases.
type leases struct {
	mu     sync.Mutex
	holder string
	until  time.Time
	down   error // nil: the store answers
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

// steal gives the lease to somebody who is not in the test, or with an error takes the store away.
func (l *leases) steal(holder string, down error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holder, l.until, l.down = holder, time.Now().Add(schedule.LeaseTime), down
}

// replicas are several daily runs over the same properties.
type replicas struct {
	*bubble
	leases *leases
	ids    []string

	mu       sync.Mutex
	reported map[string][]string // what each holder reported
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
	d := Daily{
		Collector: r.paced(), Leases: r.leases, Holder: holder, Jitter: jitter,
		Properties: func(context.Context) ([]Property, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.properties(r.ids...), nil
		},
		Report: func(_ context.Context, results []Result, err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, result := range results {
				r.reported[holder] = append(r.reported[holder], fmt.Sprint(result.Property.ID, " ", result.Err))
			}
			if err != nil {
				r.reported[holder] = append(r.reported[holder], err.Error())
			}
		},
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

// reports returns how much was reported since the last call.
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

// seriesAsked returns how often each property was begun with.
func (r *replicas) seriesAsked() map[string]int {
	n := make(map[string]int)
	for _, q := range r.calls() {
		if q.query.Dimension == translate.ByDate {
			n[q.property.ID]++
		}
	}
	return n
}

func TestEachPropertyIsCollectedOnceADayByOneReplica(t *testing.T) {
	inBubble(t, func(b *bubble) {
		r := newReplicas(b, "shop", "blog")
		for n := range 3 {
			r.start(time.Duration(n) * 20 * time.Minute)
		}
		time.Sleep(2 * time.Hour)
		for day := range 3 {
			if n := r.seriesAsked(); n["shop"] != 1 || n["blog"] != 1 {
				t.Errorf("day %d: begun with %v, want each once", day, n)
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

func TestANewDayWaitsForTheJitterAndANewPropertyForNothing(t *testing.T) {
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
		equal(t, "begun before the jitter has passed", r.seriesAsked()["shop"], 0)
		r.add("blog")
		time.Sleep(time.Hour)
		if n := r.seriesAsked(); n["shop"] != 0 || n["blog"] != 1 {
			t.Errorf("begun with %v, want the new property", n)
		}
		time.Sleep(2 * time.Hour)
		if n := r.seriesAsked(); n["shop"] != 1 || n["blog"] != 0 {
			t.Errorf("begun with %v %s after midnight, want the old property", n, time.Since(midnight))
		}
		r.end()
	})
}

func TestTheNextReplicaGoesOnWhenOneDies(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.leaseOf(func(r *replicas) {
			// It died without a word, and its lease runs out.
			r.leases.steal("the dead", nil)
			r.start(0)
			time.Sleep(time.Second)
			equal(t, "questions while another holds the lease", len(r.calls()), 0)
			time.Sleep(time.Hour)
			equal(t, "begun after it has run out", r.seriesAsked()["shop"], 1)
		})
	})
}

// leaseOf runs a test with a replica set over one property.
func (b *bubble) leaseOf(test func(*replicas)) {
	r := newReplicas(b, "shop")
	test(r)
	r.end()
}

func TestALostLeaseStopsTheWork(t *testing.T) {
	for name, lose := range map[string]func(*leases){
		"to another replica": func(l *leases) { l.steal("another", nil) },
		"to an outage":       func(l *leases) { l.steal("replica 1", errors.New("the store is out")) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.leaseOf(func(r *replicas) {
					r.start(0)
					time.Sleep(90 * time.Second) // a first run takes longer, and the lease is renewed meanwhile
					before := len(r.calls())
					lose(r.leases)
					time.Sleep(schedule.LeaseTime - time.Second)
					r.calls()
					time.Sleep(5 * time.Second)
					if after := len(r.calls()); before == 0 || after > 0 {
						t.Errorf("%d questions before the lease was lost, and %d when it could have run out", before, after)
					}
					equal(t, "reports", r.reports(), 2)

					r.leases.steal("", nil)
					time.Sleep(time.Hour)
					if r.state("shop").CollectedAt == nil {
						t.Error("nobody goes on")
					}
				})
			})
		})
	}
}

func TestAPropertyThatFailsIsLeftAloneForAWhile(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want int // tries in a day
	}{
		"what may have passed in an hour": {refuse(schedule.Unavailable, 0), 24},
		"what somebody has to mend":       {refuse(schedule.AccessLost, 0), 2},
		"what rests for five hours":       {refuse(schedule.Quota, 5*time.Hour), 5},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				r := newReplicas(b, "shop", "blog")
				b.about("shop", test.err)
				r.start(0)
				time.Sleep(24 * time.Hour)
				n := r.seriesAsked()
				tries := n["shop"]
				if schedule.ClassOf(test.err) == schedule.Unavailable {
					tries /= patience
				}
				if tries < test.want/2 || tries > test.want || n["blog"] > 2 {
					t.Errorf("begun with %v, want the failing one %d times at most", n, test.want)
				}
				b.failing(nil)
				time.Sleep(13 * time.Hour)
				if s := b.state("shop"); s.CollectedAt == nil || s.Failures != 0 {
					t.Errorf("after it was mended: %+v", s)
				}
				r.end()
			})
		})
	}
}

func TestTheDailyRunEndsWithItsContext(t *testing.T) {
	inBubble(t, func(b *bubble) {
		r := newReplicas(b, "shop")
		stop := r.start(0)
		time.Sleep(30 * time.Second)
		stop()
		r.running.Wait()
		synctest.Wait()
		equal(t, "reports of an interrupted run", r.reports(), 0)
		if r.leases.holder != "" {
			t.Error("the lease is not given back")
		}
	})
}

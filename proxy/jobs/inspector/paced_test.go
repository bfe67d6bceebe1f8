package inspector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sara/archive/sqlstore"
	"sara/proxy/jobs/schedule"
)

// paced is an inspector with the zero value's paces, as many at a time as it likes.
func paced(c *Config) { c.PerSite, c.Total, c.ParallelInspections = 0, 0, 0 }

// perMinute returns the most questions about a site in any minute.
func (w *world) perMinute(site string) (most int) {
	var times []time.Time
	for _, q := range w.asked {
		if q.site == site {
			times = append(times, q.at)
		}
	}
	for i, last := range times {
		first, _ := slices.BinarySearchFunc(times, last.Add(-time.Minute+1), time.Time.Compare)
		most = max(most, i-first+1)
	}
	return most
}

func TestNoMinuteHasMoreInspectionsThanTheUpstreamAllows(t *testing.T) {
	inBubble(t, []string{"shop", "blog"}, func(t *testing.T, w *world) {
		w.serve(shopMap, urls("shop", 1000)...)
		w.serve("https://blog.example/sitemap.xml", urls("blog", 700)...)
		in := w.inspector(paced)
		for range 2 { // one run after the other
			for _, r := range value(in.Inspect(t.Context(), w.properties("shop", "blog"), Options{Max: new(400)}))(t) {
				check(t, r.Err)
			}
		}
		for _, site := range []string{"sc-domain:shop.example", "sc-domain:blog.example"} {
			if n := w.perMinute(site); n > 600 || n < 570 {
				t.Errorf("%d inspections of %s in a minute", n, site)
			}
		}
	})
}

func TestAQuotaThatIsSharedIsWaitedFor(t *testing.T) {
	inBubble(t, []string{"shop"}, func(t *testing.T, w *world) {
		w.serve(shopMap, urls("shop", 30)...)
		free := time.Now().Add(10 * time.Minute)
		w.took = func() (bool, time.Duration, error) {
			wait := time.Until(free)
			return wait <= 0, min(max(wait, 0), time.Second), nil
		}
		r := w.inspect("shop", Options{}, paced)
		if r.Err != nil || r.Inspected != 30 || w.asked[0].at.Before(free) {
			t.Errorf("%+v, asked at %s, want %s", r, w.asked[0].at, free)
		}
	})
}

func TestAQuotaThatCannotBeCountedIsNotSpent(t *testing.T) {
	inBubble(t, []string{"shop"}, func(t *testing.T, w *world) {
		w.serve(shopMap, urls("shop", 30)...)
		w.took = func() (bool, time.Duration, error) { return true, 0, errOut }
		r := w.inspect("shop", Options{}, paced)
		if !errors.Is(r.Err, errOut) || len(w.asked) > 0 {
			t.Errorf("%+v, %d questions", r, len(w.asked))
		}
	})
}

func TestAnOutageIsWaitedForAndThenGivenUp(t *testing.T) {
	inBubble(t, []string{"shop", "blog"}, func(t *testing.T, w *world) {
		w.serve(shopMap, urls("shop", 50)...)
		w.serve("https://blog.example/sitemap.xml", urls("blog", 50)...)
		until := time.Now().Add(5 * time.Minute)
		w.fails = func(p Property, _ string, _ int) error {
			if p.ID == w.ids["shop"] || time.Now().Before(until) {
				return errOut
			}
			return nil
		}
		results := value(w.inspector(paced).Inspect(t.Context(), w.properties("shop", "blog"), Options{}))(t)
		if !errors.Is(results[0].Err, errOut) || results[0].Left != 50 || results[1].Err != nil || results[1].Inspected != 50 {
			t.Errorf("%+v", results)
		}
		if waited := time.Since(until); waited > 15*time.Minute {
			t.Errorf("waited %s", waited)
		}
		asked := make(map[string]int)
		for _, url := range w.questions() {
			asked[hostOf(url)]++
		}
		equal(t, "questions during the outage", asked["shop"], 2*patience)
	})
}

// One URL that never gets an answer holds up neither the others nor those of the next days, wherever it stands in the plan.
func TestAURLWithoutAnAnswerIsSkipped(t *testing.T) {
	for _, at := range []int{0, 25, 49} {
		for _, parallel := range []int{1, 8} {
			t.Run(fmt.Sprint(at, " of 50, ", parallel, " at a time"), func(t *testing.T) {
				inBubble(t, []string{"shop"}, func(t *testing.T, w *world) {
					pages := urls("shop", 50)
					w.serve(shopMap, pages...)
					w.fails = func(_ Property, url string, _ int) error {
						if url == pages[at] {
							return errOut
						}
						return nil
					}
					r := w.inspect("shop", Options{}, paced, func(c *Config) { c.ParallelInspections = parallel })
					equal(t, "result", []any{r.Inspected, r.Left, r.Err}, []any{49, 1, nil})
				})
			})
		}
	}
}

func TestTheUpstreamsQuotaIsTriedOnceMoreAndThenRestsTillMidnight(t *testing.T) {
	inBubble(t, []string{"shop"}, func(t *testing.T, w *world) {
		w.serve(shopMap, urls("shop", 20)...)
		// A minute's quota has passed after a minute.
		w.fails = func(_ Property, url string, try int) error {
			if url == "https://shop.example/0005" && try == 1 {
				return refuse(schedule.Quota)
			}
			return nil
		}
		r := w.inspect("shop", Options{Max: new(10)}, paced)
		equal(t, "after a minute", []any{r.Inspected, r.Err}, []any{10, nil})

		w.fails = func(Property, string, int) error { return refuse(schedule.Quota) }
		w.questions()
		r = w.inspect("shop", Options{}, func(c *Config) { c.PerSite, c.Total = 0, 0 })
		s := w.summary("shop").State
		midnight := w.calendar.Start(w.calendar.Day(time.Now()) + 1)
		if !errors.Is(r.Err, errOut) || r.Left != 10 || s.RestsUntil == nil || !s.RestsUntil.Equal(midnight) || s.Failures != 1 {
			t.Errorf("%+v, the store has %+v, want a rest until %s", r, s, midnight)
		}
		equal(t, "questions", len(w.questions()), 2)

		// Whoever comes before that does not ask, and whoever comes after that may.
		w.fails = nil
		r = w.inspect("shop", Options{})
		if schedule.ClassOf(r.Err) != schedule.Quota || len(w.questions()) > 0 {
			t.Errorf("at rest: %+v", r)
		}
		time.Sleep(time.Until(midnight))
		r = w.inspect("shop", Options{})
		if s := w.summary("shop").State; r.Err != nil || r.Left != 0 || s.RestsUntil != nil || s.Failures != 0 {
			t.Errorf("after the rest: %+v, the store has %+v", r, s)
		}
	})
}

func TestCustomersGoFirst(t *testing.T) {
	inBubble(t, []string{"shop"}, func(t *testing.T, w *world) {
		w.serve(shopMap, urls("shop", 3)...)
		w.inspect("shop", Options{}, func(c *Config) { c.Busy = func() bool { return true } })
		for i := range w.asked[1:] {
			if since := w.asked[i+1].at.Sub(w.asked[i].at); since < DefaultBusyLimit || since > DefaultBusyLimit+time.Second {
				t.Errorf("gave way for %s, want %s", since, DefaultBusyLimit)
			}
		}
		equal(t, "questions", len(w.asked), 3)
	})
}

// lossy are leases that somebody takes away.
type lossy struct {
	schedule.Leases
	mu   sync.Mutex
	lost bool
}

func (l *lossy) RenewLease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held, err := l.Leases.RenewLease(ctx, name, holder, ttl)
	return held && !l.lost, err
}

func TestALostLeaseEndsThePropertyAndLosesNoAnswer(t *testing.T) {
	inBubble(t, []string{"shop"}, func(t *testing.T, w *world) {
		w.serve(shopMap, urls("shop", 150)...)
		leases := &lossy{Leases: w.store}
		n := 0
		w.during = func(context.Context, string) {
			if n++; n == 40 {
				leases.mu.Lock()
				leases.lost = true
				leases.mu.Unlock()
			}
		}
		r := w.inspect("shop", Options{}, func(c *Config) { c.PerSite, c.Leases = 60, leases })
		if !errors.Is(r.Err, schedule.ErrLeaseLost) || r.Inspected < 40 || r.Inspected > 90 {
			t.Errorf("%+v", r)
		}
		asked := len(w.questions())
		r = w.inspect("shop", Options{})
		if again := asked + len(w.questions()) - 150; r.Err != nil || again > 1 {
			t.Errorf("%+v, %d URLs were asked for again", r, again)
		}
	})
}

// replicas are several daily runs over the same properties.
type replicas struct {
	*world
	names    []string
	reported []Result
	stop     context.CancelFunc
	running  sync.WaitGroup
}

func startReplicas(w *world, names []string, jitters ...time.Duration) *replicas {
	r := &replicas{world: w, names: names}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	for i, jitter := range jitters {
		d := Daily{
			Inspector: w.inspector(paced, func(c *Config) { c.Holder = fmt.Sprint("replica ", i) }), Jitter: jitter,
			Properties: func(context.Context) ([]Property, error) {
				w.mu.Lock()
				names := slices.Clone(r.names)
				w.mu.Unlock()
				return w.properties(names...), nil
			},
			Report: func(_ context.Context, results []Result, err error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				if err != nil {
					w.t.Error(err)
				}
				r.reported = append(r.reported, results...)
			},
		}
		r.running.Go(func() { d.Run(ctx) })
	}
	return r
}

// inspected returns how often each property was reported since the last call.
func (r *replicas) inspected() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := make(map[string]int)
	for _, result := range r.reported {
		n[result.Property.Site]++
	}
	r.reported = nil
	return n
}

func (r *replicas) end() {
	r.stop()
	r.running.Wait()
}

func TestEachPropertyIsInspectedOnceADayByOneReplica(t *testing.T) {
	inBubble(t, []string{"shop", "blog"}, func(t *testing.T, w *world) {
		w.serve(shopMap, urls("shop", 30)...)
		w.serve("https://blog.example/sitemap.xml", urls("blog", 30)...)
		r := startReplicas(w, []string{"shop", "blog"}, 0, 20*time.Minute, 40*time.Minute)
		time.Sleep(2 * time.Hour) // 1999-12-31, 18:00 in California
		for day := range 3 {
			equal(t, fmt.Sprint("inspected on day ", day), r.inspected(), map[string]int{"sc-domain:shop.example": 1, "sc-domain:blog.example": 1})
			equal(t, fmt.Sprint("questions on day ", day), len(w.questions()), 60)
			equal(t, fmt.Sprint("days of the trend on day ", day), len(w.summary("shop").Trend), day+1)
			time.Sleep(24 * time.Hour)
		}
		r.end()
	})
}

func TestANewDayWaitsForTheJitterAndANewPropertyForNothing(t *testing.T) {
	inBubble(t, []string{"shop", "blog"}, func(t *testing.T, w *world) {
		r := startReplicas(w, []string{"shop"}, 3*time.Hour)
		time.Sleep(time.Hour)
		r.inspected()
		time.Sleep(time.Until(w.calendar.Start(w.calendar.Day(time.Now()) + 1)))
		time.Sleep(time.Hour)
		w.mu.Lock()
		r.names = append(r.names, "blog")
		w.mu.Unlock()
		time.Sleep(time.Hour)
		equal(t, "before the jitter has passed", r.inspected(), map[string]int{"sc-domain:blog.example": 1})
		time.Sleep(2 * time.Hour)
		equal(t, "after it has passed", r.inspected(), map[string]int{"sc-domain:shop.example": 1})
		r.end()
	})
}

func TestDueAreThoseWithoutResultsAndThenThoseWithTheOldest(t *testing.T) {
	w := newWorld(t, nil)
	at := func(hours int) *time.Time { at := noon.Add(time.Duration(hours) * time.Hour); return &at }
	properties := []Property{
		{ID: "fresh", MaxURLs: 1, State: sqlstore.IndexState{RefreshedAt: at(-24), InspectedAt: at(-24)}},
		{ID: "stale", MaxURLs: 1, State: sqlstore.IndexState{RefreshedAt: at(-72), InspectedAt: at(-24)}},
		{ID: "done", MaxURLs: 1, State: sqlstore.IndexState{RefreshedAt: at(-1), InspectedAt: at(-1)}},
		{ID: "resting", MaxURLs: 1, State: sqlstore.IndexState{RestsUntil: at(1)}},
		{ID: "rested", MaxURLs: 1, State: sqlstore.IndexState{RestsUntil: at(-1), RefreshedAt: at(-48)}},
		{ID: "archived", MaxURLs: 1, Archived: true},
		{ID: "without a plan"},
		{ID: "new", MaxURLs: 1},
	}
	d := Daily{Inspector: w.inspector(), Properties: func(context.Context) ([]Property, error) { return properties, nil }}
	var due []string
	for _, p := range value(d.due(t.Context()))(t) {
		due = append(due, p.ID)
	}
	equal(t, "due", due, []string{"new", "stale", "rested", "fresh"})
	d.Properties = func(context.Context) ([]Property, error) { return nil, errOut }
	if _, err := d.due(t.Context()); !errors.Is(err, errOut) {
		t.Errorf("got %v", err)
	}
}

func TestTheDailyRunEndsWithItsContext(t *testing.T) {
	inBubble(t, []string{"shop"}, func(t *testing.T, w *world) {
		w.serve(shopMap, urls("shop", 1000)...)
		r := startReplicas(w, []string{"shop"}, 0)
		time.Sleep(30 * time.Second)
		r.end()
		synctest.Wait()
		equal(t, "reports of an interrupted run", len(r.inspected()), 0)
		for _, name := range []string{"inspect", "inspect/" + w.ids["shop"]} {
			if !value(w.store.AcquireLease(t.Context(), name, "another", time.Minute))(t) {
				t.Errorf("the lease %q is not given back", name)
			}
		}
	})
}

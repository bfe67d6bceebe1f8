package inspector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sara/archive/sqlstore"
	"sara/proxy/jobs/schedule"
	"sara/proxy/upstream"
)

// paced restores the default limits and parallelism.
func paced(c *Config) { c.PerSite, c.Total, c.ParallelInspections = 0, 0, 0 }

// perMinute returns the highest number of calls for a site in any minute.
func (w *fakeUpstream) perMinute(site string) (most int) {
	var times []time.Time
	for _, c := range w.made {
		if c.site == site {
			times = append(times, c.at)
		}
	}
	for i, last := range times {
		first, _ := slices.BinarySearchFunc(times, last.Add(-time.Minute+1), time.Time.Compare)
		most = max(most, i-first+1)
	}
	return most
}

func TestInspectionsKeepTheUpstreamsLimitPerMinute(t *testing.T) {
	inBubble(t, []string{"shop", "blog"}, func(t *testing.T, w *fakeUpstream) {
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

func TestInspectWaitsForSharedQuota(t *testing.T) {
	inBubble(t, []string{"shop"}, func(t *testing.T, w *fakeUpstream) {
		w.serve(shopMap, urls("shop", 30)...)
		free := time.Now().Add(10 * time.Minute)
		w.took = func() (bool, time.Duration, error) {
			wait := time.Until(free)
			return wait <= 0, min(max(wait, 0), time.Second), nil
		}
		r := w.inspect("shop", Options{}, paced)
		if r.Err != nil || r.Inspected != 30 || w.made[0].at.Before(free) {
			t.Errorf("%+v, called at %s, want %s", r, w.made[0].at, free)
		}
	})
}

func TestNoCallWithoutCountedQuota(t *testing.T) {
	inBubble(t, []string{"shop"}, func(t *testing.T, w *fakeUpstream) {
		w.serve(shopMap, urls("shop", 30)...)
		w.took = func() (bool, time.Duration, error) { return true, 0, errDown }
		r := w.inspect("shop", Options{}, paced)
		if !errors.Is(r.Err, errDown) || len(w.made) > 0 {
			t.Errorf("%+v, %d calls", r, len(w.made))
		}
	})
}

// A call that the gateway refuses, for example while a circuit breaker is open, uses none of the quota.
func TestRefusedCallsAreNotCounted(t *testing.T) {
	inBubble(t, []string{"shop"}, func(t *testing.T, w *fakeUpstream) {
		w.serve(shopMap, urls("shop", 20)...)
		w.refuses = fail(upstream.Unavailable)
		if r := w.inspect("shop", Options{}, paced); !errors.Is(r.Err, errDown) || len(w.taken) != 0 {
			t.Errorf("%v after taking %v of the quota", r.Err, w.taken)
		}
		w.refuses = nil
		if r := w.inspect("shop", Options{}, paced); r.Err != nil || r.Inspected != 20 {
			t.Errorf("%+v", r)
		}
	})
}

func TestOutageIsRetriedWithBackoffThenGivenUp(t *testing.T) {
	inBubble(t, []string{"shop", "blog"}, func(t *testing.T, w *fakeUpstream) {
		w.serve(shopMap, urls("shop", 50)...)
		w.serve("https://blog.example/sitemap.xml", urls("blog", 50)...)
		until := time.Now().Add(5 * time.Minute)
		w.fails = func(target upstream.Target, _ string, _ int) error {
			if target.PropertyID == w.ids["shop"] || time.Now().Before(until) {
				return errDown
			}
			return nil
		}
		results := value(w.inspector(paced).Inspect(t.Context(), w.properties("shop", "blog"), Options{}))(t)
		if !errors.Is(results[0].Err, errDown) || results[0].Left != 50 || results[1].Err != nil || results[1].Inspected != 50 {
			t.Errorf("%+v", results)
		}
		if strings.Contains(results[0].Err.Error(), "full user") {
			t.Errorf("an outage is explained by a refusal: %v", results[0].Err)
		}
		if waited := time.Since(until); waited > 15*time.Minute {
			t.Errorf("waited %s", waited)
		}
		calls := make(map[string]int)
		for _, url := range w.inspectedURLs() {
			calls[hostOf(url)]++
		}
		equal(t, "calls during the outage", calls["shop"], 2*schedule.MaxAttempts)
	})
}

// The workers of a property meet an outage together, but one line for each pause is enough.
func TestPausesOfSeveralWorkersAreReportedOnce(t *testing.T) {
	inBubble(t, []string{"shop"}, func(t *testing.T, w *fakeUpstream) {
		w.serve(shopMap, urls("shop", 50)...)
		w.inspect("shop", Options{Max: new(10)}, paced) // so that the next run begins with several workers
		w.fails = func(upstream.Target, string, int) error { return errDown }
		w.events = nil
		if r := w.inspect("shop", Options{}, paced); !errors.Is(r.Err, errDown) {
			t.Errorf("%+v", r)
		}
		pauses := slices.DeleteFunc(w.events, func(e string) bool { return e != "paused" })
		if n := len(pauses); n < 1 || n > 2*(schedule.MaxAttempts-1) { // a second URL is tried
			t.Errorf("%d pauses are reported", n)
		}
	})
}

// A URL that never gets an answer delays no others, wherever it is in the plan: it is not tried again, unless no other was answered since the
// last failure.
func TestUnansweredURLIsSkipped(t *testing.T) {
	for _, c := range []struct {
		at, calls []int // the URLs, and how many calls each takes
	}{
		{[]int{0}, []int{schedule.MaxAttempts}},
		{[]int{1}, []int{1}},
		{[]int{25}, []int{1}},
		{[]int{49}, []int{1}},
		{[]int{25, 26}, []int{1, schedule.MaxAttempts}},
	} {
		for _, parallel := range []int{1, 8} {
			if len(c.at) > 1 && parallel > 1 {
				continue // others are answered in between, or not
			}
			t.Run(fmt.Sprint(c.at, " of 50, ", parallel, " at a time"), func(t *testing.T) {
				inBubble(t, []string{"shop"}, func(t *testing.T, w *fakeUpstream) {
					pages := urls("shop", 50)
					w.serve(shopMap, pages...)
					w.fails = func(_ upstream.Target, url string, _ int) error {
						if slices.ContainsFunc(c.at, func(i int) bool { return url == pages[i] }) {
							return errDown
						}
						return nil
					}
					r := w.inspect("shop", Options{}, paced, func(c *Config) { c.ParallelInspections = parallel })
					equal(t, "result", []any{r.Inspected, r.Left, r.Err, errors.Is(r.Why, errDown)}, []any{50 - len(c.at), len(c.at), nil, true})
					calls := make(map[string]int)
					for _, url := range w.inspectedURLs() {
						calls[url]++
					}
					for n, i := range c.at {
						equal(t, fmt.Sprint("calls of URL ", i), calls[pages[i]], c.calls[n])
					}
				})
			})
		}
	}
}

func TestDailyQuotaErrorIsRetriedOnceThenCoolsDownUntilMidnight(t *testing.T) {
	inBubble(t, []string{"shop"}, func(t *testing.T, w *fakeUpstream) {
		w.serve(shopMap, urls("shop", 20)...)
		// The quota per minute is free again after a minute.
		w.fails = func(_ upstream.Target, url string, try int) error {
			if url == "https://shop.example/0005" && try == 1 {
				return fail(upstream.Quota)
			}
			return nil
		}
		r := w.inspect("shop", Options{Max: new(10)}, paced)
		equal(t, "after a minute", []any{r.Inspected, r.Err}, []any{10, nil})

		w.fails = func(upstream.Target, string, int) error {
			return fmt.Errorf("%w: %w", errDown, &upstream.Error{Kind: upstream.Quota, Daily: true})
		}
		w.inspectedURLs()
		r = w.inspect("shop", Options{}, func(c *Config) { c.PerSite, c.Total = 0, 0 })
		s := w.summary("shop").State
		midnight := w.calendar.Start(w.calendar.Day(time.Now()) + 1)
		if !errors.Is(r.Err, errDown) || r.Left != 10 || s.CooldownUntil == nil || !s.CooldownUntil.Equal(midnight) || s.Failures != 1 {
			t.Errorf("%+v, stored %+v, want a cooldown until %s", r, s, midnight)
		}
		equal(t, "calls", len(w.inspectedURLs()), 2)

		// No run calls before that.
		w.fails = nil
		r = w.inspect("shop", Options{})
		if schedule.KindOf(r.Err) != upstream.Quota || r.Left != 10 || len(w.inspectedURLs()) > 0 {
			t.Errorf("during the cooldown: %+v", r)
		}
		time.Sleep(time.Until(midnight))
		r = w.inspect("shop", Options{})
		if s := w.summary("shop").State; r.Err != nil || r.Left != 0 || s.CooldownUntil != nil || s.Failures != 0 {
			t.Errorf("after the cooldown: %+v, stored %+v", r, s)
		}
	})
}

// A rate refusal is over within minutes. Each further one doubles the cooldown of two minutes, up to an hour, and a success resets it. No
// cooldown is shorter than the upstream asks for.
func TestRateRefusalsCoolDownExponentially(t *testing.T) {
	inBubble(t, []string{"shop"}, func(t *testing.T, w *fakeUpstream) {
		w.serve(shopMap, urls("shop", 20)...)
		refuse := func(upstream.Target, string, int) error {
			return fmt.Errorf("%w: %w", errDown,
				&upstream.Error{Kind: upstream.Quota, Status: 429, Reason: "rateLimitExceeded", RetryAfter: 3 * time.Minute})
		}
		run := func(want time.Duration) {
			t.Helper()
			w.fails = refuse
			r := w.inspect("shop", Options{})
			until := w.summary("shop").State.CooldownUntil
			if until == nil || !until.Equal(time.Now().Add(want).Truncate(time.Millisecond)) {
				t.Fatalf("a cooldown until %v, want %v from %s", until, want, time.Now())
			}
			if text := until.UTC().Format(time.RFC3339); !strings.Contains(r.Err.Error(), "can continue at "+text) {
				t.Errorf("%v does not name %s", r.Err, text)
			}
			if r = w.inspect("shop", Options{}); schedule.KindOf(r.Err) != upstream.Quota ||
				!strings.Contains(r.Err.Error(), until.UTC().Format(time.RFC3339)) {
				t.Errorf("during the cooldown: %+v", r)
			}
			time.Sleep(want) // synctest
		}
		for _, want := range []time.Duration{3 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute, time.Hour, time.Hour} {
			run(want)
		}
		w.fails = nil
		if r := w.inspect("shop", Options{Max: new(3)}); r.Err != nil || r.Inspected != 3 {
			t.Errorf("after the cooldowns: %+v", r)
		}
		run(3 * time.Minute)
	})
}

func TestCooldownOfAClockThatWasAheadIsOver(t *testing.T) {
	inBubble(t, []string{"shop"}, func(t *testing.T, w *fakeUpstream) {
		w.serve(shopMap, urls("shop", 3)...)
		until := time.Now().AddDate(0, 0, 40)
		check(t, w.store.SaveIndexRun(t.Context(), sqlstore.IndexState{PropertyID: w.ids["shop"], CooldownUntil: &until}))
		if r := w.inspect("shop", Options{}); r.Err != nil || r.Inspected != 3 {
			t.Errorf("got %+v", r)
		}
	})
}

func TestInspectionsYieldToTrafficUpToTheLimit(t *testing.T) {
	inBubble(t, []string{"shop"}, func(t *testing.T, w *fakeUpstream) {
		w.serve(shopMap, urls("shop", 3)...)
		w.inspect("shop", Options{}, func(c *Config) { c.Busy = func() bool { return true } })
		for i := range w.made[1:] {
			if since := w.made[i+1].at.Sub(w.made[i].at); since < schedule.BusyLimit || since > schedule.BusyLimit+time.Second {
				t.Errorf("yielded for %s, want %s", since, schedule.BusyLimit)
			}
		}
		equal(t, "calls", len(w.made), 3)
	})
}

// lossy are leases that can get lost.
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

func TestLostLeaseStopsInspectingAndLosesNoResult(t *testing.T) {
	inBubble(t, []string{"shop"}, func(t *testing.T, w *fakeUpstream) {
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
		calls := len(w.inspectedURLs())
		r = w.inspect("shop", Options{})
		if again := calls + len(w.inspectedURLs()) - 150; r.Err != nil || again > 1 {
			t.Errorf("%+v, %d URLs were inspected again", r, again)
		}
	})
}

// replicas run the daily job over the same properties.
type replicas struct {
	*fakeUpstream
	names    []string
	reported []Result
	stop     context.CancelFunc
	running  sync.WaitGroup
}

func startReplicas(w *fakeUpstream, names []string, jitters ...time.Duration) *replicas {
	r := &replicas{fakeUpstream: w, names: names}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	for i, jitter := range jitters {
		in := w.inspector(paced, func(c *Config) { c.Holder = fmt.Sprint("replica ", i) })
		d := in.Daily(func(context.Context) ([]Property, error) {
			w.mu.Lock()
			names := slices.Clone(r.names)
			w.mu.Unlock()
			return w.properties(names...), nil
		})
		d.Jitter = jitter
		d.Report = func(_ context.Context, results []Result, err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if err != nil {
				w.t.Error(err)
			}
			r.reported = append(r.reported, results...)
		}
		r.running.Go(func() { d.Run(ctx) })
	}
	return r
}

// inspected returns how often each property was reported since the last time it was called.
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

func TestDailyInspectsEachPropertyOncePerDay(t *testing.T) {
	inBubble(t, []string{"shop", "blog"}, func(t *testing.T, w *fakeUpstream) {
		w.serve(shopMap, urls("shop", 30)...)
		w.serve("https://blog.example/sitemap.xml", urls("blog", 30)...)
		r := startReplicas(w, []string{"shop", "blog"}, 0, 20*time.Minute, 40*time.Minute)
		time.Sleep(2 * time.Hour) // 1999-12-31, 18:00 in California
		for day := range 3 {
			equal(t, fmt.Sprint("inspected on day ", day), r.inspected(), map[string]int{"sc-domain:shop.example": 1, "sc-domain:blog.example": 1})
			equal(t, fmt.Sprint("calls on day ", day), len(w.inspectedURLs()), 60)
			equal(t, fmt.Sprint("days of the trend on day ", day), len(w.summary("shop").Trend), day+1)
			time.Sleep(24 * time.Hour)
		}
		r.end()
	})
}

func TestDailyDelaysOldPropertiesByJitterAndNewOnesNot(t *testing.T) {
	inBubble(t, []string{"shop", "blog"}, func(t *testing.T, w *fakeUpstream) {
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

func TestDailyStartsWithPropertiesWithoutResultsThenOldest(t *testing.T) {
	w := newUpstream(t, nil)
	at := func(hours int) *time.Time { at := noon.Add(time.Duration(hours) * time.Hour); return &at }
	property := func(id string, state sqlstore.IndexState) Property {
		return Property{Target: upstream.Target{PropertyID: id}, MaxURLs: 1, State: state}
	}
	archived, without := property("archived", sqlstore.IndexState{}), property("without a plan", sqlstore.IndexState{})
	archived.Archived, without.MaxURLs = true, 0
	properties := []Property{
		property("fresh", sqlstore.IndexState{RefreshedAt: at(-24), InspectedAt: at(-24)}),
		property("stale", sqlstore.IndexState{RefreshedAt: at(-72), InspectedAt: at(-24)}),
		property("done", sqlstore.IndexState{RefreshedAt: at(-1), InspectedAt: at(-1)}),
		property("cooling", sqlstore.IndexState{CooldownUntil: at(1)}),
		property("cooled", sqlstore.IndexState{CooldownUntil: at(-1), RefreshedAt: at(-48)}),
		archived, without, property("new", sqlstore.IndexState{}),
	}
	d := w.inspector().Daily(func(context.Context) ([]Property, error) { return properties, nil })
	ctx, stop := context.WithCancel(t.Context())
	d.Work = func(_ context.Context, due []Property) ([]Result, error) {
		defer stop()
		var ids []string
		for _, p := range due {
			ids = append(ids, p.PropertyID)
		}
		equal(t, "due", ids, []string{"new", "stale", "cooled", "fresh"})
		if p, err := d.Outcome(Result{Property: due[1], Err: errDown}); p.PropertyID != "stale" || !errors.Is(err, errDown) {
			t.Errorf("the outcome of a failure is %v of %s", err, p.PropertyID)
		}
		return nil, nil
	}
	d.Run(ctx)
}

func TestDailyEndsWithContext(t *testing.T) {
	inBubble(t, []string{"shop"}, func(t *testing.T, w *fakeUpstream) {
		w.serve(shopMap, urls("shop", 1000)...)
		r := startReplicas(w, []string{"shop"}, 0)
		time.Sleep(30 * time.Second)
		r.end()
		synctest.Wait()
		equal(t, "reports of an interrupted run", len(r.inspected()), 0)
		for _, name := range []string{"inspect", "inspect/" + w.ids["shop"]} {
			if !value(w.store.AcquireLease(t.Context(), name, "another", time.Minute))(t) {
				t.Errorf("the lease %q was not released", name)
			}
		}
	})
}

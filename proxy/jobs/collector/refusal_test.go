package collector

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sara/proxy/jobs/schedule"
	"sara/translate"
)

// inBubble runs a test with a world whose clock starts in a bubble and stands still while nobody waits.
func inBubble(t *testing.T, test func(*bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Now)
		test(&bubble{world: w, t: t, history: newMemory()})
	})
}

type bubble struct {
	*world
	t       *testing.T
	history *memory
}

// paced returns a collector with the paces of a Config's zero value.
func (b *bubble) paced(change ...func(*Config)) *Collector {
	b.t.Helper()
	config := Config{History: b.history, Source: b.world, Ledger: b.world}
	for _, f := range change {
		f(&config)
	}
	c, err := New(config)
	check(b.t, err)
	return c
}

// run collects the last week of properties.
func (b *bubble) run(c *Collector, ids ...string) []Result {
	b.t.Helper()
	results, err := c.Collect(context.Background(), b.properties(ids...), b.weeks(1))
	check(b.t, err)
	return results
}

func (b *bubble) wantWhole(ids ...string) {
	b.t.Helper()
	for _, id := range ids {
		want := 0
		for day := *b.weeks(1).Since; day <= b.anchor(); day++ {
			if b.isShown(b.property(id).Site, day) {
				want++
			}
		}
		if got := b.history.count(id); got < want {
			b.t.Errorf("%s: %d days archived, want %d", id, got, want)
		}
	}
}

// asked returns how often each property was asked about since the last call.
func (b *bubble) asked() map[string]int {
	n := make(map[string]int)
	for _, q := range b.calls() {
		n[q.property.ID]++
	}
	return n
}

// about makes questions about one property fail.
func (b *bubble) about(id string, err error) {
	b.failing(func(p Property, _ translate.Query) error {
		if p.ID == id {
			return err
		}
		return nil
	})
}

func TestAPropertyThatCannotBeReadHoldsUpNobody(t *testing.T) {
	for name, class := range map[string]schedule.Class{"access lost": schedule.AccessLost, "question rejected": schedule.Rejected} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.about("shop", refuse(class, 0))
				c := b.paced(func(c *Config) { c.Parallel = 1 })
				results := b.run(c, "shop", "blog")
				if !errors.Is(results[0].Err, errOut) || results[1].Err != nil {
					t.Errorf("got %v and %v", results[0].Err, results[1].Err)
				}
				b.wantWhole("blog")
				equal(t, "questions about what cannot be read", b.asked()["shop"], 1)
				if s := b.state("shop"); s.Failures != 1 || !strings.Contains(s.Note, errOut.Error()) {
					t.Errorf("the ledger has %+v", s)
				}
				b.run(c, "shop")
				equal(t, "failures in a row", b.state("shop").Failures, 2)
				b.failing(nil)
				b.run(c, "shop")
				if s := b.state("shop"); s.Failures != 0 || s.Note != "" {
					t.Errorf("the ledger has %+v", s)
				}
				b.wantWhole("shop")
			})
		})
	}
}

func TestALostConnectionEndsAllItsProperties(t *testing.T) {
	inBubble(t, func(b *bubble) {
		properties := b.properties("one", "two", "three", "other")
		properties[3].Connection = "another"
		b.failing(func(p Property, _ translate.Query) error {
			if p.Connection == "google" {
				return refuse(schedule.ConnectionLost, 0)
			}
			return nil
		})
		c := b.paced(func(c *Config) { c.Parallel = 1 })
		results, err := c.Collect(context.Background(), properties, b.weeks(1))
		check(t, err)
		for _, r := range results[:3] {
			if !errors.Is(r.Err, errOut) || b.state(r.Property.ID).Note == "" {
				t.Errorf("%s: %v", r.Property.ID, r.Err)
			}
		}
		b.wantWhole("other")
		asked := b.asked()
		equal(t, "questions through the lost connection", asked["one"]+asked["two"]+asked["three"], 1)
	})
}

func TestAnOutageIsWaitedForAndThenGivenUp(t *testing.T) {
	inBubble(t, func(b *bubble) {
		watch := &watch{}
		c := b.paced(func(c *Config) { c.Parallel = 1; c.Progress = watch })
		began := time.Now()
		b.about("shop", errors.New("connection reset"))
		results := b.run(c, "shop", "blog")
		if results[0].Err == nil || results[1].Err != nil {
			t.Errorf("got %v and %v", results[0].Err, results[1].Err)
		}
		b.wantWhole("blog")
		equal(t, "tries", b.asked()["shop"], patience)
		if waited := time.Since(began); waited < 7*time.Minute || waited > 8*time.Minute {
			t.Errorf("gave up after %s, want pauses of 1, 2 and 4 minutes", waited)
		}
		want := []string{"started shop", "paused shop", "started blog", "ended blog", "started shop", "paused shop",
			"started shop", "paused shop", "started shop", "ended shop"}
		if !slices.Equal(watch.told, want) {
			t.Errorf("progress: %v\nwant      %v", watch.told, want)
		}

		// It goes on where it was when the outage ends in time, and each day archived is a new lease of patience.
		n := 0
		b.failing(func(p Property, q translate.Query) error {
			if n++; n%12 == 0 {
				return refuse(schedule.Unavailable, 0)
			}
			return nil
		})
		results = b.run(c, "shop")
		if results[0].Err != nil {
			t.Errorf("after an outage: %v", results[0].Err)
		}
		b.wantWhole("shop")
	})
}

func TestASiteRestsAsLongAsTheUpstreamWantsIt(t *testing.T) {
	inBubble(t, func(b *bubble) {
		c := b.paced()
		first := true
		b.failing(func(p Property, _ translate.Query) error {
			if p.ID == "shop" && first {
				first = false
				return refuse(schedule.Quota, 15*time.Minute)
			}
			return nil
		})
		results := b.run(c, "shop", "blog")
		if results[0].Err != nil || results[1].Err != nil {
			t.Errorf("got %v and %v", results[0].Err, results[1].Err)
		}
		b.wantWhole("shop", "blog")
		asked := b.calls()
		asked = slices.DeleteFunc(asked, func(q question) bool { return q.property.ID != "shop" })
		if rest := asked[1].at.Sub(asked[0].at); rest < 15*time.Minute {
			t.Errorf("asked again after %s", rest)
		}
		if s := b.state("shop"); s.RestsUntil != nil || s.Failures != 0 || s.Note != "" {
			t.Errorf("the ledger has %+v", s)
		}
	})
}

func TestALongRestIsForTheNextRun(t *testing.T) {
	inBubble(t, func(b *bubble) {
		rests := &rests{until: make(map[string]time.Time)}
		c := b.paced(func(c *Config) { c.Rests = rests })
		began := time.Now()
		b.about("shop", refuse(schedule.Quota, 6*time.Hour))
		results := b.run(c, "shop", "blog")
		if !errors.Is(results[0].Err, errOut) || results[1].Err != nil || time.Since(began) > time.Hour {
			t.Errorf("got %v and %v after %s", results[0].Err, results[1].Err, time.Since(began))
		}
		until := b.state("shop").RestsUntil
		if until == nil || until.Sub(began) < 6*time.Hour || !rests.until["sc-domain:shop.example"].Equal(*until) {
			t.Fatalf("the site rests until %v, and for the others until %v", until, rests.until)
		}

		// Neither who reads the ledger asks, nor who hears it from the others.
		b.failing(nil)
		b.calls()
		for _, config := range []func(*Config){func(*Config) {}, func(c *Config) { c.Rests = rests }} {
			p := b.property("shop")
			if results, err := b.paced(config).Collect(context.Background(), []Property{p}, b.weeks(1)); err != nil || results[0].Err == nil {
				t.Errorf("a site at rest: %v, %v", results[0].Err, err)
			}
			b.mu.Lock()
			delete(b.states, "shop")
			b.mu.Unlock()
		}
		equal(t, "questions about a site at rest", len(b.calls()), 0)
		time.Sleep(6 * time.Hour)
		if r := b.run(c, "shop"); r[0].Err != nil {
			t.Errorf("after the rest: %v", r[0].Err)
		}
	})
}

// Of all who ask, some may be told earlier that a site rests.
type rests struct {
	mu    sync.Mutex
	until map[string]time.Time
}

func (r *rests) Resting(_ context.Context, site string) (time.Duration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if left := time.Until(r.until[site]); left > 0 {
		return left, errOut
	}
	return 0, nil
}

func (r *rests) Rest(_ context.Context, site string, _ error, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until[site] = until
}

// watch writes down what it is told.
type watch struct {
	mu   sync.Mutex
	told []string
}

func (w *watch) note(what string, p Property) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, what+" "+p.ID)
}

func (w *watch) Started(p Property, _ int)               { w.note("started", p) }
func (w *watch) Collected(Property, translate.Date)      {}
func (w *watch) Paused(p Property, _ time.Time, _ error) { w.note("paused", p) }
func (w *watch) Pruned(p Property, _ translate.Date)     { w.note("pruned", p) }
func (w *watch) Ended(p Property, _ error)               { w.note("ended", p) }

func TestCallsKeepThePace(t *testing.T) {
	spaced := func(t *testing.T, asked []question, least time.Duration, name func(Property) string) {
		t.Helper()
		last := make(map[string]time.Time)
		for _, q := range asked {
			if since := q.at.Sub(last[name(q.property)]); since < least {
				t.Errorf("two questions about %s within %s, want %s", name(q.property), since, least)
			}
			last[name(q.property)] = q.at
		}
	}
	inBubble(t, func(b *bubble) {
		properties := b.properties("one", "two", "three", "four")
		properties[1].Site = properties[0].Site
		for i := range properties {
			properties[i].Connection = properties[i].Site
		}
		collect := func(change func(*Config)) []question {
			b.history.days = newMemory().days
			if _, err := b.paced(change).Collect(context.Background(), properties, b.weeks(1)); err != nil {
				t.Error(err)
			}
			return b.calls()
		}
		spaced(t, collect(func(*Config) {}), time.Minute/DefaultPerSite, func(p Property) string { return p.Site })
		for i := range properties {
			properties[i].Connection = "google"
		}
		asked := collect(func(*Config) {})
		spaced(t, asked, time.Minute/DefaultPerConnection, func(p Property) string { return p.Connection })
		if took := asked[len(asked)-1].at.Sub(asked[0].at); took > time.Duration(len(asked))*time.Minute/DefaultPerSite {
			t.Errorf("%d questions took %s: the connection is not used as it may be", len(asked), took)
		}
		asked = collect(func(c *Config) { c.Total = 60 })
		spaced(t, asked, time.Second, func(Property) string { return "all" })
	})
}

func TestCustomersGoFirst(t *testing.T) {
	inBubble(t, func(b *bubble) {
		began := time.Now()
		b.run(b.paced(func(c *Config) { c.Busy = func() bool { return time.Since(began) < 10*time.Second } }), "shop")
		if at := b.calls()[0].at; at.Sub(began) < 10*time.Second {
			t.Errorf("asked after %s while customers were there for 10s", at.Sub(began))
		}
		// Who is always busy does not starve the archive.
		b.run(b.paced(func(c *Config) { c.Busy = func() bool { return true } }), "blog")
		asked := b.calls()
		for i := range asked[1:] {
			if since := asked[i+1].at.Sub(asked[i].at); since < DefaultBusyLimit || since > DefaultBusyLimit+time.Second {
				t.Errorf("gave way for %s, want %s", since, DefaultBusyLimit)
			}
		}
		b.wantWhole("shop", "blog")
	})
}

func TestAPauseEndsWithTheRun(t *testing.T) {
	inBubble(t, func(b *bubble) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		b.about("shop", errOut)
		results, err := b.paced().Collect(ctx, b.properties("shop"), b.weeks(1))
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(results[0].Err, context.DeadlineExceeded) {
			t.Errorf("interrupted while it waited: %v, %v", err, results[0].Err)
		}
	})
}

package collector

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
	"sara/translate"
)

// inBubble runs a test in a bubble of synctest, with its fake clock.
func inBubble(t *testing.T, test func(*bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newUpstream(t, time.Now)
		time.Sleep(2 * 24 * time.Hour) // to a week that ends with traffic for all: a quiet end counts as unpublished
		test(&bubble{fakeUpstream: w, t: t, history: newMemory()})
	})
}

type bubble struct {
	*fakeUpstream
	t       *testing.T
	history *memory
}

// paced returns a collector with the default limits.
func (b *bubble) paced(change ...func(*Config)) *Collector {
	b.t.Helper()
	config := Config{History: b.history, Gateway: b.fakeUpstream, Store: b.fakeUpstream, Current: b.current}
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
			if b.isKnown(b.property(id).Site, day) {
				want++
			}
		}
		if got := b.history.count(id); got < want {
			b.t.Errorf("%s: %d days archived, want %d", id, got, want)
		}
	}
}

// callsOf returns how many calls were made for each property since the last time it was called.
func (b *bubble) callsOf() map[string]int {
	n := make(map[string]int)
	for _, q := range b.calls() {
		n[q.target.PropertyID]++
	}
	return n
}

// failingFor makes the calls for one property fail.
func (b *bubble) failingFor(id string, err error) {
	b.failing(func(t upstream.Target, _ translate.Query) error {
		if t.PropertyID == id {
			return err
		}
		return nil
	})
}

func TestUnreadablePropertyDoesNotDelayOthers(t *testing.T) {
	for name, kind := range map[string]upstream.Kind{"forbidden": upstream.Forbidden, "rejected": upstream.Rejected} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.failingFor("shop", fail(kind, 0))
				c := b.paced(func(c *Config) { c.Parallel = 1 })
				results := b.run(c, "shop", "blog")
				if !errors.Is(results[0].Err, errDown) || results[1].Err != nil {
					t.Errorf("got %v and %v", results[0].Err, results[1].Err)
				}
				b.wantWhole("blog")
				equal(t, "calls for the unreadable property", b.callsOf()["shop"], 1)
				if s := b.state("shop"); s.Failures != 1 || !strings.Contains(s.Note, errDown.Error()) {
					t.Errorf("stored %+v", s)
				}
				b.run(c, "shop")
				equal(t, "failures in a row", b.state("shop").Failures, 2)
				b.failing(nil)
				b.run(c, "shop")
				if s := b.state("shop"); s.Failures != 0 || s.Note != "" {
					t.Errorf("stored %+v", s)
				}
				b.wantWhole("shop")
			})
		})
	}
}

// Every attempt archives days that are not final again. That is not progress: a run ends, whichever call keeps failing.
func TestRunEndsIfADayGoesOnFailing(t *testing.T) {
	for back := range translate.Date(ProvisionalDays + 1) {
		inBubble(t, func(b *bubble) {
			failed := 0
			b.failing(func(_ upstream.Target, q translate.Query) error {
				if q.Dimension != translate.ByPage || q.Range.Start != b.anchor()-back || failed > 3*schedule.MaxAttempts {
					return nil
				}
				failed++
				return fail(upstream.Unavailable, 0)
			})
			results := b.run(b.paced(), "shop")
			if !errors.Is(results[0].Err, errDown) || failed > schedule.MaxAttempts+1 {
				t.Errorf("%d days before the anchor: %d attempts, and %v", back, failed, results[0].Err)
			}
		})
	}
}

// Single days that the upstream keeps refusing do not keep the others out of the archive, however many they are.
func TestFailingDayDoesNotStopTheOthers(t *testing.T) {
	for name, kind := range map[string]upstream.Kind{"unavailable": upstream.Unavailable, "rejected": upstream.Rejected} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				bad := map[translate.Date]bool{}
				for day := *b.weeks(1).Since; len(bad) < mostFailures && day <= b.anchor(); day++ {
					if !bad[day-1] && b.kind(b.property("shop").Site, day) == busy && b.isKnown(b.property("shop").Site, day) {
						bad[day] = true
					}
				}
				equal(t, "days that fail", len(bad), mostFailures)
				b.failing(func(_ upstream.Target, q translate.Query) error {
					if q.Dimension == translate.ByPage && bad[q.Range.Start] {
						return fail(kind, 0)
					}
					return nil
				})
				if results := b.run(b.paced(), "shop"); !errors.Is(results[0].Err, errDown) {
					t.Errorf("got %v", results[0].Err)
				}
				if s := b.state("shop"); s.CollectedAt != nil || s.Failures != 1 {
					t.Errorf("stored %+v", s)
				}
				inventory, err := b.history.Days(t.Context(), "shop")
				check(t, err)
				for day := *b.weeks(1).Since; day <= b.anchor(); day++ {
					if want := !bad[day] && b.isKnown(b.property("shop").Site, day); inventory[translate.ByPage].Has(day) != want {
						t.Errorf("%s: archived %t, want %t", day, !want, want)
					}
				}
				b.failing(nil)
				b.run(b.paced(), "shop")
				b.wantWhole("shop")
			})
		})
	}
}

// A failure that does not concern only one day, or several consecutive ones, ends the attempt where it is: the days before are archived,
// and the property is incomplete.
func TestFailureFromADayOnEndsTheAttempt(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		days int // that are requested, from the first one that fails
	}{
		"unavailable": {fail(upstream.Unavailable, 0), mostFailures}, "rejected": {fail(upstream.Rejected, 0), mostFailures},
		"forbidden": {fail(upstream.Forbidden, 0), 1}, "revoked": {fail(upstream.Revoked, 0), 1}, "quota": {fail(upstream.Quota, time.Hour), 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				bad := *b.weeks(1).Since + 2
				asked := map[translate.Date]bool{}
				b.failing(func(_ upstream.Target, q translate.Query) error {
					if q.Dimension == translate.ByDate || q.Range.Start < bad {
						return nil
					}
					asked[q.Range.Start] = true
					return test.err
				})
				if results := b.run(b.paced(), "shop"); !errors.Is(results[0].Err, errDown) {
					t.Errorf("got %v", results[0].Err)
				}
				equal(t, "days asked for", len(asked), test.days)
				if s := b.state("shop"); s.Failures != 1 || s.Note == "" {
					t.Errorf("stored %+v", s)
				}
				inventory, err := b.history.Days(t.Context(), "shop")
				check(t, err)
				for day := *b.weeks(1).Since; day <= b.anchor(); day++ {
					if want := day < bad && b.isKnown(b.property("shop").Site, day); inventory[translate.ByPage].Has(day) != want {
						t.Errorf("%s: archived %t, want %t", day, !want, want)
					}
				}
				b.failing(nil)
				time.Sleep(time.Hour) // for the quota
				b.run(b.paced(), "shop")
				b.wantWhole("shop")
			})
		})
	}
}

func TestRevokedConnectionEndsAllItsProperties(t *testing.T) {
	inBubble(t, func(b *bubble) {
		properties := b.properties("one", "two", "three", "other")
		properties[3].ConnectionID = "another"
		b.change(properties...)
		b.failing(func(t upstream.Target, _ translate.Query) error {
			if t.ConnectionID == "google" {
				return fail(upstream.Revoked, 0)
			}
			return nil
		})
		c := b.paced(func(c *Config) { c.Parallel = 1 })
		results, err := c.Collect(context.Background(), properties, b.weeks(1))
		check(t, err)
		for _, r := range results[:3] {
			if !errors.Is(r.Err, errDown) || b.state(r.Property.PropertyID).Note == "" {
				t.Errorf("%s: %v", r.Property.PropertyID, r.Err)
			}
		}
		b.wantWhole("other")
		calls := b.callsOf()
		equal(t, "calls through the revoked connection", calls["one"]+calls["two"]+calls["three"], 1)
	})
}

// Only a restart with another secret key opens sealed credentials.
func TestSealedCredentialsAreNotRetried(t *testing.T) {
	for name, reason := range map[string]error{"no key": sqlstore.ErrNoSecretKey, "another key": &sqlstore.WrongKeyError{}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.failing(func(upstream.Target, translate.Query) error {
					return &upstream.CredentialsError{ConnectionID: "google", Err: fmt.Errorf("decrypt the credentials: %w", reason)}
				})
				c := b.paced(func(c *Config) { c.Parallel = 1 })
				began := time.Now()
				for _, r := range b.run(c, "shop", "blog") {
					if !errors.Is(r.Err, reason) {
						t.Errorf("%s: %v", r.Property.PropertyID, r.Err)
					}
				}
				calls := b.callsOf()
				equal(t, "attempts", calls["shop"]+calls["blog"], 1)
				if waited := time.Since(began); waited >= schedule.DefaultRetryPause {
					t.Errorf("it waited %v", waited)
				}
			})
		})
	}
}

func TestOutageIsRetriedWithBackoffThenGivenUp(t *testing.T) {
	inBubble(t, func(b *bubble) {
		progress := &recorder{}
		c := b.paced(func(c *Config) { c.Parallel = 1; c.Progress = progress })
		began := time.Now()
		b.failingFor("shop", errors.New("connection reset"))
		results := b.run(c, "shop", "blog")
		if results[0].Err == nil || results[1].Err != nil {
			t.Errorf("got %v and %v", results[0].Err, results[1].Err)
		}
		b.wantWhole("blog")
		equal(t, "attempts", b.callsOf()["shop"], schedule.MaxAttempts)
		if waited := time.Since(began); waited < 7*time.Minute || waited > 8*time.Minute {
			t.Errorf("gave up after %s, want pauses of 1, 2 and 4 minutes", waited)
		}
		want := []string{"started shop", "paused shop", "started blog", "ended blog", "started shop", "paused shop",
			"started shop", "paused shop", "started shop", "ended shop"}
		if !slices.Equal(progress.events, want) {
			t.Errorf("progress: %v\nwant      %v", progress.events, want)
		}

		// An archived day resets the count of failed attempts, so outages do not end a run that makes progress.
		attempts := translate.Date(0)
		b.failing(func(_ upstream.Target, q translate.Query) error {
			if q.Dimension == translate.ByDate {
				attempts++
			} else if q.Range.Start >= *b.weeks(1).Since+attempts {
				return fail(upstream.Unavailable, 0)
			}
			return nil
		})
		results = b.run(c, "shop")
		if results[0].Err != nil || attempts <= schedule.MaxAttempts {
			t.Errorf("after %d attempts: %v", attempts, results[0].Err)
		}
		b.wantWhole("shop")
	})
}

// recorder is a Progress that records its calls.
type recorder struct {
	schedule.NoProgress
	mu     sync.Mutex
	events []string
}

func (r *recorder) record(event string, t upstream.Target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event+" "+t.PropertyID)
}

func (r *recorder) Started(t upstream.Target, _ int)               { r.record("started", t) }
func (r *recorder) Planned(map[string]int)                         {}
func (r *recorder) Paused(t upstream.Target, _ time.Time, _ error) { r.record("paused", t) }
func (r *recorder) Ended(t upstream.Target, _ error)               { r.record("ended", t) }

func TestCallsKeepTheLimits(t *testing.T) {
	spaced := func(t *testing.T, calls []call, least time.Duration, name func(upstream.Target) string) {
		t.Helper()
		last := make(map[string]time.Time)
		for _, c := range calls {
			if since := c.at.Sub(last[name(c.target)]); since < least {
				t.Errorf("two calls for %s within %s, want %s", name(c.target), since, least)
			}
			last[name(c.target)] = c.at
		}
	}
	inBubble(t, func(b *bubble) {
		properties := b.properties("one", "two", "three", "four")
		properties[1].Site = properties[0].Site
		for i := range properties {
			properties[i].ConnectionID = properties[i].Site
		}
		collect := func(change func(*Config)) []call {
			b.change(properties...)
			b.history.days = newMemory().days
			if _, err := b.paced(change).Collect(context.Background(), properties, b.weeks(1)); err != nil {
				t.Error(err)
			}
			return b.calls()
		}
		spaced(t, collect(func(*Config) {}), time.Minute/DefaultPerSite, func(t upstream.Target) string { return t.Site })
		for i := range properties {
			properties[i].ConnectionID = "google"
		}
		calls := collect(func(*Config) {})
		spaced(t, calls, time.Minute/DefaultPerConnection, func(t upstream.Target) string { return t.ConnectionID })
		if took := calls[len(calls)-1].at.Sub(calls[0].at); took > time.Duration(len(calls))*time.Minute/DefaultPerSite {
			t.Errorf("%d calls took %s: the limit of the connection is not used up", len(calls), took)
		}
		// Neither do calls that have waited together for a busy server.
		idle := time.Now().Add(10 * time.Second)
		calls = collect(func(c *Config) { c.Busy = func() bool { return time.Now().Before(idle) } })
		spaced(t, calls, time.Minute/DefaultPerConnection, func(t upstream.Target) string { return t.ConnectionID })
		calls = collect(func(c *Config) { c.Total = 60 })
		spaced(t, calls, time.Second, func(upstream.Target) string { return "all" })
	})
}

func TestCallsYieldToTrafficUpToTheLimit(t *testing.T) {
	inBubble(t, func(b *bubble) {
		began := time.Now()
		b.run(b.paced(func(c *Config) { c.Busy = func() bool { return time.Since(began) < 10*time.Second } }), "shop")
		if at := b.calls()[0].at; at.Sub(began) < 10*time.Second {
			t.Errorf("called after %s of a server that is busy for 10s", at.Sub(began))
		}
		// A server that is always busy does not starve the job.
		b.run(b.paced(func(c *Config) { c.Busy = func() bool { return true } }), "blog")
		calls := b.calls()
		for i := range calls[1:] {
			if since := calls[i+1].at.Sub(calls[i].at); since < schedule.BusyLimit || since > schedule.BusyLimit+time.Second {
				t.Errorf("yielded for %s, want %s", since, schedule.BusyLimit)
			}
		}
		b.wantWhole("shop", "blog")
	})
}

func TestPauseEndsWithContext(t *testing.T) {
	inBubble(t, func(b *bubble) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		b.failingFor("shop", errDown)
		results, err := b.paced().Collect(ctx, b.properties("shop"), b.weeks(1))
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(results[0].Err, context.DeadlineExceeded) {
			t.Errorf("interrupted while it paused: %v, %v", err, results[0].Err)
		}
	})
}

// A retry archives the last days again, because they are provisional. They count once.
func TestDaysThatARetryArchivesAgainCountOnce(t *testing.T) {
	inBubble(t, func(b *bubble) {
		since, failed := b.anchor()-5, false
		b.failing(func(_ upstream.Target, q translate.Query) error {
			if !failed && q.Dimension == translate.ByDevice && q.Range.Start == b.anchor()-4 {
				failed = true
				return fail(upstream.Unavailable, 0)
			}
			return nil
		})
		results, err := b.paced().Collect(context.Background(), b.properties("shop"), Span{Since: &since})
		check(b.t, err)
		if n := b.history.count("shop"); !failed || results[0].Days != n {
			b.t.Errorf("failed %t; the result counts %d days, and the archive has %d", failed, results[0].Days, n)
		}
	})
}

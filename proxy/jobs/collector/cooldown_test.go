package collector

import (
	"errors"
	"slices"
	"testing"
	"time"

	"sara/proxy/jobs/schedule"
	"sara/proxy/upstream"
	"sara/translate"
)

func TestQuotaErrorStartsCooldownOfSite(t *testing.T) {
	inBubble(t, func(b *bubble) {
		c := b.paced()
		first := true
		b.failing(func(t upstream.Target, _ translate.Query) error {
			if t.PropertyID == "shop" && first {
				first = false
				return fail(upstream.Quota, 15*time.Minute)
			}
			return nil
		})
		results := b.run(c, "shop", "blog")
		if results[0].Err != nil || results[1].Err != nil {
			t.Errorf("got %v and %v", results[0].Err, results[1].Err)
		}
		b.wantWhole("shop", "blog")
		calls := slices.DeleteFunc(b.calls(), func(c call) bool { return c.target.PropertyID != "shop" })
		if pause := calls[1].at.Sub(calls[0].at); pause < 15*time.Minute {
			t.Errorf("called again after %s", pause)
		}
		if s := b.state("shop"); s.CooldownUntil != nil || s.Failures != 0 || s.Note != "" {
			t.Errorf("stored %+v", s)
		}
	})
}

func TestCooldownOfAClockThatWasAheadIsOver(t *testing.T) {
	inBubble(t, func(b *bubble) {
		properties, until := b.properties("shop"), time.Now().AddDate(0, 0, 40)
		properties[0].State.CooldownUntil = &until
		results, err := b.paced().Collect(b.t.Context(), properties, b.weeks(1))
		if err != nil || results[0].Err != nil {
			t.Errorf("got %v, %v", results, err)
		}
		b.wantWhole("shop")
	})
}

// Properties of one site share its cooldown, whichever of them is refused last, and whatever was recorded for each.
func TestCooldownOfASiteIsTheLongest(t *testing.T) {
	inBubble(t, func(b *bubble) {
		r := &run{Collector: b.paced(), cooldowns: map[string]time.Time{}}
		p := b.properties("shop")[0]
		want := func(left time.Duration) {
			t.Helper()
			if until, cooling := r.cooldown(p.Site); !cooling || time.Until(until) != left {
				t.Errorf("in cooldown: %t, for %s", cooling, time.Until(until))
			}
		}
		r.cool(p.Site, time.Now().AddDate(0, 0, 40)) // of a clock that was ahead
		r.remember(p, fail(upstream.Quota, 15*time.Minute))
		want(15 * time.Minute)
		r.remember(p, fail(upstream.Quota, time.Minute))
		r.cool(p.Site, time.Now().Add(-time.Minute))
		want(15 * time.Minute)
		r.remember(p, fail(upstream.Quota, 6*time.Hour))
		want(6 * time.Hour)
	})
}

func TestLongCooldownIsLeftToTheNextRun(t *testing.T) {
	inBubble(t, func(b *bubble) {
		c := b.paced()
		began := time.Now()
		b.failingFor("shop", fail(upstream.Quota, 6*time.Hour))
		results := b.run(c, "shop", "blog")
		if !errors.Is(results[0].Err, errDown) || results[1].Err != nil || time.Since(began) > time.Hour {
			t.Errorf("got %v and %v after %s", results[0].Err, results[1].Err, time.Since(began))
		}
		until := b.state("shop").CooldownUntil
		if until == nil || until.Sub(began) < 6*time.Hour {
			t.Fatalf("the site is in cooldown until %v", until)
		}

		// A run that reads the saved state makes no calls for the site.
		b.failing(nil)
		b.calls()
		results = b.run(b.paced(), "shop")
		var cooldown *schedule.CooldownError
		if !errors.As(results[0].Err, &cooldown) || !cooldown.Until.Equal(*until) {
			t.Errorf("during the cooldown: %v", results[0].Err)
		}
		equal(t, "calls for a site in cooldown", len(b.calls()), 0)
		time.Sleep(6 * time.Hour)
		if r := b.run(c, "shop"); r[0].Err != nil {
			t.Errorf("after the cooldown: %v", r[0].Err)
		}
	})
}

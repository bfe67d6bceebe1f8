package collector

import (
	"context"
	"errors"
	"testing"

	"sara/archive"
	"sara/translate"
)

func TestProvisionalDaysAreQueriedAgain(t *testing.T) {
	w, folder := newUpstream(t, nil), t.TempDir()
	first := *w.weeks(3).Since
	for range 5 {
		c := w.collector(folder)
		w.collect(c, Span{Since: &first}, "shop")
		w.wantArchived(folder, "shop", first, w.anchor())
		w.passDay()
	}
	w.calls()
	w.collect(w.collector(folder), Span{Since: &first}, "shop")
	for _, q := range w.calls() {
		if q.query.Dimension != translate.ByDate && w.isFinal(q.query.Site, q.query.Range.Start, w.anchor()-1) {
			t.Errorf("queried %s again, although it is final", q.query.Range.Start)
		}
	}
}

// The upstream may show the last day late. It must not be archived as a day without traffic.
func TestDaysNotShownYetAreLeftForLater(t *testing.T) {
	w, folder := newUpstream(t, nil), t.TempDir()
	span := w.weeks(3)
	for w.kind("sc-domain:shop.example", w.anchor()) != busy || w.kind("sc-domain:shop.example", w.anchor()-1) != busy {
		w.passDay()
	}
	w.late = 1
	c := w.collector(folder)
	w.collect(c, span, "shop")
	w.wantArchived(folder, "shop", *span.Since, w.anchor()-1)
	w.late = 0
	w.collect(c, span, "shop")
	w.wantArchived(folder, "shop", *span.Since, w.anchor())
}

// The upstream may publish several days late. Such days are not days without traffic: they are archived once they are published, not before.
func TestUnpublishedDaysAreArchivedOncePublished(t *testing.T) {
	const site = "sc-domain:shop.example"
	for name, steady := range map[string]bool{"a steady site": true, "a site with days without traffic": false} {
		t.Run(name, func(t *testing.T) {
			w, folder := newUpstream(t, nil), t.TempDir()
			span := w.weeks(3)
			quietDays := func(from, to translate.Date) (n int) {
				for day := from; day <= to; day++ {
					if k := w.kind(site, day); k == quiet || k == unshown {
						n++
					}
				}
				return n
			}
			latest := func() translate.Date { return w.anchor() - translate.LongestLag }
			for quietDays(latest(), w.anchor()) > 0 || quietDays(latest()-14, latest()-1) > 0 == steady {
				w.passDay()
			}
			c := w.collector(folder)
			for w.late = translate.LongestLag; w.late >= 0; w.late-- {
				w.unsettled = w.late // the last published days may change
				w.collect(c, span, "shop")
				w.wantArchived(folder, "shop", *span.Since, w.anchor()-translate.Date(w.late))
			}
		})
	}
}

// If the upstream is later than ever, or the clock is ahead, days that are not published count as days without traffic, but not for good.
func TestDaysAreCollectedAgainUntilLaterOnesHaveFigures(t *testing.T) {
	w, folder := newUpstream(t, nil), t.TempDir()
	span := w.weeks(6)
	for _, w.late = range []int{settledDays - ProvisionalDays, 0} {
		w.unsettled = w.late
		w.collect(w.collector(folder), span, "shop")
	}
	w.wantArchived(folder, "shop", *span.Since, w.anchor())
}

// The upstream may publish a day after the days that follow it. Until then it looks like a day without traffic, but it is not one for good.
func TestGapsAreArchivedOnceFilled(t *testing.T) {
	const site = "sc-domain:shop.example"
	w, folder := newUpstream(t, nil), t.TempDir()
	for w.kind(site, w.anchor()-4) != busy || w.kind(site, w.anchor()) != busy {
		w.passDay()
	}
	span := Span{Since: w.weeks(3).Since}
	for _, w.gap = range []translate.Date{w.anchor() - 4, 0} {
		w.collect(w.collector(folder), span, "shop")
		w.wantArchived(folder, "shop", *span.Since, w.anchor())
		w.passDay()
	}
}

// Days without traffic cost a call when they are archived, and one when they are final.
func TestDaysWithoutTrafficAreNotQueriedEachTime(t *testing.T) {
	const site = "sc-domain:shop.example"
	w, folder := newUpstream(t, nil), t.TempDir()
	first := *w.weeks(3).Since
	calls := map[translate.Date]int{}
	for range 30 {
		w.collect(w.collector(folder), Span{Since: &first}, "shop")
		for _, q := range w.calls() {
			if day := q.query.Range.Start; q.query.Dimension == translate.ByDevice && !w.hasFigures(site, day) {
				calls[day]++
			}
		}
		w.passDay()
	}
	if len(calls) < 3 {
		t.Errorf("only %d days without traffic", len(calls))
	}
	for day, n := range calls {
		if n > 2 {
			t.Errorf("%s was queried %d times", day, n)
		}
	}
}

// The start of the upstream's window is an estimate. Days there that the upstream has lost are not days without traffic if the site has
// had traffic on every day since.
func TestLostDaysAreNotArchived(t *testing.T) {
	const site = "sc-domain:shop.example"
	for name, steady := range map[string]bool{"a steady site": true, "a site with days without traffic": false} {
		t.Run(name, func(t *testing.T) {
			w, folder := newUpstream(t, nil), t.TempDir()
			w.lost = 2
			since := func() translate.Date { return w.firstKept() - translate.Date(w.lost) }
			isSteady := func() bool {
				for day := w.firstKept(); day <= w.firstKept()+14; day++ {
					if k := w.kind(site, day); k == quiet || k == unshown {
						return false
					}
				}
				return true
			}
			for w.kind(site, w.firstKept()) != busy || isSteady() != steady {
				w.passDay()
			}
			first, until := since(), w.firstKept()+2
			if steady {
				first = w.firstKept()
			}
			w.collect(w.collector(folder), Span{Until: &until}, "shop")
			inventory, err := openHistory(t, folder).Days(t.Context(), "shop")
			check(t, err)
			for _, by := range archive.Dimensions() {
				if c := inventory[by]; c.First != first || c.Last < w.firstKept() {
					t.Errorf("%s: archived from %s to %s, want from %s", by, c.First, c.Last, first)
				}
			}
		})
	}
}

func TestContradictoryDaysAreNotArchived(t *testing.T) {
	w := newUpstream(t, nil)
	span := w.weeks(3)
	odd := *span.Since
	for w.kind("sc-domain:shop.example", odd) != busy {
		odd++
	}
	// The series has no traffic on a day on which devices have some.
	lying := lyingGateway{w, odd}
	c := w.collector(t.TempDir(), func(c *Config) { c.Gateway = lying })
	results, err := c.Collect(context.Background(), w.properties("shop"), span)
	check(t, err)
	var contradiction *ContradictionError
	if !errors.As(results[0].Err, &contradiction) || len(contradiction.Days) != 1 || contradiction.Days[0] != odd {
		t.Fatalf("got %v, want a contradiction on %s", results[0].Err, odd)
	}
	inventory, err := c.config.History.Days(context.Background(), "shop")
	check(t, err)
	for by, coverage := range inventory {
		if coverage.Has(odd) || !coverage.Has(odd+1) {
			t.Errorf("%s: %s archived %t, the day after %t", by, odd, coverage.Has(odd), coverage.Has(odd+1))
		}
	}
	if s := w.state("shop"); s.Failures != 1 || s.CollectedAt != nil || s.Note == "" {
		t.Errorf("stored %+v", s)
	}
}

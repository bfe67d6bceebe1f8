package collector

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"sara/archive"
	"sara/archive/bucket/s3test"
	"sara/proxy/jobs/schedule"
	"sara/proxy/upstream"
	"sara/translate"
)

// weeks returns a span of n weeks up to the anchor.
func (w *fakeUpstream) weeks(n int) Span {
	since := w.anchor() - translate.Date(7*n) + 1
	return Span{Since: &since}
}

func TestCollectArchivesEveryDayOfTheUpstream(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	w, folder := newUpstream(t, nil), t.TempDir()
	c := w.collector(folder)
	began := w.now()
	w.collect(c, Span{}, "shop")
	live := translate.NewWindow(w.anchor(), 36).UpstreamStart
	w.wantArchived(folder, "shop", live, w.anchor())

	equal(t, "calls", len(w.calls()), w.callsFor("shop", live))
	s := w.state("shop")
	if s.First == nil || *s.First != live || s.Last == nil || *s.Last != w.anchor() || s.CollectedAt == nil ||
		!s.CollectedAt.Equal(began) || s.CooldownUntil != nil || s.Failures != 0 || s.Note != "" {
		t.Errorf("stored %+v", s)
	}

	// A second run queries only one series and the provisional days, and changes nothing.
	before := objects(t, folder)
	w.collect(w.collector(folder), Span{}, "shop")
	for _, q := range w.calls() {
		if day := q.query.Range.Start; q.query.Dimension != translate.ByDate && w.isFinal(q.query.Site, day, w.anchor()) {
			t.Errorf("queried %s of %s again", q.query.Dimension, day)
		}
	}
	wantSameObjects(t, objects(t, folder), before)
}

func TestInterruptedRunsArchiveTheSameBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, seed))
	w, whole, broken := newUpstream(t, nil), t.TempDir(), t.TempDir()
	span := w.weeks(8)
	w.collect(w.collector(whole), span, "shop", "blog")
	for interrupted := 0; ; interrupted++ {
		ctx, cancel := context.WithCancel(context.Background())
		left := 1 + rng.IntN(120)
		w.failing(func(upstream.Target, translate.Query) error {
			switch left--; {
			case left <= 0 && interrupted%3 == 0:
				return fail(upstream.Rejected, 0)
			case left == 0:
				cancel()
			}
			return nil
		})
		c := w.collector(broken, func(c *Config) { c.Parallel = 1; c.FlushDays = 1 + rng.IntN(12) })
		results, err := c.Collect(ctx, w.properties("shop", "blog"), span)
		cancel()
		if err == nil && results[0].Err == nil && results[1].Err == nil {
			if interrupted < 5 {
				t.Errorf("seed %d: only %d interruptions", seed, interrupted)
			}
			break
		}
		if err != nil && (!errors.Is(err, context.Canceled) || results[1].Err == nil) {
			t.Fatalf("interrupted: %v, results %+v", err, results)
		}
	}
	wantSameObjects(t, objects(t, broken), objects(t, whole))
	w.failing(nil)
}

func TestInterruptionLosesOnlyBufferedDays(t *testing.T) {
	w, folder := newUpstream(t, nil), t.TempDir()
	span := w.weeks(15)
	const after = 200
	n := 0
	ctx, cancel := context.WithCancel(context.Background())
	w.failing(func(upstream.Target, translate.Query) error {
		if n++; n == after {
			cancel()
		}
		return nil
	})
	_, err := w.collector(folder).Collect(ctx, w.properties("shop"), span)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	w.failing(nil)
	w.calls()
	w.collect(w.collector(folder), span, "shop")
	w.wantArchived(folder, "shop", *span.Since, w.anchor())
	if again := after + len(w.calls()) - w.callsFor("shop", *span.Since); again > 1+4*(DefaultFlushDays+1) {
		t.Errorf("%d calls were repeated after an interruption", again)
	}
}

func TestConcurrentCollectorsArchiveTheSameBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	w, alone, shared := newUpstream(t, nil), t.TempDir(), t.TempDir()
	span := w.weeks(5)
	w.collect(w.collector(alone), span, "shop", "blog")
	var both sync.WaitGroup
	for n := range 2 {
		both.Go(func() {
			w.collect(w.collector(shared, func(c *Config) { c.FlushDays = 3 + 4*n }), span, "shop", "blog")
		})
	}
	both.Wait()
	wantSameObjects(t, objects(t, shared), objects(t, alone))
}

func TestCollectArchivesToS3(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	location := s3test.Start(t).NewBucket(t)
	w := newUpstream(t, nil)
	span := w.weeks(5)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { w.collect(w.collector(location), span, "shop", "blog") })
	}
	both.Wait()
	for _, id := range []string{"shop", "blog"} {
		w.wantArchived(location, id, *span.Since, w.anchor())
	}
}

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

// Rows that the archive cannot hold do not stop the collection: rows with the same key are added up, and rows without a key are left out.
func TestOddKeysAreArchivedWithoutThem(t *testing.T) {
	w, folder, notices := newUpstream(t, nil), t.TempDir(), &notices{}
	span := w.weeks(1)
	odd := &oddGateway{fakeUpstream: w}
	w.collect(w.collector(folder, func(c *Config) { c.Gateway, c.Progress = odd, notices }), span, "shop")
	w.wantArchived(folder, "shop", *span.Since, w.anchor())
	if len(notices.all) != 1 || notices.all[0] != odd.without || odd.without == 0 {
		t.Errorf("%d rows without a key, and the notices %v", odd.without, notices.all)
	}
}

// oddGateway splits the first row of an answer into two with the same key, and adds one without a key.
type oddGateway struct {
	*fakeUpstream
	without LeftRows // over all answers, for one property at a time
}

// Query implements Gateway.
func (g *oddGateway) Query(ctx context.Context, t upstream.Target, q translate.Query) (*translate.Rows, error) {
	rows, err := g.fakeUpstream.Query(ctx, t, q)
	if err != nil || q.Dimension == translate.ByDate || rows.Len() == 0 {
		return rows, err
	}
	g.without++
	whole := rows.Metrics(0)
	half := translate.Metrics{Clicks: whole.Clicks / 2, Impressions: whole.Impressions / 2, Position: whole.Position}
	var b translate.RowsBuilder
	b.Add(rows.Key(0), translate.Metrics{Clicks: whole.Clicks - half.Clicks, Impressions: whole.Impressions - half.Impressions,
		Position: whole.Position})
	b.Add(rows.Key(0), half)
	b.Add(nil, translate.Metrics{Impressions: 1, Position: 1})
	for i := 1; i < min(rows.Len(), q.RowLimit-2); i++ {
		b.Add(rows.Key(i), rows.Metrics(i))
	}
	return b.Rows(), nil
}

// notices keeps the notices of a run.
type notices struct {
	schedule.NoProgress
	mu  sync.Mutex
	all []fmt.Stringer // guarded by mu
}

// Noticed implements schedule.Progress.
func (n *notices) Noticed(_ upstream.Target, notice fmt.Stringer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, notice)
}

// lyingGateway omits a day from the series.
type lyingGateway struct {
	*fakeUpstream
	odd translate.Date
}

// Query implements Gateway.
func (g lyingGateway) Query(ctx context.Context, t upstream.Target, q translate.Query) (*translate.Rows, error) {
	rows, err := g.fakeUpstream.Query(ctx, t, q)
	if err != nil || q.Dimension != translate.ByDate {
		return rows, err
	}
	var b translate.RowsBuilder
	for i := range rows.Len() {
		if string(rows.Key(i)) != g.odd.String() {
			b.Add(rows.Key(i), rows.Metrics(i))
		}
	}
	return b.Rows(), nil
}

// A damaged object is left for a person to inspect: it is neither overwritten nor retried. Other months and properties are not affected.
func TestDamagedArchiveIsLeftAsItIs(t *testing.T) {
	w, folder := newUpstream(t, nil), t.TempDir()
	span := w.weeks(2)
	w.collect(w.collector(folder), span, "shop")
	for name := range objects(t, folder) {
		check(t, os.WriteFile(folder+name, []byte("PAR1 and no more"), 0o600))
	}
	damaged := objects(t, folder)
	w.passDay()
	since := *span.Since - 60
	results, err := w.collector(folder).Collect(context.Background(), w.properties("shop", "blog"), Span{Since: &since})
	check(t, err)
	var object *archive.ObjectError
	if !errors.As(results[0].Err, &object) || results[1].Err != nil {
		t.Errorf("got %v and %v", results[0].Err, results[1].Err)
	}
	w.wantArchived(folder, "blog", since, w.anchor())
	inventory, err := openHistory(t, folder).Days(t.Context(), "shop")
	if !errors.As(err, &object) {
		t.Error(err)
	}
	equal(t, "first day beside the damaged months", inventory[translate.ByPage].First, since)
	after := objects(t, folder)
	for name := range damaged {
		equal(t, name, after[name], damaged[name])
	}
}

// unlisted is a History that cannot be listed.
type unlisted struct{ History }

func (unlisted) Days(context.Context, string) (archive.Inventory, error) {
	return nil, errors.New("the object store is down")
}

// Nothing is known of an archive that cannot be listed. No call is made to collect it again.
func TestUnlistedArchiveIsNotCollectedAgain(t *testing.T) {
	inBubble(t, func(b *bubble) {
		c := b.paced(func(c *Config) { c.History = unlisted{b.history} })
		if results := b.run(c, "shop"); results[0].Err == nil || len(b.calls()) > 0 {
			t.Errorf("got %v", results[0].Err)
		}
	})
}

func TestEstimateOfTheDaysToCollect(t *testing.T) {
	const anchor = translate.Date(20_000)
	since, until, late := anchor-9, anchor-4, anchor+7
	all, early, beyond := Span{Since: &since}, Span{Since: &since, Until: &until}, Span{Since: &since, Until: &late}
	for _, c := range []struct {
		span        Span
		first, last translate.Date // archived; 0: none
		months      int            // of retention
		archived    bool           // by its user
		want        int            // -1: not estimated
	}{
		{all, 0, 0, 36, false, 10}, {early, 0, 0, 36, false, 6}, {beyond, 0, 0, 36, false, 10},
		{all, anchor - 99, anchor - 20, 36, false, 10}, {all, anchor - 99, anchor - 6, 36, false, 6}, {all, anchor - 7, anchor - 6, 36, false, 8},
		{all, anchor - 99, anchor, 36, false, ProvisionalDays}, {early, anchor - 99, anchor, 36, false, 0},
		{Span{Since: &late}, 0, 0, 36, false, 0}, {all, 0, 0, 0, false, -1}, {all, 0, 0, 36, true, -1},
	} {
		r := &run{anchor: anchor, span: c.span}
		p := Property{Target: upstream.Target{PropertyID: "shop"}, RetentionMonths: c.months, Archived: c.archived}
		if c.first != 0 {
			p.State.First, p.State.Last = &c.first, &c.last
		}
		if got, ok := r.estimate([]Property{p})["shop"]; ok != (c.want >= 0) || ok && got != c.want {
			t.Errorf("%+v: %d days", c, got)
		}
	}
}

func TestSpanAndRetentionBoundTheDays(t *testing.T) {
	w := newUpstream(t, nil)
	folder := t.TempDir()
	c, ctx := w.collector(folder), context.Background()
	since, until := w.anchor()-40, w.anchor()-20
	w.collect(c, Span{Since: &since, Until: &until}, "shop")
	w.wantArchived(folder, "shop", since, until)
	if s := w.state("shop"); s.CollectedAt != nil {
		t.Errorf("a span counts as a complete run, at %s", s.CollectedAt)
	}

	small := w.property("small")
	small.RetentionMonths = 2
	w.change(small)
	early := w.anchor() - 200
	_, err := c.Collect(ctx, []Property{small}, Span{Since: &early})
	check(t, err)
	w.wantArchived(folder, "small", translate.NewWindow(w.anchor(), 2).Earliest, w.anchor())

	none := w.property("none")
	none.RetentionMonths = 0
	w.change(none)
	w.calls()
	results, err := c.Collect(ctx, []Property{none}, Span{})
	check(t, err)
	if !errors.Is(results[0].Err, ErrNotKept) || len(w.calls()) > 0 {
		t.Errorf("a plan that keeps nothing: %v", results[0].Err)
	}
}

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

// A site that had traffic on each of the days before, but none on the last day of a span, does not wait for the upstream: that day is long
// published.
func TestQuietEndOfAPastSpanIsArchived(t *testing.T) {
	w, folder := newUpstream(t, nil), t.TempDir()
	until := translate.NewDate(2026, 7, 19)
	since := until - 20
	site := w.property("shop").Site
	for day := until - 15; day <= until; day++ {
		if w.hasFigures(site, day) != (day < until) {
			t.Fatalf("%s has figures: %t", day, w.hasFigures(site, day))
		}
	}
	w.collect(w.collector(folder), Span{Since: &since, Until: &until}, "shop")
	w.wantArchived(folder, "shop", since, until)
}

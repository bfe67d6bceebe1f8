package inspector

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sara/archive/sqlstore"
	"sara/proxy/jobs/schedule"
	"sara/proxy/upstream"
	"sara/translate"
)

const shopMap = "https://shop.example/sitemap.xml"

func TestInspectInspectsAndPublishesEveryURL(t *testing.T) {
	w := newUpstream(t, nil, "shop")
	w.serve(shopMap, urls("shop", 4)...)
	w.clicks["https://shop.example/0002"] = 7
	labels := map[string]string{"https://shop.example/0000": "Not found (404)", "https://shop.example/0001": "Page with redirect",
		"https://shop.example/0003": "Something new"}
	w.label = func(url string) string {
		if label, ok := labels[url]; ok {
			return label
		}
		return "Submitted and indexed"
	}
	r := w.inspect("shop", Options{})
	equal(t, "result", []any{r.URLs, r.Inspected, r.Left, r.Capped, len(r.Problems), r.Err}, []any{4, 4, 0, false, 0, nil})
	equal(t, "progress", w.events, []string{"4 URLs", "started 4", "inspected https://shop.example/0002",
		"inspected https://shop.example/0000", "inspected https://shop.example/0001", `Search Console reports "Something new", which is in no known bucket`,
		"inspected https://shop.example/0003", "ended true"})
	s := w.summary("shop")
	day := w.calendar.Day(noon)
	equal(t, "trend", s.Trend, []sqlstore.IndexDay{{Date: day, URLs: 4, Indexed: 1, NotIndexed: 1, Error: 1, Unknown: 1}})
	if s.State.Source != "sitemap+performance" || !s.State.DiscoveredAt.Equal(noon) || !s.State.InspectedAt.Equal(noon) || !s.State.RefreshedAt.Equal(noon) ||
		s.State.Failures != 0 || s.State.Note != "" {
		t.Errorf("stored %+v", s.State)
	}
	if m := s.Sitemaps[0]; m.Path != shopMap || !m.LastDownloaded.Equal(noon) || *m.IsPending || *m.Warnings != 1 || *m.Errors != 2 {
		t.Errorf("stored %+v", m)
	}
	got := w.results("shop")["https://shop.example/0003"]
	if got.CoverageState != "Something new" || got.Verdict != "PASS" || !got.LastCrawl.Equal(noon.AddDate(0, 0, -1)) || !got.At.Equal(noon) {
		t.Errorf("stored %+v", got)
	}

	// A second run has nothing to do today, and all of it tomorrow.
	w.inspectedURLs()
	r = w.inspect("shop", Options{})
	equal(t, "on the same day", []any{r.Inspected, r.Left, r.Err, len(w.inspectedURLs())}, []any{0, 0, nil, 0})
	w.passDay()
	r = w.inspect("shop", Options{})
	equal(t, "on the next day", []any{r.Inspected, r.Left, r.Err, len(w.summary("shop").Trend)}, []any{4, 0, nil, 2})
}

func TestReadersSeeResultsOnlyWhenPublished(t *testing.T) {
	w := newUpstream(t, nil, "shop")
	w.serve(shopMap, urls("shop", 5)...)
	w.inspect("shop", Options{})
	w.passDay()
	w.label = func(string) string { return "Soft 404" }
	before := w.results("shop")
	w.during = func(context.Context, string) { equal(t, "results during the run", w.results("shop"), before) }
	w.inspect("shop", Options{})
	for url, u := range w.results("shop") {
		if u.CoverageState != "Soft 404" {
			t.Errorf("%s has %+v after the run", url, u)
		}
	}
}

func TestMaxAndPlanBoundARun(t *testing.T) {
	w := newUpstream(t, nil, "shop")
	w.serve(shopMap, urls("shop", 10)...)
	r := w.inspect("shop", Options{Max: new(4)})
	equal(t, "at most four", []any{r.Inspected, r.Left, r.Err, len(w.results("shop"))}, []any{4, 6, nil, 4})
	if w.summary("shop").State.InspectedAt != nil {
		t.Error("a partial run counts as complete")
	}
	w.fails = func(upstream.Target, string, int) error { return fail(upstream.Rejected) }
	if r = w.inspect("shop", Options{}); r.Err == nil || strings.Contains(r.Err.Error(), "full user") {
		t.Errorf("after some were inspected today, a run of rejected ones ends with %v", r.Err)
	}
	w.fails = nil
	r = w.inspect("shop", Options{Max: new(7)})
	equal(t, "at most seven", []any{r.Inspected, r.Left, r.Err}, []any{6, 0, nil})
	if w.summary("shop").State.InspectedAt == nil {
		t.Error("a complete run does not count as complete")
	}
	w.inspect("shop", Options{})
	started := slices.DeleteFunc(w.events, func(event string) bool { return !strings.HasPrefix(event, "started") })
	equal(t, "progress", started, []string{"started 4", "started 6", "started 6"})
	w.inspectedURLs()
	if _, err := w.inspector().Inspect(t.Context(), w.properties("shop"), Options{Max: new(-1)}); err == nil {
		t.Error("a negative maximum is accepted")
	}
	none, archived := w.property("shop"), w.property("shop")
	none.MaxURLs, archived.Archived = 0, true
	for _, r := range value(w.inspector().Inspect(t.Context(), []Property{none, archived}, Options{}))(t) {
		if !errors.Is(r.Err, ErrNotInspected) {
			t.Errorf("not to be inspected: %v", r.Err)
		}
	}
	equal(t, "calls", len(w.inspectedURLs()), 0)
}

func TestPlannedAreTheURLsOfTheLastDiscoveryThatAreDue(t *testing.T) {
	w := newUpstream(t, nil, "shop")
	w.serve(shopMap, urls("shop", 10)...)
	plan := func(when string, opts Options, want map[string]int, change func(*Property)) {
		t.Helper()
		w.change = change
		w.inspect("shop", opts)
		equal(t, when, w.planned, want)
	}
	shop, unchanged := w.ids["shop"], func(*Property) {}
	plan("without a discovery", Options{}, map[string]int{shop: 0}, unchanged)
	plan("inspected today", Options{}, map[string]int{shop: 0}, unchanged)
	w.passDay()
	plan("archived", Options{}, map[string]int{}, func(p *Property) { p.Archived = true })
	plan("without a plan", Options{}, map[string]int{}, func(p *Property) { p.MaxURLs = 0 })
	plan("bounded", Options{Max: new(4)}, map[string]int{shop: 4}, unchanged)
	plan("bounded by more", Options{Max: new(40)}, map[string]int{shop: 10}, unchanged)
	w.passDay()
	plan("with a plan for one URL", Options{}, map[string]int{shop: 10}, func(p *Property) { p.MaxURLs = 1 })
	w.passDay()
	plan("after that", Options{}, map[string]int{shop: 1}, unchanged)
}

func TestResultExplainsWhyURLsAreLeft(t *testing.T) {
	w := newUpstream(t, nil, "shop")
	w.serve(shopMap, urls("shop", 10)...)
	w.fails = func(_ upstream.Target, url string, _ int) error {
		if url == urls("shop", 10)[4] {
			return fail(upstream.Rejected)
		}
		return nil
	}
	r := w.inspect("shop", Options{Max: new(0)})
	equal(t, "none", []any{r.Inspected, r.Left, r.Err, r.Why}, []any{0, 10, nil, nil})
	equal(t, "progress of none", w.events, []string{"10 URLs", "ended true"})
	if s := w.summary("shop").State; s.DiscoveredAt == nil || s.RefreshedAt != nil {
		t.Errorf("discovered only: %+v", s)
	}
	r = w.inspect("shop", Options{})
	if r.Inspected != 9 || r.Left != 1 || r.Err != nil || !errors.Is(r.Why, errDown) || !strings.Contains(r.Why.Error(), urls("shop", 10)[4]) {
		t.Errorf("skipped: %+v", r)
	}
	w.passDay()
	w.perDay = 3 // one of them for the URL that is rejected
	if r = w.inspect("shop", Options{}); r.Inspected != 2 || r.Left != 8 || r.Err != nil || !errors.Is(r.Why, errDayUsedUp) {
		t.Errorf("used up: %+v", r)
	}
	w.passDay()
	w.fails = func(upstream.Target, string, int) error { return fail(upstream.Rejected) }
	if r = w.inspect("shop", Options{}); r.Inspected != 0 || r.Left != 10 || r.Err != nil || !errors.Is(r.Why, errDayUsedUp) {
		t.Errorf("used up by those that are rejected: %+v", r)
	}
	equal(t, "days of the trend, one without a result", len(w.summary("shop").Trend), 3)
	w.passDay()
	w.fails, w.perDay = nil, 100
	if r = w.inspect("shop", Options{}); r.Left != 0 || r.Err != nil || r.Why != nil {
		t.Errorf("all: %+v", r)
	}
}

// The first URL shows whether the property can be inspected at all.
func TestInspectionsAreInParallelOnceOneIsAnswered(t *testing.T) {
	inBubble(t, []string{"shop"}, func(t *testing.T, w *fakeUpstream) {
		const parallel = 3
		w.serve(shopMap, urls("shop", 1+2*parallel)...)
		var mu sync.Mutex
		running, began := 0, map[time.Duration]int{} // by when they began
		start := time.Now()
		w.during = func(ctx context.Context, _ string) {
			mu.Lock()
			running++
			began[time.Since(start).Truncate(time.Second)]++
			if running > parallel {
				t.Errorf("%d at the same time", running)
			}
			mu.Unlock()
			_ = schedule.Sleep(ctx, time.Minute)
			mu.Lock()
			running--
			mu.Unlock()
		}
		r := w.inspect("shop", Options{}, func(c *Config) { c.ParallelInspections = parallel })
		equal(t, "inspected", r.Inspected, 1+2*parallel)
		equal(t, "began", began, map[time.Duration]int{0: 1, time.Minute: parallel, 2 * time.Minute: parallel})
	})
}

func TestPropertiesAreInParallel(t *testing.T) {
	for parallel, want := range map[int]time.Duration{1: 2 * time.Hour, 2: time.Hour} {
		inBubble(t, []string{"shop", "blog"}, func(t *testing.T, w *fakeUpstream) {
			w.serve(shopMap, urls("shop", 1)...)
			w.serve("https://blog.example/sitemap.xml", urls("blog", 1)...)
			w.during = func(ctx context.Context, _ string) { _ = schedule.Sleep(ctx, time.Hour) }
			began := time.Now()
			value(w.inspector(func(c *Config) { c.Parallel = parallel }).Inspect(t.Context(), w.properties("shop", "blog"), Options{}))(t)
			equal(t, fmt.Sprint(parallel, " at a time"), time.Since(began).Truncate(time.Hour), want)
		})
	}
}

// The quota of a call in flight is spent, so an interrupted run waits for its answer, up to callGrace.
func TestInterruptedRunWaitsForCallsInFlight(t *testing.T) {
	inBubble(t, []string{"shop"}, func(t *testing.T, w *fakeUpstream) {
		w.serve(shopMap, urls("shop", 2)...)
		for i, url := range urls("shop", 2) {
			takes := []time.Duration{callGrace / 2, 2 * callGrace}[i]
			ctx, interrupt := context.WithCancel(t.Context())
			w.during = func(ctx context.Context, inspected string) {
				if inspected == url {
					interrupt()
					_ = schedule.Sleep(ctx, takes)
				}
			}
			began := time.Now()
			_, err := w.inspector().Inspect(ctx, w.properties("shop"), Options{})
			if !errors.Is(err, context.Canceled) || time.Since(began) > callGrace+time.Minute {
				t.Errorf("%s: ended with %v after %v", url, err, time.Since(began))
			}
			for _, u := range value(w.store.TrackedURLs(context.Background(), w.ids["shop"]))(t) {
				if u.URL == url && (u.InspectedAt != nil) != (takes < callGrace) {
					t.Errorf("%s after %v: %v", url, takes, u.InspectedAt)
				}
			}
		}
	})
}

func TestUsedUpDayLeavesURLsForTheNextDay(t *testing.T) {
	w := newUpstream(t, nil, "shop")
	w.perDay = 4
	w.serve(shopMap, urls("shop", 10)...)
	for day, want := range [][]any{{4, 6, nil}, {4, 6, nil}, {4, 6, nil}} {
		r := w.inspect("shop", Options{})
		equal(t, fmt.Sprint("day ", day), []any{r.Inspected, r.Left, r.Err}, want)
		if s := w.summary("shop"); s.State.InspectedAt == nil || !s.State.InspectedAt.Equal(w.now()) || s.State.CooldownUntil != nil {
			t.Errorf("day %d: %+v", day, s.State)
		}
		w.passDay()
	}
	pages := urls("shop", 10)
	equal(t, "calls", w.inspectedURLs(), append(slices.Clone(pages), pages[:2]...))
}

func TestInterruptedRunsLoseNoResults(t *testing.T) {
	const seed, pages = 11, 60
	for _, parallel := range []int{1, 8} {
		t.Run(fmt.Sprint(parallel, " at a time"), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, seed))
			w := newUpstream(t, nil, "shop")
			w.serve(shopMap, urls("shop", pages)...)
			interruptions, staged := 0, 0
			for ; ; interruptions++ {
				ctx, cancel := context.WithCancel(context.Background())
				left := 1 + rng.IntN(12)
				before := rng.IntN(2) == 0
				w.during = func(context.Context, string) {
					w.mu.Lock()
					defer w.mu.Unlock()
					if left--; left == 0 {
						cancel()
					}
				}
				w.fails = func(upstream.Target, string, int) error {
					if before { // the answer is lost
						return ctx.Err()
					}
					return nil
				}
				results, err := w.inspector(func(c *Config) { c.ParallelInspections = parallel }).Inspect(ctx, w.properties("shop"), Options{})
				cancel()
				if err == nil {
					check(t, results[0].Err)
					break
				}
				if !errors.Is(err, context.Canceled) || !errors.Is(results[0].Err, context.Canceled) {
					t.Fatalf("interrupted: %v, %v", err, results[0].Err)
				}
				now := 0
				for _, u := range value(w.store.TrackedURLs(t.Context(), w.ids["shop"]))(t) {
					if u.InspectedAt != nil {
						now++
					}
				}
				if now < staged {
					t.Errorf("%d results were staged, now %d are", staged, now)
				}
				staged = now
			}
			equal(t, "results", len(w.results("shop")), pages)
			if again := len(w.inspectedURLs()) - pages; again > interruptions*parallel || interruptions < 4 {
				t.Errorf("seed %d: %d URLs were inspected again after %d interruptions", seed, again, interruptions)
			}
		})
	}
}

func TestStagedURLsAreNotInspectedAgain(t *testing.T) {
	w := newUpstream(t, nil, "shop")
	w.serve(shopMap, urls("shop", 10)...)
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	w.during = func(context.Context, string) {
		if n++; n == 7 {
			cancel()
		}
	}
	_, err := w.inspector().Inspect(ctx, w.properties("shop"), Options{})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	equal(t, "published by a run that was interrupted", len(w.results("shop")), 0)
	if slices.ContainsFunc(w.events, func(event string) bool { return strings.HasPrefix(event, "ended") }) {
		t.Error("a run that was interrupted ends a property")
	}
	w.during = func(context.Context, string) {
		if len(w.results("shop")) < 6 {
			t.Error("staged results are not published before the next inspections")
		}
	}
	before := w.inspectedURLs()
	w.inspect("shop", Options{})
	equal(t, "results", len(w.results("shop")), 10)
	for _, url := range w.inspectedURLs() {
		if slices.Contains(before[:6], url) {
			t.Errorf("%s was inspected again", url)
		}
	}
}

// The staged results are published before the discovery, which may then change what there is to count.
func TestStagedURLsThatAreGoneAreNotCounted(t *testing.T) {
	w := newUpstream(t, nil, "shop")
	w.serve(shopMap, urls("shop", 5)...)
	ctx, cancel := context.WithCancel(context.Background())
	w.during = func(_ context.Context, url string) {
		if url == urls("shop", 5)[4] {
			cancel()
		}
	}
	if _, err := w.inspector().Inspect(ctx, w.properties("shop"), Options{}); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	w.serve(shopMap, urls("shop", 4)...)
	r := w.inspect("shop", Options{})
	equal(t, "the next run", []any{r.URLs, r.Left, r.Err}, []any{4, 0, nil})
	equal(t, "URLs of the trend", w.summary("shop").Trend[0].URLs, 4)
}

func TestRejectedURLIsSkippedAndRejectedPropertyGivenUp(t *testing.T) {
	const pages = 40
	bad := func(n int) func(string) bool {
		return func(url string) bool { return url < fmt.Sprintf("https://shop.example/%04d", n) }
	}
	for name, test := range map[string]struct {
		bad                      func(url string) bool
		before                   bool // all were inspected on an earlier day
		inspected, calls, failed int
	}{
		"one":                         {bad(1), false, pages - 1, pages, 0},
		"four in a row":               {bad(4), false, pages - 4, pages, 0},
		"many in a row, but not all":  {bad(30), false, 10, pages, 0},
		"all":                         {bad(pages), false, 0, maxRejections, 1},
		"all, although it was better": {bad(pages), true, 0, maxRejections, 1},
	} {
		for _, kind := range []upstream.Kind{upstream.Rejected, upstream.Forbidden} {
			t.Run(fmt.Sprint(name, " ", kind), func(t *testing.T) {
				w := newUpstream(t, nil, "shop")
				w.serve(shopMap, urls("shop", pages)...)
				if test.before {
					w.inspect("shop", Options{})
					w.inspectedURLs()
					w.passDay()
				}
				w.fails = func(_ upstream.Target, url string, _ int) error {
					if test.bad(url) {
						return fail(kind)
					}
					return nil
				}
				r := w.inspect("shop", Options{})
				equal(t, "inspected", r.Inspected, test.inspected)
				equal(t, "left", r.Left, pages-test.inspected)
				equal(t, "calls", len(w.inspectedURLs()), test.calls)
				s := w.summary("shop").State
				equal(t, "failures", s.Failures, test.failed)
				if test.failed > 0 != (r.Err != nil) || test.failed > 0 && (r.Why != nil || !strings.Contains(s.Note, "full user") || !errors.Is(r.Err, errDown)) {
					t.Errorf("ended with %v, note %q", r.Err, s.Note)
				}
			})
		}
	}
	w := newUpstream(t, nil, "shop")
	w.serve(shopMap, urls("shop", 2)...)
	w.fails = func(upstream.Target, string, int) error { return fail(upstream.Rejected) }
	if r := w.inspect("shop", Options{}); r.Left != 2 || r.Err == nil || !strings.Contains(r.Err.Error(), "full user") {
		t.Errorf("a property of two URLs: %+v", r)
	}
	inBubble(t, []string{"shop"}, func(t *testing.T, w *fakeUpstream) { // the workers are refused before one of them has probed
		all := urls("shop", pages)
		w.serve(shopMap, all...)
		w.during = func(ctx context.Context, _ string) { _ = schedule.Sleep(ctx, time.Minute) }
		w.fails = func(_ upstream.Target, url string, _ int) error {
			if slices.Contains(all[1:1+2*maxRejections], url) {
				return fail(upstream.Rejected)
			}
			return nil
		}
		r := w.inspect("shop", Options{}, func(c *Config) { c.ParallelInspections = 2 * maxRejections })
		equal(t, "in parallel", []any{r.Inspected, r.Err}, []any{pages - 2*maxRejections, nil})
	})
}

func TestRevokedConnectionEndsAllItsProperties(t *testing.T) {
	for name, lose := range map[string]func(w *fakeUpstream, lost func(upstream.Target) error){
		"while it discovers": func(w *fakeUpstream, lost func(upstream.Target) error) { w.lists = lost },
		"while it inspects": func(w *fakeUpstream, lost func(upstream.Target) error) {
			w.fails = func(t upstream.Target, _ string, _ int) error { return lost(t) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			names := []string{"shop", "blog", "other"}
			w := newUpstream(t, nil, names...)
			for _, name := range names {
				w.serve("https://"+name+".example/sitemap.xml", urls(name, 5)...)
				w.inspect(name, Options{})
			}
			w.passDay()
			calls := 0
			lose(w, func(target upstream.Target) error {
				if target.ConnectionID == "google" {
					calls++
					return fail(upstream.Revoked)
				}
				return nil
			})
			w.change = func(p *Property) {
				if p.PropertyID == w.ids["other"] {
					p.ConnectionID = "another"
				}
			}
			results := value(w.inspector(func(c *Config) { c.Parallel = 1 }).Inspect(t.Context(), w.properties(names...), Options{}))(t)
			for i, r := range results {
				lost := i < 2
				if lost != errors.Is(r.Err, errDown) || lost && strings.Count(r.Err.Error(), errDown.Error()) != 1 || !lost && r.Inspected != 5 {
					t.Errorf("%s: %+v", names[i], r)
				}
				if lost && strings.Contains(r.Err.Error(), "full user") {
					t.Errorf("%s: a lost connection is explained by a refusal: %v", names[i], r.Err)
				}
				if at := w.summary(names[i]).State.InspectedAt; lost == at.Equal(w.now()) {
					t.Errorf("%s: the day counts as inspected at %s", names[i], at)
				}
			}
			equal(t, "calls through the revoked connection", calls, 1)
		})
	}
}

func TestQuotaAndTrendUseTheDayOfTheUpstream(t *testing.T) {
	w := newUpstream(t, nil, "shop")
	at := noon.Add(11*time.Hour + 59*time.Minute) // 23:59 in California
	w.now = func() time.Time { return at }
	w.perDay = 3
	w.serve(shopMap, urls("shop", 5)...)
	w.during = func(_ context.Context, url string) {
		if url == "https://shop.example/0002" {
			at = at.Add(2 * time.Minute)
		}
	}
	// The run continues with the quota of the new day, and the next run has only what is due since.
	r := w.inspect("shop", Options{})
	equal(t, "over midnight", []any{r.Inspected, r.Left, r.Err}, []any{5, 0, nil})
	r = w.inspect("shop", Options{})
	equal(t, "after midnight", []any{r.Inspected, r.Left}, []any{1, 1})
	inspected := w.inspectedURLs()
	equal(t, "after midnight", inspected[5:], urls("shop", 1))
	equal(t, "day", w.summary("shop").Trend[0].Date, translate.NewDate(2026, 11, 22))
}

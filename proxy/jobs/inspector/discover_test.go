package inspector

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"sara/proxy/jobs/sitemap"
	"sara/proxy/upstream"
)

const (
	shopIndex = "https://shop.example/index.xml"
	shopMore  = "https://shop.example/more.xml"
)

// at returns a URL of the shop.
func at(path string) string { return "https://shop.example/" + path }

func TestDiscoveryMergesSitemapsAndTraffic(t *testing.T) {
	w := newUpstream(t, nil, "shop")
	w.serve(shopIndex)
	w.files[shopIndex] = file{names: []string{shopMap, shopMore}}
	w.files[shopMap] = file{urls: []string{at("a"), at("b"), "https://else.example/"}}
	w.files[shopMore] = file{urls: []string{at("b"), at("c#top")}, problem: "it broke off"}
	w.listed[0].LastDownloaded = time.Time{}
	w.clicks[at("b")], w.clicks[at("d")], w.clicks[at("d#part")] = 3, 0, 2
	w.live = map[string]int64{at("a"): 5, at("b#part"): 4, at("elsewhere"): 9}
	r := w.inspect("shop", Options{})
	equal(t, "tracked", w.tracked("shop"), map[string][]string{
		at("a"): {shopIndex, shopMap}, at("b"): {shopIndex, shopMore, shopMap}, at("c"): {shopIndex, shopMore}, at("d"): nil,
	})
	equal(t, "problems", r.Problems, []SitemapProblem{{shopMore, "it broke off"}})
	for _, u := range value(w.store.TrackedURLs(t.Context(), w.ids["shop"]))(t) {
		if want := map[string]int64{at("a"): 5, at("b"): 4, at("d"): 2}[u.URL]; u.Clicks != want {
			t.Errorf("%s has %d clicks, want %d", u.URL, u.Clicks, want)
		}
	}
	for _, s := range w.summary("shop").Sitemaps {
		if listed := s.Path == shopIndex; listed != (s.IsPending != nil) || listed != (s.Errors != nil) || s.LastDownloaded != nil ||
			(s.Problem != "") != (s.Path == shopMore) {
			t.Errorf("stored %+v", s)
		}
	}
}

func TestUnreadableSitemapKeepsItsURLs(t *testing.T) {
	all := map[string][]string{
		at("a"): {shopIndex, shopMap}, at("b"): {shopIndex, shopMore, shopMap}, at("c"): {shopIndex, shopMore}, at("d"): nil,
	}
	without := func(urls ...string) map[string][]string {
		rest := maps.Clone(all)
		for _, url := range urls {
			delete(rest, at(url))
		}
		return rest
	}
	for name, test := range map[string]struct {
		then     func(w *fakeUpstream)
		want     map[string][]string
		problems []string
	}{
		"nothing changes": {func(*fakeUpstream) {}, all, nil},
		"one file is out": {func(w *fakeUpstream) { w.files[shopMore] = file{problem: "404"} },
			map[string][]string{at("a"): all[at("a")], at("b"): all[at("b")], at("c"): all[at("c")], at("d"): nil}, []string{shopMore}},
		"one file breaks off": {func(w *fakeUpstream) { w.files[shopMore] = file{urls: []string{at("b")}, problem: "broken"} }, all, []string{shopMore}},
		"the index is out":    {func(w *fakeUpstream) { w.files[shopIndex] = file{problem: "500"} }, all, []string{shopIndex, shopMore, shopMap}},
		"a page is gone":      {func(w *fakeUpstream) { w.files[shopMore] = file{urls: []string{at("b")}} }, without("c"), nil},
		"traffic is gone":     {func(w *fakeUpstream) { clear(w.clicks) }, without("d"), nil},
		"a file is gone": {func(w *fakeUpstream) { w.files[shopIndex] = file{names: []string{shopMap}} },
			map[string][]string{at("a"): {shopIndex, shopMap}, at("b"): {shopIndex, shopMap}, at("d"): nil}, nil},
		"the index is not listed": {func(w *fakeUpstream) { w.listed = nil }, map[string][]string{at("d"): nil}, nil},
		"a page moves while the other file is out": {func(w *fakeUpstream) {
			w.files[shopMap], w.files[shopMore] = file{urls: []string{at("a"), at("c")}}, file{problem: "404"}
		}, map[string][]string{at("a"): {shopIndex, shopMap}, at("b"): {shopIndex, shopMore},
			at("c"): {shopIndex, shopMore, shopMap}, at("d"): nil}, []string{shopMore}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newUpstream(t, nil, "shop")
			w.serve(shopIndex)
			w.files[shopIndex] = file{names: []string{shopMap, shopMore}}
			w.files[shopMap] = file{urls: []string{at("a"), at("b")}}
			w.files[shopMore] = file{urls: []string{at("b"), at("c")}}
			w.clicks[at("d")] = 1
			w.inspect("shop", Options{})
			equal(t, "tracked at first", w.tracked("shop"), all)
			test.then(w)
			for range 2 { // URLs that were kept are kept again
				w.passDay()
				r := w.inspect("shop", Options{})
				check(t, r.Err)
				equal(t, "tracked", w.tracked("shop"), test.want)
				var problems []string
				for _, p := range r.Problems {
					problems = append(problems, p.Path)
				}
				slices.Sort(problems)
				equal(t, "problems", problems, test.problems)
				noticed := slices.DeleteFunc(w.events, func(event string) bool { return !strings.HasPrefix(event, "sitemap ") })
				equal(t, "problems in the progress", len(noticed), len(test.problems))
				w.events = nil
			}
		})
	}
}

func TestDiscoveryKeepsURLsWithMostClicks(t *testing.T) {
	w := newUpstream(t, nil, "shop")
	pages := urls("shop", 10)
	w.serve(shopMap, pages[2:]...)
	w.clicks[pages[9]], w.clicks[pages[0]] = 9, 5
	capped := func(maxURLs int) Result {
		t.Helper()
		w.change = func(p *Property) { p.MaxURLs = maxURLs }
		return w.inspect("shop", Options{})
	}
	kept := func() []string { return slices.Sorted(maps.Keys(w.tracked("shop"))) }
	r := capped(4)
	equal(t, "kept", kept(), []string{pages[0], pages[2], pages[3], pages[9]})
	equal(t, "result", []any{r.URLs, r.Capped, w.summary("shop").State.Capped}, []any{4, true, true})

	// A new URL replaces a tracked one only if it has more clicks.
	w.serve(shopMap, append(pages[1:], at("more"))...)
	capped(4)
	equal(t, "kept of equals", kept(), []string{pages[0], pages[2], pages[3], pages[9]})
	w.clicks[at("more")] = 1
	capped(4)
	equal(t, "kept after a click", kept(), []string{pages[0], pages[2], pages[9], at("more")})

	r = capped(11)
	equal(t, "all", []any{r.URLs, r.Capped}, []any{11, false})
	w.full = true
	if r = capped(100); !r.Capped {
		t.Error("sitemaps that were not read to the end do not count as capped")
	}
}

func TestDiscoverySource(t *testing.T) {
	for want, test := range map[string]struct {
		listed, visited []string
		maxURLs         int
	}{
		"":                    {nil, nil, 10},
		"sitemap":             {[]string{"a"}, nil, 10},
		"performance":         {nil, []string{"a"}, 10},
		"sitemap+performance": {[]string{"a"}, []string{"b"}, 10},
	} {
		w := newUpstream(t, nil, "shop")
		for _, path := range test.listed {
			w.serve(shopMap, at(path))
		}
		for _, path := range test.visited {
			w.clicks[at(path)] = 1
		}
		check(t, w.inspect("shop", Options{}).Err)
		if s := w.summary("shop").State; s.Source != want || s.DiscoveredAt == nil || s.RefreshedAt == nil {
			t.Errorf("%v, %v: %+v, want the source %q", test.listed, test.visited, s, want)
		}
	}
	// Only sources of URLs that were kept count.
	f := findings{clicks: map[string]int64{"a": 1}, found: found("b")}
	equal(t, "source of what is kept", f.discovery(1).Source, "performance")
	f = findings{clicks: map[string]int64{"a": 1, "b": 1}, found: found("a")}
	equal(t, "source of the first", f.discovery(2).Source, "sitemap+performance")
}

func TestFailedDiscoveryStillInspectsTrackedURLs(t *testing.T) {
	w := newUpstream(t, nil, "shop")
	w.serve(shopMap, urls("shop", 3)...)
	w.inspect("shop", Options{})
	w.inspectedURLs()
	w.passDay()
	w.serve(shopMap, urls("shop", 2)...)
	w.lists = func(upstream.Target) error { return fail(upstream.Forbidden) }
	r := w.inspect("shop", Options{})
	equal(t, "result", []any{r.URLs, r.Inspected, len(w.tracked("shop"))}, []any{3, 3, 3})
	s := w.summary("shop").State
	if !errors.Is(r.Err, errDown) || s.Failures != 1 || s.Note != r.Err.Error() || s.InspectedAt.Equal(w.now()) || !s.RefreshedAt.Equal(w.now()) {
		t.Errorf("ended with %v, stored %+v", r.Err, s)
	}
	// When it works again, inspections are not repeated.
	w.lists = nil
	w.inspectedURLs()
	r = w.inspect("shop", Options{})
	s = w.summary("shop").State
	if r.Err != nil || len(w.inspectedURLs()) > 0 || s.Failures != 0 || s.Note != "" || !s.InspectedAt.Equal(w.now()) || s.URLs != 2 {
		t.Errorf("ended with %v, stored %+v", r.Err, s)
	}
}

// An empty discovery erases the tracked URLs only if every source could be read.
func TestEmptyDiscoveryDoesNotEraseURLs(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(w *fakeUpstream)
		want    string
	}{
		"an unreadable sitemap": {func(w *fakeUpstream) {
			w.serve(shopMap)
			w.files[shopMap] = file{problem: "it answers 500"}
		}, "it answers 500"},
		"no history yet": {func(w *fakeUpstream) { w.unarchived = true }, "no pages with traffic have been archived yet"},
	} {
		w := newUpstream(t, nil, "shop")
		test.prepare(w)
		r := w.inspect("shop", Options{})
		s := w.summary("shop")
		if r.Err == nil || !strings.Contains(r.Err.Error(), test.want) || s.State.DiscoveredAt != nil || s.State.RefreshedAt != nil ||
			s.State.InspectedAt != nil || !strings.Contains(s.State.Note, test.want) {
			t.Errorf("%s: %v, %+v", name, r.Err, s.State)
		}
	}
	// Tracked URLs stay, with their results.
	w := newUpstream(t, nil, "shop")
	w.serve(shopMap, urls("shop", 3)...)
	check(t, w.inspect("shop", Options{}).Err)
	w.inspectedURLs()
	w.listed = nil
	r := w.inspect("shop", Options{})
	if s := w.summary("shop").State; r.Err == nil || s.URLs != 3 || len(w.results("shop")) != 3 || len(w.inspectedURLs()) > 0 {
		t.Errorf("%v, %+v", r.Err, s)
	}
}

// found returns what a Reader finds in one sitemap.
func found(pages ...string) (f sitemap.Found) {
	f.Files = []sitemap.File{{Path: shopMap, URLs: len(pages)}}
	for _, url := range pages {
		f.URLs = append(f.URLs, sitemap.URL{Address: url, Files: []int32{0}})
	}
	return f
}

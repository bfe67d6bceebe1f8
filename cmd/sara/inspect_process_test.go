package main

import (
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/clitest"
	"sara/proxy/upstream/gscsim"
	"sara/translate"
)

// testInspectServed compares the API after an inspection with Search Console.
func testInspectServed(t *testing.T, binary string) {
	w := clitest.NewInspectWorld(t, 64)
	c := clitest.NewInspectCLI(t, sara, w, w.Shop, w.Blog, w.Guest)
	key, _ := c.Object(clitest.KeyMembers+" key", "key", "create", "ann@example.com", "--name", "test")["key"].(string)
	p := start(t, binary, c.Env, "inspect", "--json")
	if printed, err := p.wait(); err == nil || strings.Count(printed, `"complete":true`) != 2 {
		t.Fatalf("inspect: %v, %s\n%s", err, printed, p.stderr)
	}
	server, base, _ := serving(t, binary, c.Env)
	of := func(site string) clitest.CoverageAPI {
		return clitest.CoverageAPI{T: t, Property: base + "/v1/properties/" + w.Slug(site), Key: key}
	}

	wantServed(w, of(w.Shop), w.Shop, 3)
	wantServed(w, of(w.Blog), w.Blog, 1)

	// The property that may not be inspected has no coverage, but still serves figures.
	guest := of(w.Guest)
	if s := guest.Summary(""); s.Data.Status != "pending_inspection" || clitest.Value(s.Data.URLCount) != len(w.Labels(w.Guest)) ||
		clitest.Value(s.Data.Totals.Indexed) != 0 || clitest.Value(s.Data.Totals.NotIndexed) != 0 || s.Data.LastRefreshedAt != nil {
		t.Errorf("without an inspection: %+v", s)
	}
	if a := clitest.WantStatus(t, http.StatusOK, guest.Property, key); !strings.Contains(a.Body, `"healthy":true`) {
		t.Errorf("a property that may not be inspected: %s", a.Body)
	}
	clitest.WantStatus(t, http.StatusOK, guest.Property+"/summary", key)
	server.stopped()
}

// wantServed compares the API for a site whose URLs were all inspected today with Search Console.
func wantServed(w *clitest.InspectWorld, a clitest.CoverageAPI, site string, sitemaps int) {
	a.T.Helper()
	labels, s := w.Labels(site), a.Summary("?include_trend=true&days=30")
	a.WantAgreement(s)
	want := make(map[string]int)
	for _, label := range labels {
		want[label]++
	}
	for _, row := range s.Data.Breakdown {
		if bucket, known := translate.BucketOf(row.CoverageState); row.Count != want[row.CoverageState] || row.Bucket != bucket.String() || !known {
			a.T.Errorf("%s: %+v, want %d", site, row, want[row.CoverageState])
		}
	}
	if len(s.Data.Breakdown) != len(want) || clitest.Value(s.Data.URLCount) != len(labels) || *s.Data.URLsCapped ||
		*s.Data.DiscoverySource != "sitemap" || len(s.Data.Sitemaps) != sitemaps || len(s.Data.Trend) != 1 || len(s.Meta.Notes) > 0 {
		a.T.Errorf("%s: %+v, want %d URLs and %v", site, s, len(labels), want)
	}
	listed := a.URLs("sort", "url")
	for _, row := range listed.Data.Rows {
		if labels[row.URL] != row.CoverageState || row.Verdict == "" || row.LastInspectedAt == "" {
			a.T.Errorf("%+v, want %q", row, labels[row.URL])
		}
	}
	if listed.Meta.Total != len(labels) || len(listed.Data.Rows) != len(labels) {
		a.T.Errorf("%s: %d of %d URLs, want %d", site, len(listed.Data.Rows), listed.Meta.Total, len(labels))
	}
}

// A kill is the state of an inspection when its process was killed.
type kill struct {
	results []string // the URLs that had one
	calls   int      // inspections so far
}

// testInspectKilled kills an inspector at several points, and checks that no result is lost, requested twice, or visible before
// it is published.
func testInspectKilled(t *testing.T, binary string) {
	w := clitest.NewInspectWorld(t, 64)
	if err := w.SetFaults(gscsim.Faults{LatencyMS: 40}); err != nil {
		t.Fatal(err)
	}
	c := clitest.NewInspectCLI(t, sara, w, w.Shop)
	store := c.Later()
	id := c.PropertyID(store, "shop")
	observed := observe(t, store, id)
	var kills []kill
	// At the first sitemap, at the last, and somewhere between the answers.
	for _, after := range []int{1, 3, 5 + rand.IntN(8), 5 + rand.IntN(25), 5 + rand.IntN(25)} {
		started := make(chan *process, 1)
		w.InSteps(after, func() { (<-started).signal(os.Kill) })
		p := start(t, binary, c.Env, "inspect")
		started <- p
		if _, err := p.wait(); err == nil {
			t.Errorf("it ended before step %d", after)
		}
		k := kill{results(c, store, id), len(w.InspectedURLs())}
		t.Logf("killed at step %d: %d URLs have a result after %d inspections", after, len(k.results), k.calls)
		kills = append(kills, k)
		expire(c, store, id)
	}
	w.InSteps(0, nil)
	p := start(t, binary, c.Env, "inspect")
	if _, err := p.wait(); err != nil {
		t.Errorf("inspect: %v\n%s", err, p.stderr)
	}
	wantSpared(t, w, kills)
	labels := w.Labels(w.Shop)
	ended := []int{0, len(labels)}
	for _, k := range kills {
		ended = append(ended, len(k.results))
	}
	for _, inspected := range observed() {
		if !slices.Contains(ended, inspected) {
			t.Errorf("readers saw %d URLs, and runs ended with %v", inspected, ended)
		}
	}
	page, err := store.IndexedURLs(t.Context(), id, sqlstore.IndexQuery{Order: translate.Order{By: "url"}, Limit: 500})
	if err != nil || page.Total != len(labels) {
		t.Errorf("%d URLs have a result (%v), want %d", page.Total, err, len(labels))
	}
	for _, row := range page.Rows {
		if labels[row.URL] != row.CoverageState {
			t.Errorf("%+v, want %q", row, labels[row.URL])
		}
	}
}

// wantSpared checks that no URL with a result was inspected again: a kill costs at most the calls in flight.
func wantSpared(t *testing.T, w *clitest.InspectWorld, kills []kill) {
	t.Helper()
	calls := w.InspectedURLs()
	for _, k := range kills {
		for _, url := range calls[k.calls:] {
			if slices.Contains(k.results, url) {
				t.Errorf("%s was inspected once more", url)
			}
		}
	}
	const underWay = 8 // at a time
	if urls := len(w.Labels(w.Shop)); len(calls) < urls || len(calls) > urls+underWay*len(kills) {
		t.Errorf("%d inspections of %d URLs with %d kills", len(calls), urls, len(kills))
	}
}

// testServeStopsInspecting stops a server during its inspections. It must release its leases, so that the next server need not
// wait.
func testServeStopsInspecting(t *testing.T, binary string) {
	w := clitest.NewInspectWorld(t, 24)
	if err := w.SetFaults(gscsim.Faults{LatencyMS: 40}); err != nil {
		t.Fatal(err)
	}
	c := clitest.NewInspectCLI(t, sara, w, w.Shop)
	store := c.Open(time.Now)
	midst := make(chan struct{})
	w.InSteps(12, func() { close(midst) })
	server, _, _ := serving(t, binary, append(slices.Clone(c.Env), "SARA_INSPECT=on"))
	select {
	case <-midst:
	case <-time.After(clitest.Hurry):
		t.Fatal("it does not inspect")
	}
	server.stopped()
	id := c.PropertyID(store, "shop")
	stopped := kill{results(c, store, id), len(w.InspectedURLs())}
	if n := len(stopped.results); n == 0 || n == len(w.Labels(w.Shop)) {
		t.Errorf("%d URLs had a result when it was stopped", n)
	}
	if s, err := store.IndexSummary(t.Context(), id, nil); err != nil || agreed(t, &s) != 0 {
		t.Errorf("readers see %+v of a run that has not ended (%v)", s, err)
	}
	for _, lease := range []string{"inspect", "inspect/" + id} {
		if got, err := store.AcquireLease(t.Context(), lease, "the next", time.Nanosecond); err != nil || !got {
			t.Errorf("the lease %q is not released (%v)", lease, err)
		}
	}
	if list := c.Array(clitest.InspectMembers, "inspect"); len(list) != 1 || list[0]["complete"] != true {
		t.Errorf("the next run: %v", list)
	}
	wantSpared(t, w, []kill{stopped})
}

// expire expires the lease of a killed process, with a store whose clock is past it.
func expire(c *clitest.CLI, store *sqlstore.Store, id string) {
	c.T.Helper()
	const name, holder = "inspect/", "the next process"
	got, err := store.AcquireLease(c.T.Context(), name+id, holder, time.Minute)
	if err == nil && got {
		err = store.ReleaseLease(c.T.Context(), name+id, holder)
	}
	if err != nil || !got {
		c.T.Fatalf("the lease cannot be acquired: %v", err)
	}
}

// observe polls the coverage of a property until its result is called, which returns the numbers of inspected URLs that readers
// saw, in order.
func observe(t *testing.T, store *sqlstore.Store, id string) func() []int {
	t.Helper()
	stop, done := make(chan struct{}), make(chan []int)
	go func() {
		var seen []int
		from := translate.Date(0)
		for ended := false; !ended; {
			select {
			case <-stop:
				ended = true // after a last look
			case <-time.After(2 * time.Millisecond):
			}
			s, err := store.IndexSummary(t.Context(), id, &from)
			if err != nil {
				t.Error(err)
				break
			}
			inspected := agreed(t, &s)
			if len(seen) == 0 || seen[len(seen)-1] != inspected {
				seen = append(seen, inspected)
			}
		}
		done <- seen
	}()
	return func() []int {
		close(stop)
		return <-done
	}
}

// agreed returns the number of URLs with a result in a summary, and checks that its parts agree.
func agreed(t *testing.T, s *sqlstore.IndexSummary) int {
	inspected, indexed := 0, 0
	for _, c := range s.Coverage {
		inspected += c.Count
		if c.Bucket == translate.BucketIndexed {
			indexed += c.Count
		}
	}
	if n := len(s.Trend); n > 0 {
		if d := s.Trend[n-1]; d.Indexed != indexed || d.Indexed+d.NotIndexed+d.Error+d.Unknown != inspected {
			t.Errorf("the trend ends with %+v, and %d of %d URLs are indexed", d, indexed, inspected)
		}
	} else if inspected > 0 {
		t.Errorf("%d URLs have a result before anything is published", inspected)
	}
	for _, m := range s.Sitemaps {
		if strings.HasSuffix(m.Path, "index.xml") && m.Inspected != inspected {
			t.Errorf("the index names %d URLs with a result, and there are %d", m.Inspected, inspected)
		}
	}
	return inspected
}

// testServeInspects starts two replicas that inspect and one that does not.
func testServeInspects(t *testing.T, binary string) {
	w := clitest.NewInspectWorld(t, 24)
	const strange = "Set aside for a while"
	w.Rename("Submitted and indexed", strange)
	c := clitest.NewInspectCLI(t, sara, w, w.Shop)
	store := c.Later()
	id := c.PropertyID(store, "shop")
	key, _ := c.Object(clitest.KeyMembers+" key", "key", "create", "ann@example.com", "--name", "test")["key"].(string)
	off, base, _ := serving(t, binary, c.Env)
	api := clitest.CoverageAPI{T: t, Property: base + "/v1/properties/shop", Key: key}
	if s := api.Summary(""); s.Data.Status != "pending_discovery" || clitest.Value(s.Data.URLCount) != 0 || w.Calls().Sitemaps != 0 {
		t.Errorf("before any inspection: %+v, %+v", s, w.Calls())
	}

	on := append(slices.Clone(c.Env), "SARA_INSPECT=on")
	one, _, admin1 := serving(t, binary, on)
	other, _, admin2 := serving(t, binary, on)
	var state sqlstore.IndexState
	clitest.Poll(t, "the property is inspected", func() bool {
		property, _, err := store.InspectableProperty(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		state = property.Index
		return state.InspectedAt != nil
	})
	labels := w.Labels(w.Shop)
	s := api.Summary("?include_trend=true")
	buckets := api.WantAgreement(s)
	if clitest.Value(s.Data.Totals.InspectedURLs) != len(labels) || len(w.InspectedURLs()) != len(labels) {
		t.Errorf("%d URLs, of which %d have a result after %d inspections", len(labels), clitest.Value(s.Data.Totals.InspectedURLs), len(w.InspectedURLs()))
	}
	unknown := 0
	for _, label := range labels {
		if label == "Submitted and indexed" {
			unknown++
		}
	}
	if row := s.Data.Breakdown[0]; row.CoverageState != strange || row.Bucket != "unknown" || row.Count != unknown || buckets["unknown"] < unknown {
		t.Errorf("the most frequent label is %+v, want %d times %q", row, unknown, strange)
	}
	counted := clitest.WantStatus(t, http.StatusOK, admin1+"/metrics", "").Body + clitest.WantStatus(t, http.StatusOK, admin2+"/metrics", "").Body
	for name, want := range map[string]int{"sara_index_inspections_total": len(labels), "sara_index_unknown_labels_total": unknown} {
		if got := metric(t, counted, name); got != want {
			t.Errorf("%s is %d over both, want %d", name, got, want)
		}
	}
	for _, p := range []*process{off, one, other} {
		p.stopped()
	}
	if n := strings.Count(one.stderr.String()+other.stderr.String(), "msg=inspecting "); n != 1 ||
		strings.Contains(off.stderr.String(), "msg=inspecting ") {
		t.Errorf("it was inspected %d times\n%s\n%s\n%s", n, one.stderr, other.stderr, off.stderr)
	}
}

// metric returns the sum of a counter over several processes.
func metric(t *testing.T, text, name string) (sum int) {
	t.Helper()
	for line := range strings.Lines(text) {
		if number, found := strings.CutPrefix(line, name+" "); found {
			n, err := strconv.Atoi(strings.TrimSpace(number))
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// results returns the URLs of a property that have a result, published or not.
func results(c *clitest.CLI, store *sqlstore.Store, id string) []string {
	c.T.Helper()
	tracked, err := store.TrackedURLs(c.T.Context(), id)
	if err != nil {
		c.T.Fatal(err)
	}
	var urls []string
	for _, u := range tracked {
		if u.InspectedAt != nil {
			urls = append(urls, u.URL)
		}
	}
	return urls
}

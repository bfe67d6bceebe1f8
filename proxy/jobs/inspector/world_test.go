package inspector

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sara/archive"
	"sara/archive/sqlstore"
	"sara/proxy/jobs/schedule"
	"sara/proxy/jobs/sitemap"
	"sara/translate"
)

// world is an upstream with the web around it, and a store.
type world struct {
	t        testing.TB
	now      func() time.Time
	calendar translate.Calendar
	store    *sqlstore.Store
	ids      map[string]string // of properties, by name

	mu          sync.Mutex
	listed      []Sitemap                                            // by the upstream
	files       map[string]file                                      // of the web, by path
	full        bool                                                 // the reader stopped early
	clicks      map[string]int64                                     // of archived pages
	uncollected bool                                                 // no day is archived
	label       func(url string) string                              // that the upstream has for it
	fails       func(p Property, url string, try int) error          // nil: nothing does
	during      func(ctx context.Context, url string)                // what happens while the upstream is asked; nil: nothing
	lists       func(p Property) error                               // how listing sitemaps fails; nil: it does not
	perDay      int                                                  // quota
	taken       map[string]int                                       // of it
	took        func() (granted bool, wait time.Duration, err error) // instead; nil: by perDay
	asked       []question
	told        []string
}

type file struct {
	urls    []string
	names   []string // other files
	problem string
}

type question struct {
	at   time.Time
	site string
	url  string
}

var errOut = errors.New("the upstream is out")

func refuse(class schedule.Class) error {
	return fmt.Errorf("ask: %w", &schedule.Refusal{Class: class, Err: errOut})
}

// noon is when a world's clock stands, if it stands.
var noon = time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC)

// newWorld returns a world with properties of these names, by the clock of now; nil is one that stands still.
func newWorld(t testing.TB, now func() time.Time, names ...string) *world {
	t.Helper()
	w := &world{t: t, now: now, ids: make(map[string]string), files: make(map[string]file), clicks: make(map[string]int64),
		label:  func(string) string { return "Submitted and indexed" },
		perDay: 2000, taken: make(map[string]int)}
	if now == nil {
		w.now = func() time.Time { return noon }
	}
	w.calendar = value(translate.NewCalendar())(t)
	ctx := context.Background()
	w.store = value(sqlstore.Open(ctx, sqlstore.Config{URL: "sqlite:" + filepath.Join(t.TempDir(), "sara.db"),
		SecretKey: make([]byte, 32), Now: func() time.Time { return w.now() }}))(t)
	t.Cleanup(func() { check(t, w.store.Close()) })
	value(w.store.Migrate(ctx))(t)
	value(w.store.AddAccount(ctx, "acme", "pro", nil))(t)
	value(w.store.AddWorkspace(ctx, "acme", "main"))(t)
	value(w.store.AddConnection(ctx, "main", "google",
		[]byte(`{"type":"authorized_user","client_id":"c","client_secret":"s","refresh_token":"r"}`)))(t)
	for _, name := range names {
		w.ids[name] = value(w.store.AddProperty(ctx, sqlstore.PropertySpec{Connection: "google", Site: "sc-domain:" + name + ".example"}))(t).ID
	}
	return w
}

// passDay lets a clock that stands still stand a day later.
func (w *world) passDay() {
	later := w.now().AddDate(0, 0, 1)
	w.now = func() time.Time { return later }
}

func (w *world) property(name string) Property {
	w.t.Helper()
	id := w.ids[name]
	return Property{ID: id, Site: "sc-domain:" + name + ".example", Connection: "google", MaxURLs: 10_000,
		State: value(w.store.IndexState(context.Background(), id))(w.t)}
}

func (w *world) properties(names ...string) []Property {
	properties := make([]Property, len(names))
	for i, name := range names {
		properties[i] = w.property(name)
	}
	return properties
}

// urls are the addresses of n pages of a property.
func urls(name string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("https://%s.example/%04d", name, i)
	}
	return all
}

// serve lets the upstream list one more sitemap, with these pages.
func (w *world) serve(path string, pages ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, again := w.files[path]; !again {
		w.listed = append(w.listed, Sitemap{Path: path, LastDownloaded: noon, Warnings: 1, Errors: 2})
	}
	w.files[path] = file{urls: pages}
}

// Sitemaps implements Source.
func (w *world) Sitemaps(ctx context.Context, p Property) ([]Sitemap, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lists != nil {
		if err := w.lists(p); err != nil {
			return nil, err
		}
	}
	var listed []Sitemap
	for _, s := range w.listed {
		if w.ids[hostOf(s.Path)] == p.ID {
			listed = append(listed, s)
		}
	}
	return listed, ctx.Err()
}

// hostOf returns the name of the property that an address belongs to.
func hostOf(address string) (name string) {
	for i := len("https://"); address[i] != '.'; i++ {
		name += address[i : i+1]
	}
	return name
}

// Read implements Sitemaps.
func (w *world) Read(ctx context.Context, scope sitemap.Scope, paths []string, _ int) (found sitemap.Found, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := make(map[string]int)
	var read func(path string, above []int32)
	read = func(path string, above []int32) {
		f, i := w.files[path], int32(len(found.Files))
		found.Files = append(found.Files, sitemap.File{Path: path, Above: above, URLs: len(f.urls), Problem: f.problem})
		above = append(slices.Clone(above), i)
		for _, url := range f.urls {
			url, ok := scope.Clean(url)
			if !ok {
				continue
			}
			at, again := seen[url]
			if !again {
				at = len(found.URLs)
				seen[url], found.URLs = at, append(found.URLs, sitemap.URL{Address: url})
			}
			found.URLs[at].Files = append(found.URLs[at].Files, above...)
		}
		for _, name := range f.names {
			read(name, above)
		}
	}
	for _, path := range paths {
		read(path, nil)
	}
	found.Full = w.full
	return found, ctx.Err()
}

// A worldHistory implements History, whose Read is not the one of Sitemaps.
type worldHistory struct{ *world }

func (w worldHistory) Read(ctx context.Context, property string, by translate.Dimension, r translate.DateRange) (archive.Result, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if by != translate.ByPage || r.Days() != 28 || r.End != w.calendar.Anchor(w.now()) {
		w.t.Errorf("the archive is asked for %d of %+v", by, r)
	}
	var b translate.RowsBuilder
	for _, url := range slices.Sorted(maps.Keys(w.clicks)) {
		if w.ids[hostOf(url)] == property {
			b.Add([]byte(url), translate.Metrics{Clicks: w.clicks[url], Impressions: w.clicks[url] + 1})
		}
	}
	var missing []translate.Date
	for day := r.Start; w.uncollected && day <= r.End; day++ {
		missing = append(missing, day)
	}
	return archive.Result{Rows: b.Rows(), Missing: missing}, ctx.Err()
}

// Take implements Quota.
func (w *world) Take(ctx context.Context, site string, day translate.Date) (granted bool, wait time.Duration, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.took != nil {
		return w.took()
	}
	key := site + " " + day.String()
	if w.taken[key] >= w.perDay {
		return false, 0, ctx.Err()
	}
	w.taken[key]++
	return true, 0, ctx.Err()
}

// Inspect implements Source.
func (w *world) Inspect(ctx context.Context, p Property, url string) (Inspection, error) {
	w.mu.Lock()
	w.asked = append(w.asked, question{w.now(), p.Site, url})
	try := 0
	for _, q := range w.asked {
		if q.url == url {
			try++
		}
	}
	fails, during, label := w.fails, w.during, w.label
	w.mu.Unlock()
	if during != nil {
		during(ctx, url)
	}
	if fails != nil {
		if err := fails(p, url, try); err != nil {
			return Inspection{}, err
		}
	}
	return Inspection{CoverageState: label(url), Verdict: "PASS", LastCrawl: noon.AddDate(0, 0, -1)}, ctx.Err()
}

// questions returns the URLs that the upstream was asked about since the last call, in order.
func (w *world) questions() (asked []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range w.asked {
		asked = append(asked, q.url)
	}
	w.asked = nil
	return asked
}

func (w *world) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, fmt.Sprintf(format, args...))
}

// Progress.

func (w *world) Discovered(p Property, urls int, capped bool, problems []SitemapProblem) {
	w.tell("discovered %d %t %d", urls, capped, len(problems))
}
func (w *world) Started(_ Property, urls int)            { w.tell("started %d", urls) }
func (w *world) Inspected(_ Property, url string)        { w.tell("inspected %s", url) }
func (w *world) Paused(_ Property, _ time.Time, _ error) { w.tell("paused") }
func (w *world) UnknownLabel(_ Property, label string)   { w.tell("unknown %s", label) }
func (w *world) Ended(_ Property, err error)             { w.tell("ended %t", err == nil) }

// inspector returns an inspector of the world that inspects one URL at a time; it is not paced unless changed.
func (w *world) inspector(change ...func(*Config)) *Inspector {
	w.t.Helper()
	const unpaced = 60_000_000
	config := Config{Store: w.store, Source: w, Sitemaps: w, Quota: w, Leases: w.store, Holder: "test", History: worldHistory{w}, Progress: w,
		Now: func() time.Time { return w.now() }, PerSite: unpaced, Total: unpaced, ParallelInspections: 1}
	for _, f := range change {
		f(&config)
	}
	return value(New(config))(w.t)
}

// inspect runs an inspector over a property.
func (w *world) inspect(name string, opts Options, change ...func(*Config)) Result {
	w.t.Helper()
	return value(w.inspector(change...).Inspect(context.Background(), w.properties(name), opts))(w.t)[0]
}

// results returns the published results of a property, by URL.
func (w *world) results(name string) map[string]sqlstore.Inspection {
	w.t.Helper()
	results := make(map[string]sqlstore.Inspection)
	page := value(w.store.IndexedURLs(context.Background(), w.ids[name],
		sqlstore.IndexQuery{Order: translate.Order{By: "url"}, Limit: 100_000}))(w.t)
	for _, u := range page.Rows {
		results[u.URL] = u
	}
	return results
}

// summary returns how a property stands, with its trend.
func (w *world) summary(name string) sqlstore.IndexSummary {
	w.t.Helper()
	var first translate.Date
	return value(w.store.IndexSummary(context.Background(), w.ids[name], &first))(w.t)
}

// tracked returns the URLs of a property with the sitemaps they are in.
func (w *world) tracked(name string) map[string][]string {
	w.t.Helper()
	tracked := make(map[string][]string)
	for _, u := range value(w.store.TrackedURLs(context.Background(), w.ids[name]))(w.t) {
		tracked[u.URL] = slices.Sorted(slices.Values(u.Sitemaps))
	}
	return tracked
}

// inBubble runs a test with a world whose clock starts in a bubble and stands still while nobody waits.
func inBubble(t *testing.T, names []string, test func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newWorld(t, time.Now, names...)) })
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// value ends the test unless err is nil.
func value[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		check(t, err)
		return v
	}
}

func equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s: got  %s\nwant %s", what, g, w)
	}
}

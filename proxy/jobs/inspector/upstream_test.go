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
	"sara/archive/sqlstore/sqlitetest"
	"sara/policy/keyring"
	"sara/proxy/jobs/schedule"
	"sara/proxy/jobs/sitemap"
	"sara/proxy/upstream"
	"sara/translate"
)

// fakeUpstream is an upstream with its sitemap files, an archive and a quota, together with a real store: the whole
// configuration of an Inspector.
type fakeUpstream struct {
	t        testing.TB
	now      func() time.Time
	calendar translate.Calendar
	store    *sqlstore.Store
	ids      map[string]string // of properties, by name
	change   func(p *Property) // how a property differs from the stored one; nil: only by its connection and its plan

	mu         sync.Mutex
	listed     []upstream.Sitemap                                   // by the upstream
	files      map[string]file                                      // sitemaps, by path
	full       bool                                                 // the reader stopped early
	clicks     map[string]int64                                     // of archived pages
	live       map[string]int64                                     // of pages; nil: it does not answer
	unarchived bool                                                 // no day is archived
	label      func(url string) string                              // the coverage state of a URL
	refuses    error                                                // of every call, before it is charged; nil: none
	fails      func(t upstream.Target, url string, try int) error   // nil: no call fails
	during     func(ctx context.Context, url string)                // runs during a call; nil: nothing
	lists      func(t upstream.Target) error                        // the error of listing sitemaps; nil: none
	perDay     int                                                  // quota
	taken      map[string]int                                       // of the quota, by site and day
	took       func() (granted bool, wait time.Duration, err error) // replaces perDay unless nil
	made       []call
	events     []string
	planned    map[string]int // by property
}

type file struct {
	urls    []string
	names   []string // other files, of an index file
	problem string
}

type call struct {
	at   time.Time
	site string
	url  string
}

var errDown = errors.New("the upstream is down")

// fail returns an error of the upstream that is errDown, too.
func fail(kind upstream.Kind) error {
	return fmt.Errorf("%w: %w", errDown, &upstream.Error{Kind: kind})
}

// noon is the time of a clock that stands still.
var noon = time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC)

// newUpstream returns a fakeUpstream with properties of these names and the clock now; nil is a clock that stands still.
func newUpstream(t testing.TB, now func() time.Time, names ...string) *fakeUpstream {
	t.Helper()
	w := &fakeUpstream{t: t, now: now, ids: make(map[string]string), files: make(map[string]file), clicks: make(map[string]int64),
		label:  func(string) string { return "Submitted and indexed" },
		perDay: 2000, taken: make(map[string]int)}
	if now == nil {
		w.now = func() time.Time { return noon }
	}
	w.calendar = value(translate.NewCalendar())(t)
	ctx := context.Background()
	database := filepath.Join(t.TempDir(), "sara.db")
	sqlitetest.Create(t, database)
	w.store = value(sqlstore.Open(ctx, sqlstore.Config{URL: "sqlite:" + database,
		Keyring: value(keyring.New(make([]byte, keyring.KeySize)))(t), Now: func() time.Time { return w.now() }}))(t)
	t.Cleanup(func() { check(t, w.store.Close()) })
	value(w.store.AddAccount(ctx, "acme", "pro", nil))(t)
	value(w.store.AddWorkspace(ctx, "acme", "main"))(t)
	value(w.store.AddConnection(ctx, "main", "google",
		[]byte(`{"type":"authorized_user","client_id":"c","client_secret":"s","refresh_token":"r"}`)))(t)
	for _, name := range names {
		w.ids[name] = value(w.store.AddProperty(ctx, sqlstore.PropertySpec{Connection: "google", Site: "sc-domain:" + name + ".example"}))(t).ID
	}
	return w
}

// passDay advances a clock that stands still by a day.
func (w *fakeUpstream) passDay() {
	later := w.now().AddDate(0, 0, 1)
	w.now = func() time.Time { return later }
}

func (w *fakeUpstream) property(name string) Property {
	w.t.Helper()
	p, exists, err := w.current(context.Background(), w.ids[name])
	check(w.t, err)
	if !exists {
		w.t.Fatalf("there is no property %s", name)
	}
	return p
}

// current is the Current of a Config.
func (w *fakeUpstream) current(ctx context.Context, id string) (Property, bool, error) {
	stored, exists, err := w.store.InspectableProperty(ctx, id)
	p := Property{Target: upstream.Target{PropertyID: id, Site: stored.Site, ConnectionID: "google"}, MaxURLs: 10_000,
		Archived: stored.Archived, State: stored.Index}
	if w.change != nil {
		w.change(&p)
	}
	return p, exists, err
}

func (w *fakeUpstream) properties(names ...string) []Property {
	properties := make([]Property, len(names))
	for i, name := range names {
		properties[i] = w.property(name)
	}
	return properties
}

// urls returns the URLs of n pages of a property.
func urls(name string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("https://%s.example/%04d", name, i)
	}
	return all
}

// serve adds or replaces a sitemap that the upstream lists, with these pages.
func (w *fakeUpstream) serve(path string, pages ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, again := w.files[path]; !again {
		w.listed = append(w.listed, upstream.Sitemap{Path: path, LastDownloaded: noon, Warnings: 1, Errors: 2})
	}
	w.files[path] = file{urls: pages}
}

// Sitemaps implements Gateway.
func (w *fakeUpstream) Sitemaps(ctx context.Context, t upstream.Target) ([]upstream.Sitemap, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lists != nil {
		if err := w.lists(t); err != nil {
			return nil, err
		}
	}
	var listed []upstream.Sitemap
	for _, s := range w.listed {
		if w.ids[hostOf(s.Path)] == t.PropertyID {
			listed = append(listed, s)
		}
	}
	return listed, ctx.Err()
}

// hostOf returns the name of the property that a URL belongs to.
func hostOf(address string) (name string) {
	for i := len("https://"); address[i] != '.'; i++ {
		name += address[i : i+1]
	}
	return name
}

// Read implements Sitemaps.
func (w *fakeUpstream) Read(ctx context.Context, scope sitemap.Scope, paths []string, _ int) (found sitemap.Found, err error) {
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

// fakeHistory implements History, whose Read differs from that of Sitemaps.
type fakeHistory struct{ *fakeUpstream }

// Read implements History.
func (w fakeHistory) Read(ctx context.Context, property string, by translate.Dimension, r translate.DateRange, _ int) (archive.Result, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if by != translate.ByPage || r.Days() != 28 || r.End != w.calendar.Anchor(w.now()) {
		w.t.Errorf("dimension %d of %+v is read from the archive", by, r)
	}
	var b translate.RowsBuilder
	for _, url := range slices.Sorted(maps.Keys(w.clicks)) {
		if w.ids[hostOf(url)] == property {
			b.Add([]byte(url), translate.Metrics{Clicks: w.clicks[url], Impressions: w.clicks[url] + 1})
		}
	}
	var missing []translate.Date
	for day := r.Start; w.unarchived && day <= r.End; day++ {
		missing = append(missing, day)
	}
	return archive.Result{Rows: b.Rows(), Missing: missing}, ctx.Err()
}

// Take implements Quota.
func (w *fakeUpstream) Take(ctx context.Context, site string, day translate.Date) (granted bool, wait time.Duration, err error) {
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

// Query implements Gateway.
func (w *fakeUpstream) Query(_ context.Context, _ upstream.Target, q translate.Query) (*translate.Rows, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.live == nil {
		return nil, fail(upstream.Unavailable)
	}
	if q.Dimension != translate.ByPage || q.Range.Days() != 28 || q.Range.End != w.calendar.Anchor(w.now()) || len(q.Conditions) > 0 {
		w.t.Errorf("the traffic is asked for by %+v", q)
	}
	var b translate.RowsBuilder
	for _, url := range slices.Sorted(maps.Keys(w.live)) {
		b.Add([]byte(url), translate.Metrics{Clicks: w.live[url], Impressions: w.live[url] + 1})
	}
	return b.Rows(), nil
}

// Inspect implements Gateway.
func (w *fakeUpstream) Inspect(ctx context.Context, t upstream.Target, url string, charge func(context.Context) error) (upstream.Inspection, error) {
	if w.refuses != nil {
		return upstream.Inspection{}, w.refuses
	}
	if err := charge(ctx); err != nil {
		return upstream.Inspection{}, err
	}
	w.mu.Lock()
	w.made = append(w.made, call{w.now(), t.Site, url})
	try := 0
	for _, c := range w.made {
		if c.url == url {
			try++
		}
	}
	fails, during, label := w.fails, w.during, w.label
	w.mu.Unlock()
	if during != nil {
		during(ctx, url)
	}
	if fails != nil {
		if err := fails(t, url, try); err != nil {
			return upstream.Inspection{}, err
		}
	}
	return upstream.Inspection{CoverageState: label(url), Verdict: "PASS", LastCrawl: noon.AddDate(0, 0, -1)}, ctx.Err()
}

// inspectedURLs returns the URLs of the calls since the last time it was called, in order.
func (w *fakeUpstream) inspectedURLs() (urls []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.made {
		urls = append(urls, c.url)
	}
	w.made = nil
	return urls
}

func (w *fakeUpstream) record(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, fmt.Sprintf(format, args...))
}

// Started implements schedule.Progress.
func (w *fakeUpstream) Started(_ upstream.Target, urls int) { w.record("started %d", urls) }

// Advanced implements schedule.Progress.
func (w *fakeUpstream) Advanced(_ upstream.Target, url string) { w.record("inspected %s", url) }

// Noticed implements schedule.Progress.
func (w *fakeUpstream) Noticed(_ upstream.Target, notice fmt.Stringer) { w.record("%+v", notice) }

// Planned implements schedule.Progress.
func (w *fakeUpstream) Planned(urls map[string]int) { w.planned = urls }

// Paused implements schedule.Progress.
func (w *fakeUpstream) Paused(upstream.Target, time.Time, error) { w.record("paused") }

// Ended implements schedule.Progress.
func (w *fakeUpstream) Ended(_ upstream.Target, err error) { w.record("ended %t", err == nil) }

// inspector returns an inspector that inspects one URL at a time without rate limits, unless changed.
func (w *fakeUpstream) inspector(change ...func(*Config)) *Inspector {
	w.t.Helper()
	const unpaced = 60_000_000
	config := Config{Store: w.store, Gateway: w, Sitemaps: w, Quota: w, Leases: w.store, Holder: "test", History: fakeHistory{w}, Current: w.current,
		RunConfig: schedule.RunConfig{Progress: w, Now: func() time.Time { return w.now() }, Total: unpaced},
		PerSite:   unpaced, ParallelInspections: 1}
	for _, f := range change {
		f(&config)
	}
	return value(New(config))(w.t)
}

// inspect runs an inspector on a property.
func (w *fakeUpstream) inspect(name string, opts Options, change ...func(*Config)) Result {
	w.t.Helper()
	return value(w.inspector(change...).Inspect(context.Background(), w.properties(name), opts))(w.t)[0]
}

// results returns the published results of a property, by URL.
func (w *fakeUpstream) results(name string) map[string]sqlstore.Inspection {
	w.t.Helper()
	results := make(map[string]sqlstore.Inspection)
	page := value(w.store.IndexedURLs(context.Background(), w.ids[name],
		sqlstore.IndexQuery{Order: translate.Order{By: "url"}, Limit: 100_000}))(w.t)
	for _, u := range page.Rows {
		results[u.URL] = u
	}
	return results
}

// summary returns the index summary of a property, with its trend.
func (w *fakeUpstream) summary(name string) sqlstore.IndexSummary {
	w.t.Helper()
	var first translate.Date
	return value(w.store.IndexSummary(context.Background(), w.ids[name], &first))(w.t)
}

// tracked returns the URLs of a property with the sitemaps they are in.
func (w *fakeUpstream) tracked(name string) map[string][]string {
	w.t.Helper()
	tracked := make(map[string][]string)
	for _, u := range value(w.store.TrackedURLs(context.Background(), w.ids[name]))(w.t) {
		tracked[u.URL] = slices.Sorted(slices.Values(u.Sitemaps))
	}
	return tracked
}

// inBubble runs a test in a bubble of synctest, with its fake clock.
func inBubble(t *testing.T, names []string, test func(*testing.T, *fakeUpstream)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newUpstream(t, time.Now, names...)) })
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

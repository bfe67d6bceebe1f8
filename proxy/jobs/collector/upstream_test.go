package collector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"sara/archive"
	"sara/archive/bucket"
	"sara/archive/sqlstore"
	"sara/proxy/jobs/schedule"
	"sara/proxy/upstream"
	"sara/translate"
)

// fakeUpstream is a Gateway and a Store, including the Store's properties. Its figures for a day are a function of the site, the day,
// and whether the day is settled; it computes them without the collector's shortcuts.
type fakeUpstream struct {
	t         testing.TB
	now       func() time.Time
	calendar  translate.Calendar
	late      int // how many days up to the anchor it does not show yet
	lost      int // how many days at the start of its window it does not have
	unsettled int // how many more days than usual may still change

	gap translate.Date // a day that it shows later than the days after it; 0: none

	mu      sync.Mutex
	made    []call
	fails   func(t upstream.Target, q translate.Query) error // nil: no call fails
	states  map[string]sqlstore.ArchiveState                 // saved, by property
	changed map[string]Property                              // set by change, without their states; all others are alike
}

type call struct {
	at     time.Time
	target upstream.Target
	query  translate.Query
}

// newUpstream returns a fakeUpstream with the clock now; nil is a clock that stands still.
func newUpstream(t testing.TB, now func() time.Time) *fakeUpstream {
	t.Helper()
	calendar, err := translate.NewCalendar()
	check(t, err)
	if now == nil {
		now = func() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }
	}
	return &fakeUpstream{t: t, now: now, calendar: calendar, states: make(map[string]sqlstore.ArchiveState), changed: make(map[string]Property)}
}

// passDay advances a clock that stands still by a day.
func (w *fakeUpstream) passDay() {
	later := w.now().AddDate(0, 0, 1)
	w.now = func() time.Time { return later }
}

func (w *fakeUpstream) anchor() translate.Date { return w.calendar.Anchor(w.now()) }

// The kinds of figures.
const (
	ofKind = iota
	ofCount
	ofClicks
	ofImpressions
	ofPosition
)

// figure hashes its arguments to a number below n.
func figure(n uint64, of int, site string, by translate.Dimension, day translate.Date, row int64) int64 {
	h := uint64(of)
	mix := func(part uint64) { // the finalizer of splitmix64
		h += part + 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	for _, c := range []byte(site) {
		mix(uint64(c))
	}
	mix(uint64(by))
	mix(uint64(day))
	mix(uint64(row))
	return int64(h % n)
}

// kind is a kind of day.
type kind int

const (
	busy     kind = iota
	quiet         // without traffic, shown as zeros
	unshown       // without traffic, not shown
	withheld      // with traffic, but all search queries are withheld
)

func (w *fakeUpstream) kind(site string, day translate.Date) kind {
	if day == w.gap {
		return unshown
	}
	switch figure(20, ofKind, site, 0, day, 0) {
	case 0:
		return quiet
	case 1:
		return unshown
	case 2:
		return withheld
	}
	return busy
}

// rows returns all rows of a day, settled or not, in the upstream's order.
func (w *fakeUpstream) rows(site string, by translate.Dimension, day translate.Date, settled bool) []archive.Record {
	n := map[translate.Dimension]int64{translate.ByDate: 1, translate.ByDevice: 3, translate.ByCountry: 9}[by]
	if n == 0 {
		n = 90 + figure(20, ofCount, site, by, day, 0) // about a hundred
	}
	switch k := w.kind(site, day); {
	case k == quiet || k == unshown, k == withheld && by == translate.ByQuery:
		return nil
	}
	rows := make([]archive.Record, 0, n)
	for i := range n {
		r := archive.Record{Date: day, Dimension: by, Key: "key " + strconv.FormatInt(1000+i, 10)[1:]} // three digits
		if by == translate.ByDate {
			r.Key = ""
		}
		r.Clicks = figure(40, ofClicks, site, by, day, i)
		if !settled {
			r.Clicks /= 2
		}
		r.Impressions = r.Clicks + 1 + figure(50, ofImpressions, site, by, day, i)
		r.Position = float64(1+figure(90, ofPosition, site, by, day, i)) + 0.5
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b archive.Record) int {
		return cmp.Or(cmp.Compare(b.Clicks, a.Clicks), cmp.Compare(a.Key, b.Key))
	})
	return rows
}

// firstKept returns the first day that the upstream still has.
func (w *fakeUpstream) firstKept() translate.Date {
	return translate.NewWindow(w.anchor(), 36).UpstreamStart + translate.Date(w.lost)
}

// isSettled reports whether the figures of a day no longer change; those of the last published days still do.
func (w *fakeUpstream) isSettled(day translate.Date) bool {
	return day <= w.anchor()-translate.Date(w.unsettled)-ProvisionalDays
}

// isFinal reports whether a day is archived for good at an anchor: with figures once it is followed, without after a longer time.
func (w *fakeUpstream) isFinal(site string, day, anchor translate.Date) bool {
	return day <= anchor-settledDays || w.hasFigures(site, day) && w.isFollowed(site, day, anchor)
}

// isFollowed reports whether the second day after one, or a later one, has figures, or a longer time has passed.
func (w *fakeUpstream) isFollowed(site string, day, anchor translate.Date) bool {
	for later := day + ProvisionalDays; later <= anchor-translate.Date(w.late); later++ {
		if w.hasFigures(site, later) {
			return true
		}
	}
	return day <= anchor-settledDays
}

func (w *fakeUpstream) hasFigures(site string, day translate.Date) bool {
	k := w.kind(site, day)
	return k != quiet && k != unshown
}

// published returns the last day that is certainly published at an anchor.
func (w *fakeUpstream) published(site string, anchor translate.Date) translate.Date {
	published := anchor - translate.LongestLag
	for later := published + 1; later <= anchor-translate.Date(w.late); later++ {
		if w.hasFigures(site, later) {
			published = later
		}
	}
	return published
}

// isKnown reports whether the upstream has published the day for certain, and shows it or never will.
func (w *fakeUpstream) isKnown(site string, day translate.Date) bool {
	return day <= w.published(site, w.anchor()) && (w.kind(site, day) != unshown || w.isFollowed(site, day, w.anchor()))
}

// Query implements Gateway.
func (w *fakeUpstream) Query(ctx context.Context, t upstream.Target, q translate.Query) (*translate.Rows, error) {
	w.mu.Lock()
	w.made = append(w.made, call{w.now(), t, q})
	fails := w.fails
	w.mu.Unlock()
	if fails != nil {
		if err := fails(t, q); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if q.Site != t.Site || len(q.Conditions) > 0 || q.Range.End > w.anchor() {
		w.t.Errorf("called with %+v for %s", q, t.Site)
	}
	var b translate.RowsBuilder
	add := func(key string, r archive.Record) {
		m := translate.Metrics{Clicks: r.Clicks, Impressions: r.Impressions, Position: r.Position}
		if r.Impressions > 0 {
			m.CTR = float64(r.Clicks) / float64(r.Impressions)
		}
		b.Add([]byte(key), m)
	}
	if q.Dimension == translate.ByDate {
		for day := max(q.Range.Start, w.firstKept()); day <= min(q.Range.End, w.anchor()-translate.Date(w.late)); day++ {
			for _, r := range w.rows(q.Site, q.Dimension, day, w.isSettled(day)) {
				add(day.String(), r)
			}
			if w.kind(q.Site, day) == quiet {
				add(day.String(), archive.Record{})
			}
		}
		return b.Rows(), nil
	}
	if q.Range.Days() != 1 {
		w.t.Errorf("queried %s of %d days at once", q.Dimension, q.Range.Days())
	}
	var rows []archive.Record
	if q.Range.Start >= w.firstKept() && q.Range.Start <= w.anchor()-translate.Date(w.late) {
		rows = w.rows(q.Site, q.Dimension, q.Range.Start, w.isSettled(q.Range.Start))
	}
	for _, r := range rows[:min(len(rows), q.RowLimit)] {
		add(r.Key, r)
	}
	return b.Rows(), nil
}

// SaveArchiveState implements Store.
func (w *fakeUpstream) SaveArchiveState(_ context.Context, s sqlstore.ArchiveState) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.states[s.PropertyID] = s
	return nil
}

// NewestArchivedDay implements Store.
func (w *fakeUpstream) NewestArchivedDay(context.Context) (newest *translate.Date, _ error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.states {
		if s.Last != nil && (newest == nil || *s.Last > *newest) {
			newest = s.Last
		}
	}
	return newest, nil
}

// property returns a property with its saved state.
func (w *fakeUpstream) property(id string) Property {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, ok := w.changed[id]
	if !ok {
		p = Property{Target: upstream.Target{PropertyID: id, Site: "sc-domain:" + id + ".example", ConnectionID: "google"}, RetentionMonths: 36}
	}
	p.State = w.states[id]
	return p
}

// current is the Current of a Config. Any property exists.
func (w *fakeUpstream) current(_ context.Context, id string) (Property, bool, error) {
	return w.property(id), true, nil
}

// change replaces properties, except for their states.
func (w *fakeUpstream) change(properties ...Property) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range properties {
		w.changed[p.PropertyID] = p
	}
}

func (w *fakeUpstream) state(id string) sqlstore.ArchiveState { return w.property(id).State }

// failing makes calls fail from now on.
func (w *fakeUpstream) failing(fails func(t upstream.Target, q translate.Query) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fails = fails
}

// calls returns the calls since the last time it was called.
func (w *fakeUpstream) calls() []call {
	w.mu.Lock()
	defer w.mu.Unlock()
	made := w.made
	w.made = nil
	return made
}

// wantArchived checks that exactly the days of the range are archived, with the rows that the upstream has.
func (w *fakeUpstream) wantArchived(location, id string, first, last translate.Date) {
	w.t.Helper()
	h := openHistory(w.t, location)
	site := w.property(id).Site
	always := translate.DateRange{Start: 0, End: translate.NewDate(2100, 1, 1)}
	got := make(map[translate.Date][]archive.Record)
	for r, err := range h.Export(context.Background(), id, always) {
		check(w.t, err)
		if r.Impressions > 0 { // else it is the total of a day without traffic
			got[r.Date] = append(got[r.Date], r)
		}
	}
	inventory, err := h.Days(context.Background(), id)
	check(w.t, err)
	for ; !w.isKnown(site, last); last-- {
	}
	for day := first; day <= last; day++ {
		var want []archive.Record
		known := w.isKnown(site, day)
		for _, by := range []translate.Dimension{translate.ByCountry, translate.ByDevice, translate.ByPage, translate.ByQuery, translate.ByDate} {
			rows := w.rows(site, by, day, w.isSettled(day))
			want = append(want, rows[:min(len(rows), 100)]...)
			c := inventory[by]
			if final := w.isFinal(site, day, w.anchor()); c.Has(day) != known || c.HasFinal(day) != final {
				w.t.Errorf("%s of %s: archived %t, final %t; want %t, %t", by, day, c.Has(day), c.HasFinal(day), known, final)
			}
		}
		if !slices.Equal(got[day], want) {
			w.t.Fatalf("%s: archived\n%+v\nwant\n%+v", day, got[day], want)
		}
		delete(got, day)
	}
	if len(got) > 0 {
		w.t.Errorf("days outside %s to %s are archived: %v", first, last, slices.Sorted(maps.Keys(got)))
	}
	for _, c := range inventory {
		if c.First != first || c.Last != last {
			w.t.Errorf("archived from %s to %s, want %s to %s", c.First, c.Last, first, last)
		}
	}
}

// openHistory opens the history at a location of package bucket.
func openHistory(t testing.TB, location string) *archive.History {
	t.Helper()
	b, err := bucket.Open(location)
	check(t, err)
	h, err := archive.NewHistory(archive.HistoryConfig{Bucket: b})
	check(t, err)
	return h
}

// collector returns a collector without rate limits, with a new history at the location.
func (w *fakeUpstream) collector(location string, change ...func(*Config)) *Collector {
	w.t.Helper()
	const unpaced = 60_000_000
	config := Config{History: openHistory(w.t, location), Gateway: w, Store: w, Current: w.current,
		RunConfig: schedule.RunConfig{Now: w.now, Total: unpaced}, PerSite: unpaced, PerConnection: unpaced}
	for _, f := range change {
		f(&config)
	}
	c, err := New(config)
	check(w.t, err)
	return c
}

// collect runs a collector and checks that all properties become complete.
func (w *fakeUpstream) collect(c *Collector, span Span, ids ...string) []Result {
	w.t.Helper()
	results, err := c.Collect(context.Background(), w.properties(ids...), span)
	check(w.t, err)
	for _, r := range results {
		if r.Err != nil {
			w.t.Errorf("%s: %v", r.Property.PropertyID, r.Err)
		}
	}
	return results
}

func (w *fakeUpstream) properties(ids ...string) []Property {
	properties := make([]Property, len(ids))
	for i, id := range ids {
		properties[i] = w.property(id)
	}
	return properties
}

// callsFor returns how many calls a property needs: one for the totals, one to confirm a day without traffic, four for a day
// with traffic.
func (w *fakeUpstream) callsFor(id string, first translate.Date) int {
	site := w.property(id).Site
	n := 1
	for day := first; day <= w.anchor(); day++ {
		switch k := w.kind(site, day); {
		case !w.isKnown(site, day):
		case k == quiet, k == unshown:
			n++
		default:
			n += 4
		}
	}
	return n
}

// objects returns the bytes of every file in a folder.
func objects(t testing.TB, folder string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	check(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".parquet" {
			return err
		}
		data, err := os.ReadFile(path)
		found[path[len(folder):]] = string(data)
		return err
	}))
	return found
}

func wantSameObjects(t testing.TB, got, want map[string]string) {
	t.Helper()
	if len(want) == 0 || !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))) {
		t.Fatalf("got the objects %v\nwant %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("the bytes of %s differ", name)
		}
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

var errDown = errors.New("the upstream is down")

// fail returns an error of the upstream that is errDown, too.
func fail(kind upstream.Kind, retryAfter time.Duration) error {
	return fmt.Errorf("%w: %w", errDown, &upstream.Error{Kind: kind, RetryAfter: retryAfter})
}

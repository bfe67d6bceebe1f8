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
	"sync"
	"testing"
	"time"

	"sara/archive"
	"sara/archive/bucket"
	"sara/proxy/jobs/schedule"
	"sara/translate"
)

// world is an upstream, computed naively: what it knows of a day depends on the site, the day, and whether it is settled.
type world struct {
	t        testing.TB
	now      func() time.Time
	calendar translate.Calendar
	late     int // days up to the anchor that it does not show yet

	mu     sync.Mutex
	asked  []question
	fails  func(p Property, q translate.Query) error // nil: nothing does
	states map[string]State                          // the ledger
}

type question struct {
	at       time.Time
	property Property
	query    translate.Query
}

// newWorld returns a world by the clock of now; nil is one that stands still.
func newWorld(t testing.TB, now func() time.Time) *world {
	t.Helper()
	calendar, err := translate.NewCalendar()
	check(t, err)
	if now == nil {
		now = func() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }
	}
	return &world{t: t, now: now, calendar: calendar, states: make(map[string]State)}
}

// passDay lets a clock that stands still stand a day later.
func (w *world) passDay() {
	later := w.now().AddDate(0, 0, 1)
	w.now = func() time.Time { return later }
}

func (w *world) anchor() translate.Date { return w.calendar.Anchor(w.now()) }

// What figures are of.
const (
	ofKind = iota
	ofCount
	ofClicks
	ofImpressions
	ofPosition
)

// figure is a number below n that stands for all that follows.
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

// kind is what sort of day it is.
type kind int

const (
	busy     kind = iota
	quiet         // without traffic, shown as zeros
	unshown       // without traffic, not shown
	withheld      // with traffic, but without a query that is told
)

func (w *world) kind(site string, day translate.Date) kind {
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

// rows are all there are of a day, as if it were settled or not, in the upstream's order.
func (w *world) rows(site string, by translate.Dimension, day translate.Date, settled bool) []archive.Record {
	n := map[translate.Dimension]int64{translate.ByDate: 1, translate.ByDevice: 3, translate.ByCountry: 9}[by]
	if n == 0 {
		n = 90 + figure(20, ofCount, site, by, day, 0) // a hundred, more or less
	}
	switch k := w.kind(site, day); {
	case k == quiet || k == unshown, k == withheld && by == translate.ByQuery:
		return nil
	}
	var rows []archive.Record
	for i := range n {
		r := archive.Record{Date: day, Dimension: by, Key: fmt.Sprintf("key %03d", i)}
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

func (w *world) isSettled(day translate.Date) bool { return day <= w.anchor()-provisionalDays }

// isShown reports whether the upstream tells anything of the day, or it is too late for it.
func (w *world) isShown(site string, day translate.Date) bool {
	return w.isSettled(day) || w.kind(site, day) != unshown
}

// Ask implements Source.
func (w *world) Ask(ctx context.Context, p Property, q translate.Query) (*translate.Rows, error) {
	w.mu.Lock()
	w.asked = append(w.asked, question{w.now(), p, q})
	fails := w.fails
	w.mu.Unlock()
	if fails != nil {
		if err := fails(p, q); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if q.Site != p.Site || len(q.Conditions) > 0 || q.Range.End > w.anchor() {
		w.t.Errorf("asked %+v about %s", q, p.Site)
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
		for day := q.Range.Start; day <= min(q.Range.End, w.anchor()-translate.Date(w.late)); day++ {
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
		w.t.Errorf("asked for %s of %d days at once", q.Dimension, q.Range.Days())
	}
	rows := w.rows(q.Site, q.Dimension, q.Range.Start, w.isSettled(q.Range.Start))
	for _, r := range rows[:min(len(rows), q.RowLimit)] {
		add(r.Key, r)
	}
	return b.Rows(), nil
}

// SaveState implements Ledger.
func (w *world) SaveState(_ context.Context, s State) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.states[s.PropertyID] = s
	return nil
}

// property returns a property as the ledger has it.
func (w *world) property(id string) Property {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Property{ID: id, Site: "sc-domain:" + id + ".example", Connection: "google", RetentionMonths: 36, State: w.states[id]}
}

func (w *world) state(id string) State { return w.property(id).State }

// failing makes questions fail from now on.
func (w *world) failing(fails func(p Property, q translate.Query) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fails = fails
}

// calls returns the questions since the last time that it was asked.
func (w *world) calls() []question {
	w.mu.Lock()
	defer w.mu.Unlock()
	asked := w.asked
	w.asked = nil
	return asked
}

// wantArchived checks that the days of a property are archived as a naive reading of the upstream has them, and no others.
func (w *world) wantArchived(location, id string, first, last translate.Date) {
	w.t.Helper()
	h := openHistory(w.t, location)
	site := w.property(id).Site
	always := translate.DateRange{Start: 0, End: translate.NewDate(2100, 1, 1)}
	got := make(map[translate.Date][]archive.Record)
	for r, err := range h.Export(context.Background(), id, always) {
		check(w.t, err)
		got[r.Date] = append(got[r.Date], r)
	}
	inventory, err := h.Days(context.Background(), id)
	check(w.t, err)
	for ; !w.isShown(site, last); last-- {
	}
	for day := first; day <= last; day++ {
		var want []archive.Record
		shown := w.isShown(site, day)
		for _, by := range []translate.Dimension{translate.ByCountry, translate.ByDevice, translate.ByPage, translate.ByQuery, translate.ByDate} {
			rows := w.rows(site, by, day, w.isSettled(day))
			want = append(want, rows[:min(len(rows), 100)]...)
			c := inventory[by]
			if c.Has(day) != shown || c.HasFinal(day) != w.isSettled(day) {
				w.t.Errorf("%s of %s: archived %t, final %t; want %t, %t", by, day, c.Has(day), c.HasFinal(day), shown, w.isSettled(day))
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

// openHistory opens the history in a folder, or wherever location says.
func openHistory(t testing.TB, location string) *archive.History {
	t.Helper()
	b, err := bucket.Open(location)
	check(t, err)
	h, err := archive.NewHistory(archive.HistoryConfig{Bucket: b})
	check(t, err)
	return h
}

// collector returns a collector of the world that does not pause, with a new history in the location.
func (w *world) collector(location string, change ...func(*Config)) *Collector {
	w.t.Helper()
	const unpaced = 60_000_000
	config := Config{History: openHistory(w.t, location), Source: w, Ledger: w, Now: w.now,
		PerSite: unpaced, PerConnection: unpaced, Total: unpaced}
	for _, f := range change {
		f(&config)
	}
	c, err := New(config)
	check(w.t, err)
	return c
}

// collect runs a collector over the properties, all of which have to become complete.
func (w *world) collect(c *Collector, span Span, ids ...string) []Result {
	w.t.Helper()
	results, err := c.Collect(context.Background(), w.properties(ids...), span)
	check(w.t, err)
	for _, r := range results {
		if r.Err != nil {
			w.t.Errorf("%s: %v", r.Property.ID, r.Err)
		}
	}
	return results
}

func (w *world) properties(ids ...string) []Property {
	properties := make([]Property, len(ids))
	for i, id := range ids {
		properties[i] = w.property(id)
	}
	return properties
}

// questions returns how many questions the days of a property take: one for the totals, one to be sure of a day without
// traffic, four for a day with.
func (w *world) questions(id string, first translate.Date) int {
	site := w.property(id).Site
	n := 1
	for day := first; day <= w.anchor(); day++ {
		switch k := w.kind(site, day); {
		case !w.isShown(site, day):
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
			t.Errorf("%s has other bytes", name)
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

var errOut = errors.New("the upstream is out")

func refuse(class schedule.Class, rest time.Duration) error {
	return fmt.Errorf("ask: %w", &schedule.Refusal{Class: class, Rest: rest, Err: errOut})
}

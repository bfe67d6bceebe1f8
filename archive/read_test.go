package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sara/archive/bucket"
	"sara/policy/lru"
	"sara/translate"
)

func TestReadEqualsASlowReference(t *testing.T) {
	random := rand.New(rand.NewPCG(15, 16))
	h := newTestHistory(t)
	days := anyDays(random, 400)
	days = slices.DeleteFunc(days, func(Day) bool { return random.IntN(8) == 0 })
	if err := h.Merge(t.Context(), testProperty, days); err != nil {
		t.Fatal(err)
	}
	derived := 0
	for range 100 {
		start := translate.NewDate(2024, 1, 10) + translate.Date(random.IntN(100)) // in some ranges nothing is archived
		r := translate.DateRange{Start: start, End: start + translate.Date(random.IntN(70))}
		by := Dimensions()[random.IntN(5)]
		if random.IntN(4) == 0 { // cached months are then read with other names than before
			h.names = lru.New[namesKey](lru.Config[*names]{Weight: 1 << 10})
		}
		got, err := h.Read(t.Context(), testProperty, by, r, 0)
		if err != nil {
			t.Fatal(err)
		}
		wantRows, wantMissing, wantDerived := reference(days, by, r)
		if !slices.Equal(got.Missing, wantMissing) || got.Derived != wantDerived || (got.Last == nil) != (len(wantMissing) == r.Days()) {
			t.Errorf("%s %v: %+v, want %d days derived and missing %v", by, r, got, wantDerived, wantMissing)
		}
		if got.Last != nil && *got.Last+translate.Date(trailing(wantMissing, r.End)) != r.End {
			t.Errorf("%s %v: the last day is %s, and %v are missing", by, r, got.Last, wantMissing)
		}
		if rows := described(got.Rows); !slices.Equal(rows, wantRows) {
			t.Errorf("%s %v: %q\nwant %q", by, r, rows, wantRows)
		}
		var summed Result
		if by != translate.ByDate {
			if summed, err = h.Sum(t.Context(), testProperty, by, r); err != nil {
				t.Fatal(err)
			}
		}
		first := 1 + random.IntN(60)
		cut, err := h.Read(t.Context(), testProperty, by, r, first)
		if err != nil || cut.Rows.Len() != len(wantRows) || !cut.Rows.HasFirst(min(first, len(wantRows))) {
			t.Fatalf("%s %v, the first %d: %+v (%v)", by, r, first, cut.Rows, err)
		}
		for i := range min(first, len(wantRows)) {
			if string(cut.Rows.Key(i)) != string(got.Rows.Key(i)) || cut.Rows.Metrics(i) != got.Rows.Metrics(i) {
				t.Errorf("%s %v, the first %d: row %d is %s %+v", by, r, first, i, cut.Rows.Key(i), cut.Rows.Metrics(i))
			}
		}
		if by != translate.ByDate { // they are valid while others are read
			if rows := described(summed.Sums.Rows(0)); !slices.Equal(rows, wantRows) || !slices.Equal(summed.Missing, wantMissing) {
				t.Errorf("%s %v: the sums are %q, want %q", by, r, rows, wantRows)
			}
			summed.Release()
		}
		if by == translate.ByDate {
			if _, err := translate.SeriesOf(got.Rows, r); err != nil {
				t.Errorf("they make no series: %v", err)
			}
			derived += got.Derived
		}
	}
	if derived == 0 {
		t.Error("no day was derived")
	}
}

// trailing returns how many consecutive days up to end are missing.
func trailing(missing []translate.Date, end translate.Date) (n int) {
	for i := len(missing) - 1; i >= 0 && missing[i] == end-translate.Date(n); i-- {
		n++
	}
	return n
}

func described(rows *translate.Rows) (all []string) {
	for i := range rows.Len() {
		m := rows.Metrics(i)
		all = append(all, fmt.Sprintf("%s %d %d %.9f %.9f", rows.Key(i), m.Clicks, m.Impressions, m.CTR, m.Position))
	}
	return all
}

// reference adds up days row by row.
func reference(days []Day, by translate.Dimension, r translate.DateRange) (rows []string, missing []translate.Date, derived int) {
	type total struct {
		key                 string
		clicks, impressions int64
		positions           float64
	}
	totals := make(map[string]*total)
	archived := make(map[translate.Date]bool)
	sources := make(map[translate.Date]translate.Dimension)
	for _, source := range []translate.Dimension{translate.ByQuery, translate.ByPage, translate.ByCountry, translate.ByDevice, by} {
		for _, d := range days { // the last source of a day is the best
			if d.Dimension == source && (source == by || by == translate.ByDate) {
				sources[d.Date] = source
			}
		}
	}
	for _, d := range days {
		if source, ok := sources[d.Date]; !ok || d.Dimension != source || d.Date < r.Start || d.Date > r.End {
			continue
		}
		if archived[d.Date] = true; d.Dimension != by {
			derived++
			totals[d.Date.String()] = &total{key: d.Date.String()} // it has a row even without traffic
		}
		for i := range d.Rows.Len() {
			key, m := string(d.Rows.Key(i)), d.Rows.Metrics(i)
			if by == translate.ByDate {
				key = d.Date.String()
			}
			if m.Clicks == 0 && m.Impressions == 0 {
				continue
			}
			if totals[key] == nil {
				totals[key] = &total{key: key}
			}
			totals[key].clicks += m.Clicks
			totals[key].impressions += m.Impressions
			totals[key].positions += m.Position * float64(m.Impressions)
		}
	}
	var sorted []*total
	for _, s := range totals {
		sorted = append(sorted, s)
	}
	slices.SortFunc(sorted, func(a, b *total) int {
		if by == translate.ByDate {
			return cmp.Compare(a.key, b.key)
		}
		return cmp.Or(cmp.Compare(b.clicks, a.clicks), cmp.Compare(a.key, b.key))
	})
	for _, s := range sorted {
		ctr, position := 0.0, 0.0
		if s.impressions > 0 {
			ctr, position = float64(s.clicks)/float64(s.impressions), s.positions/float64(s.impressions)
		}
		rows = append(rows, fmt.Sprintf("%s %d %d %.9f %.9f", s.key, s.clicks, s.impressions, ctr, position))
	}
	for date := r.Start; date <= r.End; date++ {
		if !archived[date] {
			missing = append(missing, date)
		}
	}
	return rows, missing, derived
}

// counting is a bucket that counts reads, and blocks them while its gate is closed.
type counting struct {
	bucket.Bucket
	gets, lists atomic.Int64
	gate        chan struct{}
	asked       chan struct{} // gets a value for every blocked read, if it has room
}

func (c *counting) Get(ctx context.Context, name string) ([]byte, string, error) {
	c.gets.Add(1)
	if c.gate != nil {
		select {
		case c.asked <- struct{}{}:
		default:
		}
		select {
		case <-c.gate:
		case <-ctx.Done():
			return nil, "", ctx.Err()
		}
	}
	return c.Bucket.Get(ctx, name)
}

func (c *counting) List(ctx context.Context, prefix string) ([]bucket.Entry, error) {
	c.lists.Add(1)
	return c.Bucket.List(ctx, prefix)
}

func (c *counting) expect(t *testing.T, gets, lists int64) {
	t.Helper()
	if c.gets.Load() != gets || c.lists.Load() != lists {
		t.Errorf("%d reads and %d listings, want %d and %d", c.gets.Load(), c.lists.Load(), gets, lists)
	}
	c.gets.Store(0)
	c.lists.Store(0)
}

func newCounting(t *testing.T) *counting {
	t.Helper()
	b, err := bucket.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &counting{Bucket: b}
}

func historyOf(t *testing.T, c HistoryConfig) *History {
	t.Helper()
	h, err := NewHistory(c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestCachedMonthsAreReadAgainOnlyAfterAChange(t *testing.T) {
	b := newCounting(t)
	now := time.Unix(1_800_000_000, 0)
	reader := historyOf(t, HistoryConfig{Bucket: b, Now: func() time.Time { return now }, Recheck: 10 * time.Second})
	other := historyOf(t, HistoryConfig{Bucket: b.Bucket})
	first := day(t, "2026-01-31")
	r := translate.DateRange{Start: first, End: first + 1}
	merge := func(h *History, date translate.Date) {
		t.Helper()
		if err := h.Merge(t.Context(), testProperty, []Day{{Date: date, Dimension: translate.ByQuery, Rows: queries(1, 1)}}); err != nil {
			t.Fatal(err)
		}
	}
	clicks := func(want int64) {
		t.Helper()
		result, err := reader.Read(t.Context(), testProperty, translate.ByQuery, r, 0)
		if err != nil {
			t.Fatal(err)
		}
		rows, got := result.Rows, int64(0)
		for i := range rows.Len() {
			got += rows.Metrics(i).Clicks
		}
		if got != want {
			t.Errorf("%d clicks, want %d", got, want)
		}
	}
	merge(other, first)
	clicks(1)
	b.expect(t, 1, 1)
	clicks(1)
	b.expect(t, 0, 0)
	merge(other, first+1)
	clicks(1) // another process's write is seen after Recheck
	b.expect(t, 0, 0)
	now = now.Add(10 * time.Second)
	clicks(2)
	b.expect(t, 1, 1) // of two months only the new one
	if _, err := reader.Days(t.Context(), testProperty); err != nil {
		t.Fatal(err)
	}
	b.expect(t, 0, 0)

	merge(reader, first-1)
	b.expect(t, 1, 0)
	r.Start--
	clicks(3) // the process's own write is seen at once
	b.expect(t, 1, 1)
	for _, date := range []translate.Date{first, first + 1} { // of two months only the one that has the day
		h := historyOf(t, HistoryConfig{Bucket: b})
		if _, err := h.Read(t.Context(), testProperty, translate.ByQuery, translate.DateRange{Start: date, End: date}, 0); err != nil {
			t.Fatal(err)
		}
		b.expect(t, 1, 1)
	}
	version, err := reader.Version(t.Context(), testProperty)
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(10 * time.Second)
	if again, err := reader.Version(t.Context(), testProperty); err != nil || again != version {
		t.Errorf("version %d of the same months is %d later (%v)", version, again, err)
	}
	b.expect(t, 0, 1)
	if err := reader.Prune(t.Context(), testProperty, first+1); err != nil {
		t.Fatal(err)
	}
	b.expect(t, 1, 0)
	clicks(1)
	b.expect(t, 0, 1)
}

func TestConcurrentReadsLoadAMonthOnce(t *testing.T) {
	b := newCounting(t)
	h := historyOf(t, HistoryConfig{Bucket: b, Recheck: math.MaxInt64})
	date := day(t, "2026-01-31")
	if err := h.Merge(t.Context(), testProperty, []Day{{Date: date, Dimension: translate.ByQuery, Rows: queries(3, 9)}}); err != nil {
		t.Fatal(err)
	}
	b.gets.Store(0)
	b.gate = make(chan struct{})
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			got, err := h.Read(t.Context(), testProperty, translate.ByQuery, translate.DateRange{Start: date, End: date}, 0)
			if err != nil || got.Rows.Len() != 3 {
				t.Errorf("%v", err)
			}
		})
	}
	b.gate <- struct{}{} // lets one read pass
	group.Wait()
	b.expect(t, 1, 1)
}

func TestACanceledReadDoesNotFailOthers(t *testing.T) {
	b := newCounting(t)
	h := historyOf(t, HistoryConfig{Bucket: b})
	date := day(t, "2026-01-31")
	r := translate.DateRange{Start: date, End: date}
	if err := h.Merge(t.Context(), testProperty, []Day{{Date: date, Dimension: translate.ByQuery, Rows: queries(3, 9)}}); err != nil {
		t.Fatal(err)
	}
	b.gets.Store(0)
	b.gate, b.asked = make(chan struct{}), make(chan struct{}, 1)
	canceled, cancel := context.WithCancel(t.Context())
	first, second := make(chan error), make(chan error)
	go func() {
		_, err := h.Read(canceled, testProperty, translate.ByQuery, r, 0)
		first <- err
	}()
	<-b.asked
	go func() {
		_, err := h.Read(t.Context(), testProperty, translate.ByQuery, r, 0)
		second <- err
	}()
	cancel()
	if err := <-first; err == nil {
		t.Error("the canceled read has an answer")
	}
	close(b.gate)
	if err := <-second; err != nil {
		t.Error(err)
	}
}

func TestCacheOfMonthsIsBounded(t *testing.T) {
	b := newCounting(t)
	h := historyOf(t, HistoryConfig{Bucket: b, CacheBytes: 64 << 10, Recheck: time.Hour})
	var days []Day
	for m := range 24 {
		days = append(days, Day{Date: translate.NewDate(2024, time.Month(1+m), 1), Dimension: translate.ByPage, Rows: queries(100, 900)})
	}
	if err := h.Merge(t.Context(), testProperty, days); err != nil {
		t.Fatal(err)
	}
	r := translate.DateRange{Start: days[0].Date, End: days[23].Date}
	for range 3 {
		if _, err := h.Read(t.Context(), testProperty, translate.ByPage, r, 0); err != nil {
			t.Fatal(err)
		}
	}
	months, names := h.months.values.Weight(), h.names.Weight()
	if months+names > 64<<10 || months == 0 || names == 0 {
		t.Errorf("%d bytes of months and %d of the names of their keys are in memory", months, names)
	}
	b.expect(t, b.gets.Load(), b.lists.Load())
	if missing, _, err := h.Missing(t.Context(), testProperty, translate.ByPage, r); err != nil || len(missing) != r.Days()-len(days) {
		t.Errorf("%d days are missing, %v", len(missing), err)
	}
	b.expect(t, 0, 0) // what is archived is in memory for all months
}

func TestNewHistoryRefusesInvalidSettings(t *testing.T) {
	b := newCounting(t)
	for _, c := range []HistoryConfig{{}, {Bucket: b, Recheck: -1}, {Bucket: b, CacheBytes: -1}} {
		if _, err := NewHistory(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

func TestReadIsTruncatedIfADayIsFull(t *testing.T) {
	h := newTestHistory(t)
	first := translate.NewDate(2026, 5, 30)
	rows := func(n int) *translate.Rows {
		var b translate.RowsBuilder
		for i := range n {
			b.Add(fmt.Appendf(nil, "key %03d", i), translate.Metrics{Clicks: int64(1000 - i), Impressions: 1000, CTR: float64(1000-i) / 1000, Position: 2})
		}
		return b.Rows()
	}
	var days []Day
	for i, n := range []int{TopRows - 1, 0, TopRows, TopRows + 1, 3} {
		for _, by := range []translate.Dimension{translate.ByQuery, translate.ByCountry} {
			days = append(days, Day{Date: first + translate.Date(i), Dimension: by, Rows: rows(n), Final: true})
		}
	}
	if err := h.Merge(t.Context(), testProperty, days); err != nil {
		t.Fatal(err)
	}
	f := func(by translate.Dimension, from, to int, want bool) {
		t.Helper()
		r := translate.DateRange{Start: first + translate.Date(from), End: first + translate.Date(to)}
		if got, err := h.Read(t.Context(), testProperty, by, r, 0); err != nil || got.Truncated != want {
			t.Errorf("%v from %s to %s: truncated %v, %v", by, r.Start, r.End, got.Truncated, err)
		}
	}
	f(translate.ByQuery, -20, 1, false)
	f(translate.ByQuery, 0, 2, true)
	f(translate.ByQuery, 2, 2, true)
	f(translate.ByQuery, 3, 3, true)
	f(translate.ByQuery, 4, 60, false)
	f(translate.ByQuery, -100, 100, true)
	f(translate.ByPage, -100, 100, false)
	f(translate.ByCountry, -100, 100, false)
}

func TestAClockThatWasSetBackBringsNoFormerListing(t *testing.T) {
	b := newCounting(t)
	now := time.Unix(1_800_000_000, 0)
	reader, other := historyOf(t, HistoryConfig{Bucket: b, Now: func() time.Time { return now }}), historyOf(t, HistoryConfig{Bucket: b.Bucket})
	date := day(t, "2026-01-31")
	for n, ahead := range []time.Duration{0, time.Hour} {
		if err := other.Merge(t.Context(), testProperty, []Day{{Date: date + translate.Date(n), Dimension: translate.ByQuery}}); err != nil {
			t.Fatal(err)
		}
		now = now.Add(ahead)
		if inventory, err := reader.Days(t.Context(), testProperty); err != nil || inventory[translate.ByQuery].Days != n+1 {
			t.Errorf("%v, %v; want %d days", inventory, err, n+1)
		}
	}
	b.expect(t, 2, 2)
	now = now.Add(-time.Hour)
	for range 2 {
		if inventory, err := reader.Days(t.Context(), testProperty); err != nil || inventory[translate.ByQuery].Days != 2 {
			t.Errorf("after the clock was set back: %v, %v", inventory, err)
		}
	}
	b.expect(t, 0, 1)
}

// A reader may get an object that is newer than its listing. After a restore from a backup, which preserves file times, the listed
// revision exists again: the newer object must not be served in its place.
func TestAnObjectNewerThanItsListingIsNotCachedAsTheListedOne(t *testing.T) {
	root := t.TempDir()
	b, err := bucket.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_800_000_000, 0)
	reader := historyOf(t, HistoryConfig{Bucket: b, Now: func() time.Time { return now }})
	other := historyOf(t, HistoryConfig{Bucket: b})
	date := day(t, "2026-01-31")
	merge := func(clicks int64) {
		t.Helper()
		if err := other.Merge(t.Context(), testProperty, []Day{{Date: date, Dimension: translate.ByQuery, Rows: queries(1, clicks)}}); err != nil {
			t.Fatal(err)
		}
	}
	wantClicks := func(want int64) {
		t.Helper()
		result, err := reader.Read(t.Context(), testProperty, translate.ByQuery, translate.DateRange{Start: date, End: date}, 0)
		if err != nil || result.Rows.Total().Clicks != want {
			t.Errorf("%v, %v; want %d clicks", result.Rows, err, want)
		}
	}
	merge(1)
	file := filepath.Join(root, filepath.FromSlash(objectName(testProperty, date.MonthStart())))
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	backup, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	listed, err := reader.Version(t.Context(), testProperty)
	if err != nil {
		t.Fatal(err)
	}
	merge(2)
	wantClicks(2)
	if version, err := reader.Version(t.Context(), testProperty); err != nil || version == listed {
		t.Errorf("the outdated listing is still in use (%v)", err)
	}
	if err := errors.Join(os.WriteFile(file, backup, 0o600), os.Chtimes(file, info.ModTime(), info.ModTime())); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	wantClicks(1)
	if inventory, err := reader.Days(t.Context(), testProperty); err != nil || inventory[translate.ByQuery].Days != 1 {
		t.Errorf("%v, %v", inventory, err)
	}
}

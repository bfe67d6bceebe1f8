package archive

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"sara/archive/bucket"
	"sara/archive/bucket/s3test"
	"sara/translate"
)

// anyDays draws distinct final days of a few months, with a few rows each or none, in any order.
func anyDays(random *rand.Rand, n int) []Day {
	var days []Day
	for i := range n {
		d := Day{Date: translate.NewDate(2024, 1, 20) + translate.Date(i/5), Dimension: Dimensions()[i%5], Final: true}
		var b translate.RowsBuilder
		rows := random.IntN(5)
		if d.Dimension == translate.ByDate {
			rows = min(rows, 1)
		}
		for _, k := range random.Perm(rows) {
			m := translate.Metrics{Clicks: random.Int64N(3), Impressions: random.Int64N(100), Position: random.Float64() * 50}
			b.Add(fmt.Appendf(nil, "key %d", k), m)
		}
		d.Rows = b.Rows()
		days = append(days, d)
	}
	return days
}

// objects returns all objects of a bucket.
func objects(tb testing.TB, b bucket.Bucket) map[string]string {
	tb.Helper()
	entries, err := b.List(context.Background(), "")
	if err != nil {
		tb.Fatal(err)
	}
	all := make(map[string]string)
	for _, e := range entries {
		data, _, err := b.Get(context.Background(), e.Name)
		if err != nil {
			tb.Fatal(err)
		}
		all[e.Name] = string(data)
	}
	return all
}

func same(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for name := range a {
		if a[name] != b[name] {
			return false
		}
	}
	return true
}

func TestMergeIsDeterministicInAnyOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for range 4 {
		days := anyDays(random, 30+random.IntN(150))
		straight := newTestHistory(t)
		if err := straight.Merge(t.Context(), testProperty, days); err != nil {
			t.Fatal(err)
		}
		want := objects(t, straight.bucket)

		crooked := newTestHistory(t)
		// Days are merged in any order and grouping, some repeatedly, and some first as provisional.
		queue := slices.Clone(days)
		for _, d := range days {
			if random.IntN(4) == 0 {
				queue = append(queue, d)
			}
			if random.IntN(4) == 0 {
				d.Final, d.Rows = false, queries(1, 1)
				queue = append(queue, d)
			}
		}
		random.Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })
		for len(queue) > 0 {
			n := 1 + random.IntN(len(queue))
			for _, group := range distinct(queue[:n]) {
				if err := crooked.Merge(t.Context(), testProperty, group); err != nil {
					t.Fatal(err)
				}
			}
			queue = queue[n:]
		}
		if !same(objects(t, crooked.bucket), want) {
			t.Fatal("the objects differ")
		}
	}
}

// distinct splits days into groups without duplicates.
func distinct(days []Day) (groups [][]Day) {
next:
	for _, d := range days {
		for i, group := range groups {
			if !slices.ContainsFunc(group, func(o Day) bool { return o.Date == d.Date && o.Dimension == d.Dimension }) {
				groups[i] = append(group, d)
				continue next
			}
		}
		groups = append(groups, []Day{d})
	}
	return groups
}

func TestConcurrentWritersLoseNoDayInAFolder(t *testing.T) {
	writersAtOnce(t, t.TempDir())
}

func TestConcurrentWritersLoseNoDayInS3(t *testing.T) {
	writersAtOnce(t, s3test.Start(t).NewBucket(t))
}

func writersAtOnce(t *testing.T, location string) {
	const writers, chunk = 8, 5
	days := anyDays(rand.New(rand.NewPCG(9, 10)), 200)
	var group sync.WaitGroup
	for w := range writers {
		b, err := bucket.Open(location)
		if err != nil {
			t.Fatal(err)
		}
		h, err := NewHistory(HistoryConfig{Bucket: b})
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			for i := w * chunk; i < len(days); i += writers * chunk {
				// Two writers have some days in common.
				if err := h.Merge(t.Context(), testProperty, days[i:min(i+chunk+2, len(days))]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	alone := newTestHistory(t)
	if err := alone.Merge(t.Context(), testProperty, days); err != nil {
		t.Fatal(err)
	}
	b, err := bucket.Open(location)
	if err != nil {
		t.Fatal(err)
	}
	if !same(objects(t, b), objects(t, alone.bucket)) {
		t.Error("the objects are not those that one writer alone makes")
	}
}

func TestMergeKeepsAFinalDayFromAProvisionalOne(t *testing.T) {
	h := newTestHistory(t)
	date := day(t, "2026-03-01")
	merge := func(rows *translate.Rows, final bool) {
		t.Helper()
		if err := h.Merge(t.Context(), testProperty, []Day{{Date: date, Dimension: translate.ByQuery, Rows: rows, Final: final}}); err != nil {
			t.Fatal(err)
		}
	}
	clicks := func(want int64) {
		t.Helper()
		got, err := h.Read(t.Context(), testProperty, translate.ByQuery, translate.DateRange{Start: date, End: date}, 0)
		if err != nil || got.Rows.Len() != 1 || got.Rows.Metrics(0).Clicks != want {
			t.Errorf("%+v, %v, want one row with %d clicks", got, err, want)
		}
	}
	merge(queries(1, 10), false)
	merge(queries(1, 11), false)
	clicks(11)
	merge(queries(1, 12), true)
	clicks(12)
	merge(queries(1, 13), false)
	clicks(12)
	merge(queries(1, 14), true)
	clicks(14)
}

func TestMergeKeepsTheTopHundredQueriesAndPages(t *testing.T) {
	h := newTestHistory(t)
	date := day(t, "2026-03-01")
	var b translate.RowsBuilder
	for i := range 150 {
		b.Add(fmt.Appendf(nil, "%03d", 149-i), translate.Metrics{Clicks: int64(i / 75), Impressions: 9, Position: 2})
	}
	b.Add([]byte("none"), translate.Metrics{})
	rows := b.Rows()
	var days []Day
	for _, by := range []translate.Dimension{translate.ByQuery, translate.ByPage, translate.ByCountry} {
		days = append(days, Day{Date: date, Dimension: by, Rows: rows})
	}
	if err := h.Merge(t.Context(), testProperty, days); err != nil {
		t.Fatal(err)
	}
	for _, d := range days {
		want := 100
		if d.Dimension == translate.ByCountry {
			want = 150
		}
		result, err := h.Read(t.Context(), testProperty, d.Dimension, translate.DateRange{Start: date, End: date}, 0)
		if err != nil || result.Rows.Len() != want {
			t.Fatalf("%s: %+v, %v, want %d rows", d.Dimension, result, err, want)
		}
		got := result.Rows
		for i := range got.Len() {
			// Keys 000 to 074 have a click, 075 to 149 none.
			if string(got.Key(i)) != fmt.Sprintf("%03d", i) {
				t.Errorf("%s: row %d is %s", d.Dimension, i, got.Key(i))
			}
		}
	}
}

func TestMergeOfAnInvalidDayWritesNothing(t *testing.T) {
	good := Day{Date: day(t, "2026-03-01"), Dimension: translate.ByDevice}
	rows := func(keys string, m translate.Metrics) *translate.Rows {
		var b translate.RowsBuilder
		for key := range strings.SplitSeq(keys, ",") {
			b.Add([]byte(key), m)
		}
		return b.Rows()
	}
	one := translate.Metrics{Clicks: 1, Impressions: 1, Position: 1}
	refuse := func(want, property string, days ...Day) {
		t.Helper()
		h := newTestHistory(t)
		err := h.Merge(t.Context(), property, append([]Day{good}, days...))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if n := len(objects(t, h.bucket)); n > 0 {
			t.Errorf("%s: %d objects were written", want, n)
		}
	}
	query := func(rows *translate.Rows) Day {
		return Day{Date: good.Date, Dimension: translate.ByQuery, Rows: rows}
	}
	refuse(`key "a" is given twice`, testProperty, query(rows("a,a", one)))
	refuse("a query needs a key", testProperty, query(rows("", one)))
	refuse("must be UTF-8", testProperty, query(rows("\xff", one)))
	refuse("of at most 16384 bytes", testProperty, query(rows(strings.Repeat("x", LongestKey+1), one)))
	for _, m := range []translate.Metrics{{Clicks: -1}, {Impressions: -1}, {Clicks: 1<<53 + 1}, {Impressions: 1<<53 + 1}} {
		refuse("both must be 0 to 2^53", testProperty, query(rows("a", m)))
	}
	for _, position := range []float64{-1, 1 << 31, math.NaN(), math.Inf(1)} {
		refuse("is out of range", testProperty, query(rows("a", translate.Metrics{Impressions: 1, Position: position})))
	}
	refuse(`key "" is given twice`, testProperty, Day{Date: good.Date, Rows: rows("2026-03-01,2026-03-02", one)})
	refuse("device of 2026-03-01 is given twice", testProperty, good)
	refuse("is before 1970", testProperty, Day{Date: -1})
	refuse("the archive has no dimension", testProperty, Day{Dimension: 17})
	refuse("is not a property id", "../other")
	refuse("is not a property id", "a/b")
	refuse("is not a property id", strings.Repeat("a", propertyIDLength+1))
	refuse("is not a property id", "")
}

func TestPruneRemovesOnlyEarlierDays(t *testing.T) {
	h := newTestHistory(t)
	days := anyDays(rand.New(rand.NewPCG(11, 12)), 300) // January 20 to March 19
	if err := h.Merge(t.Context(), testProperty, days); err != nil {
		t.Fatal(err)
	}
	before := day(t, "2024-02-15")
	for range 2 { // pruning is idempotent
		if err := h.Prune(t.Context(), testProperty, before); err != nil {
			t.Fatal(err)
		}
	}
	rest := newTestHistory(t)
	days = slices.DeleteFunc(days, func(d Day) bool { return d.Date < before })
	if err := rest.Merge(t.Context(), testProperty, days); err != nil {
		t.Fatal(err)
	}
	if !same(objects(t, h.bucket), objects(t, rest.bucket)) {
		t.Error("what is left is not what was never to be pruned")
	}
	if err := h.Prune(t.Context(), testProperty, day(t, "2030-01-01")); err != nil {
		t.Fatal(err)
	}
	if n := len(objects(t, h.bucket)); n > 0 {
		t.Errorf("%d objects are left", n)
	}
	if err := h.Prune(t.Context(), "never-seen", before); err != nil {
		t.Error(err)
	}
}

func TestDaysListsArchivedDays(t *testing.T) {
	h := newTestHistory(t)
	if inventory, err := h.Days(t.Context(), testProperty); len(inventory) != 0 || err != nil {
		t.Errorf("an unknown property has %v, %v", inventory, err)
	}
	err := h.Merge(t.Context(), testProperty, []Day{
		{Date: day(t, "2024-01-30"), Dimension: translate.ByQuery, Final: true},
		{Date: day(t, "2024-02-02"), Dimension: translate.ByQuery, Rows: queries(1, 1)},
		{Date: day(t, "2024-02-03"), Dimension: translate.ByQuery, Rows: queries(1, 1), Final: true},
		{Date: day(t, "2024-05-31"), Dimension: translate.ByDate, Final: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	inventory, err := h.Days(t.Context(), testProperty)
	if err != nil {
		t.Fatal(err)
	}
	want := "map[date:{1 2024-05-31 2024-05-31 [] []} query:{3 2024-01-30 2024-02-03 [2024-01-31 2024-02-01] [2024-02-02]}]"
	if got := fmt.Sprint(inventory); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if first, last := inventory.Bounds(); fmt.Sprint(first, last) != "2024-01-30 2024-05-31" {
		t.Errorf("the bounds are %v and %v", first, last)
	}
	if first, last := (Inventory{}).Bounds(); first != nil || last != nil {
		t.Errorf("the bounds of nothing are %v and %v", first, last)
	}
	if months := (Inventory{}).EmptyMonths(); months != nil {
		t.Errorf("nothing has the empty months %v", months)
	}
	query := inventory[translate.ByQuery]
	for date, want := range map[string]string{"2024-01-29": "false false", "2024-01-30": "true true", "2024-01-31": "false false",
		"2024-02-02": "true false", "2024-02-04": "false false"} {
		if got := fmt.Sprint(query.Has(day(t, date)), query.HasFinal(day(t, date))); got != want {
			t.Errorf("%s: %s, want %s", date, got, want)
		}
	}
	if none := inventory[translate.ByPage]; none.Has(0) {
		t.Error("a dimension without days has days")
	}
	for by, want := range map[translate.Dimension]string{translate.ByQuery: "{2024-01-30 2024-02-03} true",
		translate.ByDate: "{2024-01-30 2024-05-31} true", translate.ByPage: "{1970-01-01 1970-01-01} false"} {
		bounds, ok, err := h.Bounds(t.Context(), testProperty, by, 0)
		if got := fmt.Sprint(bounds, ok); err != nil || got != want {
			t.Errorf("the days of %s: %s, %v, want %s", by, got, err, want)
		}
	}
	for from, want := range map[string]string{"2024-01-30": "{2024-01-30 2024-02-03} true", "2024-02-01": "{2024-02-02 2024-02-03} true",
		"2024-02-03": "{2024-02-03 2024-02-03} true", "2024-02-04": "{1970-01-01 1970-01-01} false", "2024-06-01": "{1970-01-01 1970-01-01} false"} {
		bounds, ok, err := h.Bounds(t.Context(), testProperty, translate.ByQuery, day(t, from))
		if got := fmt.Sprint(bounds, ok); err != nil || got != want {
			t.Errorf("the days from %s on: %s, %v, want %s", from, got, err, want)
		}
	}
}

// unreliable is a bucket whose writes fail after a given number of them.
type unreliable struct {
	bucket.Bucket
	puts int
}

func (u *unreliable) Put(ctx context.Context, name string, data []byte, revision string) (string, error) {
	if u.puts--; u.puts < 0 {
		return "", errors.New("the disk is full")
	}
	return u.Bucket.Put(ctx, name, data, revision)
}

func TestMergeIsIdempotentAfterAFailure(t *testing.T) {
	days := anyDays(rand.New(rand.NewPCG(13, 14)), 300)
	b, err := bucket.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	u := &unreliable{Bucket: b, puts: 2}
	h, err := NewHistory(HistoryConfig{Bucket: u})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Merge(t.Context(), testProperty, days); err == nil || !strings.Contains(err.Error(), "merge into 2024-03: ") {
		t.Errorf("%v", err)
	}
	u.puts = 1 // archived days are not written again
	if err := h.Merge(t.Context(), testProperty, days); err != nil {
		t.Error(err)
	}
	whole := newTestHistory(t)
	if err := whole.Merge(t.Context(), testProperty, days); err != nil {
		t.Fatal(err)
	}
	if !same(objects(t, b), objects(t, whole.bucket)) {
		t.Error("the objects differ")
	}
}

func TestMergeGivesUpWhenEveryWriteConflicts(t *testing.T) {
	b, err := bucket.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h, err := NewHistory(HistoryConfig{Bucket: refusing{b}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	days := []Day{{Date: 1, Dimension: translate.ByQuery}}
	if err := h.Merge(ctx, testProperty, days); err == nil {
		t.Error("it succeeds though its context has ended")
	}
	if err := h.Merge(t.Context(), testProperty, days); !errors.Is(err, bucket.ErrChanged) {
		t.Error(err)
	}
}

type refusing struct{ bucket.Bucket }

func (refusing) Put(context.Context, string, []byte, string) (string, error) {
	return "", bucket.ErrChanged
}

// forgetful is a bucket that does every write twice, as a client does when a response was lost.
type forgetful struct{ bucket.Bucket }

func (f forgetful) Put(ctx context.Context, name string, data []byte, revision string) (string, error) {
	if _, err := f.Bucket.Put(ctx, name, data, revision); err != nil {
		return "", err
	}
	return f.Bucket.Put(ctx, name, data, revision)
}

func TestImportCountsDaysWhoseWriteWasDoneTwice(t *testing.T) {
	b, err := bucket.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h, err := NewHistory(HistoryConfig{Bucket: forgetful{b}})
	if err != nil {
		t.Fatal(err)
	}
	records := []Record{{Date: 30, Dimension: translate.ByDate, Clicks: 1, Impressions: 2, Position: 3}, {Date: 31, Dimension: translate.ByDate}}
	for _, want := range []ImportResult{{Rows: 2, Days: 1 + 5, DroppedRows: 1}, {Rows: 2, Kept: 1 + 5, DroppedRows: 1}} {
		result, err := h.Import(t.Context(), testProperty, placed(records), ImportOptions{Until: 40})
		if err != nil || result.Rows != want.Rows || result.Days != want.Days || result.Kept != want.Kept || result.DroppedRows != want.DroppedRows {
			t.Errorf("%+v, %v; want %+v", result, err, want)
		}
	}
}

package archive

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"sara/archive/bucket"
	"sara/policy/lru"
	"sara/translate"
)

// The methods that read no rows, and Begins, agree with Read.
func TestExtentAgreesWithRead(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for round := range 20 {
		b, err := bucket.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		h, err := NewHistory(HistoryConfig{Bucket: b})
		if err != nil {
			t.Fatal(err)
		}
		all := translate.DateRange{Start: day(t, "2024-01-20"), End: day(t, "2024-05-10")}
		var days []Day
		without := random.IntN(6) // if it is one of these months, none of its days is archived
		for date := all.Start; date <= all.End; date++ {
			if int(date.Time().Month()) == without {
				continue
			}
			for _, by := range []translate.Dimension{translate.ByDate, translate.ByQuery} {
				if random.IntN(3) > 0 {
					continue
				}
				var rows translate.RowsBuilder
				if random.IntN(3) == 0 {
					rows.Add([]byte("key"), translate.Metrics{Impressions: int64(random.IntN(2)), Position: 1})
				}
				days = append(days, Day{Date: date, Dimension: by, Rows: rows.Rows(), Final: true})
			}
		}
		if err := h.Merge(t.Context(), testProperty, days); err != nil {
			t.Fatal(err)
		}
		for _, by := range []translate.Dimension{translate.ByDate, translate.ByQuery, translate.ByPage} {
			start := all.Start + translate.Date(random.IntN(30)) - 10
			r := translate.DateRange{Start: start, End: start + translate.Date(random.IntN(40))}
			wantExtent(t, h, by, r, fmt.Sprintf("round %d, %s, %v", round, by, r))
			wantBounds(t, h, by, all, fmt.Sprintf("round %d, %s", round, by))
		}
	}
}

// wantBounds checks the first and the last archived day against what Read misses of all days.
func wantBounds(t *testing.T, h *History, by translate.Dimension, all translate.DateRange, what string) {
	t.Helper()
	read, err := h.Read(context.Background(), testProperty, by, all, 0)
	if err != nil {
		t.Fatal(err)
	}
	var archived []translate.Date
	for date := all.Start; date <= all.End; date++ {
		if !slices.Contains(read.Missing, date) {
			archived = append(archived, date)
		}
	}
	for from := all.Start - 1; from <= all.End+1; from += 7 {
		kept := slices.DeleteFunc(slices.Clone(archived), func(d translate.Date) bool { return d < from })
		bounds, ok, err := h.Bounds(context.Background(), testProperty, by, from)
		if err != nil || ok != (len(kept) > 0) || ok && bounds != (translate.DateRange{Start: kept[0], End: kept[len(kept)-1]}) {
			t.Errorf("%s: the bounds from %v on are %v (%v, %v), want those of %v", what, from, bounds, ok, err, kept)
		}
	}
	if by != translate.ByDate { // which has the days of any dimension
		return
	}
	inventory, err := h.Days(context.Background(), testProperty)
	first, last := inventory.Bounds()
	if err != nil || *first != archived[0] || *last != archived[len(archived)-1] {
		t.Errorf("%s: the inventory is from %v to %v (%v), want %v", what, first, last, err, archived)
	}
	var empty []translate.Date
	for month := archived[0].MonthStart(); month < archived[len(archived)-1]; month = month.AddMonths(1) {
		if !slices.ContainsFunc(archived, func(d translate.Date) bool { return d.MonthStart() == month }) {
			empty = append(empty, month)
		}
	}
	if got := inventory.EmptyMonths(); !slices.Equal(got, empty) {
		t.Errorf("%s: the months without days are %v, want %v", what, got, empty)
	}
}

// Another process may remove months that this one has listed, and the listing is cached for some seconds. Until then their days are missing.
func TestMonthsThatWereRemovedSinceTheyWereListed(t *testing.T) {
	b, err := bucket.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	other := historyOf(t, HistoryConfig{Bucket: b})
	merge := func() {
		t.Helper()
		if err := other.Merge(t.Context(), testProperty, anyDays(rand.New(rand.NewPCG(7, 8)), 300)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, r := t.Context(), translate.DateRange{Start: day(t, "2024-01-01"), End: day(t, "2024-12-31")}
	for name, call := range map[string]func(h *History) (found any, err error){
		"read": func(h *History) (any, error) {
			read, err := h.Read(ctx, testProperty, translate.ByQuery, r, 0)
			return read.Rows.Len() > 0 || len(read.Missing) < r.Days() || read.Damage != nil, err
		},
		"missing": func(h *History) (any, error) {
			missing, damaged, err := h.Missing(ctx, testProperty, translate.ByQuery, r)
			return len(missing) < r.Days() || damaged != nil, err
		},
		"bounds": func(h *History) (any, error) {
			_, ok, err := h.Bounds(ctx, testProperty, translate.ByQuery, 0)
			return ok, err
		},
		"begins": func(h *History) (any, error) { _, ok, err := h.Begins(ctx, testProperty, r.Start); return ok, err },
		"days":   func(h *History) (any, error) { found, err := h.Days(ctx, testProperty); return len(found) > 0, err },
		"export": func(h *History) (any, error) {
			for _, err := range h.Export(ctx, testProperty, r) {
				return true, err
			}
			return false, nil
		},
	} {
		merge()
		now := time.Unix(1e9, 0)
		h := historyOf(t, HistoryConfig{Bucket: b, Now: func() time.Time { return now }})
		listed, err := h.Version(ctx, testProperty)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Erase(ctx, testProperty); err != nil {
			t.Fatal(err)
		}
		if found, err := call(h); err != nil || found != false {
			t.Errorf("%s: %v, %v", name, found, err)
		}
		if version, err := h.Version(ctx, testProperty); err != nil || version != listed {
			t.Errorf("%s: version %d is %d now (%v), within the time of a listing", name, listed, version, err)
		}
		now = now.Add(time.Minute)
		if version, err := h.Version(ctx, testProperty); err != nil || version == listed {
			t.Errorf("%s: version %d stays after the removal (%v)", name, version, err)
		}
	}
}

// A removal while the bounds are looked up leaves the days that were found before.
func TestBoundsOfAMonthThatIsRemovedMeanwhile(t *testing.T) {
	b, err := bucket.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	writer := historyOf(t, HistoryConfig{Bucket: b})
	var days []Day
	for _, date := range []string{"2024-01-05", "2024-01-07", "2024-02-03"} {
		days = append(days, Day{Date: day(t, date), Dimension: translate.ByQuery, Rows: new(translate.Rows)})
	}
	if err := writer.Merge(t.Context(), testProperty, days); err != nil {
		t.Fatal(err)
	}
	h := historyOf(t, HistoryConfig{CacheBytes: 1, Bucket: hooked{Bucket: b, get: func(name string, data []byte) ([]byte, error) {
		_, err := writer.Erase(t.Context(), testProperty)
		return data, err
	}}})
	h.ledgers = lru.New[revisionKey](lru.Config[*ledger]{Weight: 0}) // as if those of other properties had taken its place
	r, ok, err := h.Bounds(t.Context(), testProperty, translate.ByQuery, 0)
	if want := (translate.DateRange{Start: days[0].Date, End: days[1].Date}); err != nil || !ok || r != want {
		t.Errorf("%v, %v, %v, want %v", r, ok, err, want)
	}
}

// silent is a bucket that does not answer some of its calls.
type silent struct {
	bucket.Bucket
	get, list bool
}

var errSilent = errors.New("the store does not answer")

func (s silent) Get(ctx context.Context, name string) ([]byte, string, error) {
	if s.get {
		return nil, "", errSilent
	}
	return s.Bucket.Get(ctx, name)
}

func (s silent) List(ctx context.Context, prefix string) ([]bucket.Entry, error) {
	if s.list {
		return nil, errSilent
	}
	return s.Bucket.List(ctx, prefix)
}

// A store that does not answer is an error: its days must not look missing, and nothing must be done.
func TestAnOutageOfTheStoreIsNotTheLackOfDays(t *testing.T) {
	b, err := bucket.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	days := anyDays(rand.New(rand.NewPCG(5, 6)), 200)
	filled, err := NewHistory(HistoryConfig{Bucket: b})
	if err != nil {
		t.Fatal(err)
	}
	if err := filled.Merge(t.Context(), testProperty, days); err != nil {
		t.Fatal(err)
	}
	before, ctx := objects(t, b), t.Context()
	r := translate.DateRange{Start: day(t, "2024-01-01"), End: day(t, "2024-12-31")}
	for name, call := range map[string]func(h *History) error{
		"read":    func(h *History) error { _, err := h.Read(ctx, testProperty, translate.ByQuery, r, 0); return err },
		"missing": func(h *History) error { _, _, err := h.Missing(ctx, testProperty, translate.ByQuery, r); return err },
		"bounds":  func(h *History) error { _, _, err := h.Bounds(ctx, testProperty, translate.ByQuery, 0); return err },
		"begins":  func(h *History) error { _, _, err := h.Begins(ctx, testProperty, r.Start); return err },
		"days":    func(h *History) error { _, err := h.Days(ctx, testProperty); return err },
		"merge":   func(h *History) error { return h.Merge(ctx, testProperty, days) },
		"prune":   func(h *History) error { return h.Prune(ctx, testProperty, day(t, "2024-02-10")) },
		"verify":  func(h *History) error { return h.Verify(ctx, testProperty, func(Verified) {}) },
		"version": func(h *History) error { _, err := h.Version(ctx, testProperty); return err },
		"export": func(h *History) (err error) {
			for _, err = range h.Export(ctx, testProperty, r) {
				_ = err // the last one counts
			}
			return err
		},
	} {
		for _, faults := range []silent{{get: true}, {list: true}} {
			if faults.list && name == "merge" || faults.get && name == "version" {
				continue // it lists nothing, or gets nothing
			}
			faults.Bucket = b
			h, err := NewHistory(HistoryConfig{Bucket: faults})
			if err != nil {
				t.Fatal(err)
			}
			if err := call(h); !errors.Is(err, errSilent) {
				t.Errorf("%s, get silent %v, list silent %v: %v", name, faults.get, faults.list, err)
			}
		}
	}
	if !same(objects(t, b), before) {
		t.Error("objects have changed")
	}
}

func wantExtent(t *testing.T, h *History, by translate.Dimension, r translate.DateRange, what string) {
	t.Helper()
	ctx := context.Background()
	read, err := h.Read(ctx, testProperty, by, r, 0)
	if err != nil {
		t.Fatal(err)
	}
	if missing, _, err := h.Missing(ctx, testProperty, by, r); err != nil || !slices.Equal(missing, read.Missing) {
		t.Errorf("%s: missing %v (%v), want %v", what, missing, err, read.Missing)
	}
	totals, err := h.Read(ctx, testProperty, translate.ByDate, translate.DateRange{Start: r.Start, End: day(t, "2024-04-30")}, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	for i := range totals.Rows.Len() {
		if want == "" && totals.Rows.Metrics(i).Impressions > 0 {
			want = string(totals.Rows.Key(i))
		}
	}
	if begins, ok, err := h.Begins(ctx, testProperty, r.Start); err != nil || ok != (want != "") || ok && begins.String() != want {
		t.Errorf("%s: begins on %s (%v, %v), want %q", what, begins, ok, err, want)
	}
}

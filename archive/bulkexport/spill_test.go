package bulkexport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"sara/archive"
	"sara/translate"
)

// Sums over many runs, merged several times, equal those of a map, and take no more memory than requested.
func TestSpillAddsUpAsAMapDoes(t *testing.T) {
	f, err := openFolder(t.TempDir() + "/sara-import-x")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.close() }()
	const entries = 300
	s := &spill{folder: f, state: &state{}, sums: newSums(entries * entryBytes), maxRuns: 4}
	room := fmt.Sprint(cap(s.sums.entries), cap(s.sums.keys), len(s.sums.slots))
	if bytes := cap(s.sums.entries)*48 + cap(s.sums.keys) + 4*len(s.sums.slots); cap(s.sums.entries) != entries ||
		bytes > 2*archive.LongestKey+entries*entryBytes {
		t.Fatalf("%s: %d bytes", room, bytes)
	}
	random := rand.New(rand.NewPCG(1, 2))
	want := make(map[string]figures)
	longest := strings.Repeat("é", archive.LongestKey/2)
	for range 30_000 {
		g := group{translate.NewDate(2025, 1, 20) + translate.Date(random.IntN(40)), translate.Dimension(random.IntN(5))}
		key := fmt.Sprintf("https://shop.example/%d", random.IntN(40))
		if random.IntN(5000) == 0 {
			key = longest
		}
		row := figures{int64(random.IntN(5)), int64(random.IntN(1 << 20)), float64(random.IntN(1<<30)) / 4}
		if s.isFull() {
			if err := s.flush(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.addSum(g, []byte(key), row); err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprint(g.date, g.by, key)
		sum := want[id]
		if err := sum.add(row); err != nil {
			t.Fatal(err)
		}
		want[id] = sum
	}
	if err := s.flush(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(f.path); err != nil || len(left) > s.maxRuns+2 || s.state.NextRun < 20 {
		t.Errorf("%d files are in the folder after %d runs (%v)", len(left), s.state.NextRun, err)
	}
	if now := fmt.Sprint(cap(s.sums.entries), cap(s.sums.keys), len(s.sums.slots)); now != room {
		t.Errorf("the table has grown from %s to %s", room, now)
	}
	got := make(map[string]figures)
	var last group
	var lastKey []byte
	months := monthsOf(s.state.Runs)
	for _, month := range months {
		err := s.mergeMonth(t.Context(), s.state.Runs, month, func(g group, key []byte, f figures) error {
			if c := compareGroups(last, g); c > 0 || c == 0 && bytes.Compare(lastKey, key) >= 0 {
				t.Errorf("%v %.40q comes after %v %.40q", g, key, last, lastKey)
			}
			last, lastKey = g, slices.Clone(key)
			got[fmt.Sprint(g.date, g.by, string(key))] = f
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if !maps.Equal(got, want) || len(months) != 2 {
		t.Errorf("%d sums of %d months, want %d", len(got), len(months), len(want))
	}
}

// Merging many runs takes minutes. An import that is interrupted meanwhile stops, and keeps the runs.
func TestMergeOfRunsIsInterrupted(t *testing.T) {
	f, err := openFolder(t.TempDir() + "/x")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.close() }()
	s := &spill{folder: f, state: &state{}, sums: newSums(0), maxRuns: 2}
	ended, end := context.WithCancel(t.Context())
	end()
	for runs, want := range []error{nil, nil, context.Canceled} {
		if _, err := s.sums.add(group{date: 20000}, []byte("key"), figures{1, 2, 3}); err != nil {
			t.Fatal(err)
		}
		if err := s.flush(ended, nil); !errors.Is(err, want) || len(s.state.Runs) != runs+1 {
			t.Fatalf("%d runs: %v", len(s.state.Runs), err)
		}
	}
	if err := s.flush(t.Context(), nil); err != nil || len(s.state.Runs) != 1 {
		t.Fatalf("%d runs: %v", len(s.state.Runs), err)
	}
	var sum figures
	err = s.mergeMonth(t.Context(), s.state.Runs, translate.Date(20000).MonthStart(), func(_ group, _ []byte, f figures) error {
		sum = f
		return nil
	})
	if want := (figures{3, 6, 9}); err != nil || sum != want {
		t.Errorf("%v (%v), want %v", sum, err, want)
	}
}

func TestSumsAreBounded(t *testing.T) {
	s := newSums(0)
	if _, err := s.add(group{}, nil, figures{impressions: largest}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.add(group{}, nil, figures{impressions: 1}); err == nil {
		t.Error("more than 2^53 impressions are added up")
	}
}

// Two concurrent imports of one property would share their folder.
func TestFolderIsLocked(t *testing.T) {
	path := t.TempDir() + "/x"
	f, err := openFolder(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openFolder(path); err == nil || !strings.Contains(err.Error(), "another import of this property is running") {
		t.Errorf("opened twice: %v", err)
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
}

func TestDamagedRunIsAnError(t *testing.T) {
	f, err := openFolder(t.TempDir() + "/x")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.close() }()
	s := &spill{folder: f, state: &state{}, sums: newSums(0), maxRuns: 4}
	if _, err := s.sums.add(group{date: 20000}, []byte("key"), figures{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	if err := s.flush(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(f.file(s.state.Runs[0].Name), s.state.Runs[0].size()-2); err != nil {
		t.Fatal(err)
	}
	err = s.mergeMonth(t.Context(), s.state.Runs, translate.Date(20000).MonthStart(), func(group, []byte, figures) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "a temporary file is damaged") {
		t.Errorf("a torn run: %v", err)
	}
}

func TestQueryIsQuotedAndChecked(t *testing.T) {
	days := translate.DateRange{Start: FirstExport(), End: FirstExport()}
	good := Query{SiteURL: `https://shop.example/a'b\c/`, Dataset: "p.d", Days: days, URI: PlaceholderURI}
	if err := good.Check(); err != nil || !strings.Contains(good.String(), `site_url = 'https://shop.example/a\'b\\c/'`) {
		t.Errorf("%v:\n%s", err, good)
	}
	for _, change := range []func(*Query){
		func(q *Query) { q.Dataset = "" },
		func(q *Query) { q.Dataset = "a.b.c`" },
		func(q *Query) { q.Dataset = "Project.d" },
		func(q *Query) { q.Dataset = "d\n" },
		func(q *Query) { q.URI = "gs://b/a" },
		func(q *Query) { q.URI = "gs://b/**" },
		func(q *Query) { q.URI = "gs://b/'*" },
		func(q *Query) { q.SiteURL = "https://a/\nb" },
		func(q *Query) { q.Days.End-- },
	} {
		bad := good
		if change(&bad); bad.Check() == nil {
			t.Errorf("%+v is good", bad)
		}
	}
}

package bulkexport

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sara/archive"
)

// errFull is the error that a History returns instead of archiving another month.
var errFull = errors.New("the disk is full")

// limitedHistory archives some months, and counts them.
type limitedHistory struct {
	*testArchive
	months, limit int
}

func (h *limitedHistory) ImportDays(ctx context.Context, property string, days []*archive.DayBuilder, o archive.ImportOptions) (
	archive.ImportResult, error) {
	if h.months == h.limit {
		return archive.ImportResult{}, errFull
	}
	h.months++
	return h.testArchive.ImportDays(ctx, property, days, o)
}

// testInterrupted ends the context at the ends of files and within them. Each import resumes where the one before stopped, whatever the
// order in which it is given the files.
func testInterrupted(t *testing.T, w *world) {
	whole, parts := newArchive(t), newArchive(t)
	want := whole.bring(t, options(t, w.shards["parquet"]))
	o := small(options(t, w.shards["parquet"]))
	var last int64
	for attempt := 0; ; attempt++ {
		ctx, cancel := context.WithCancel(t.Context())
		first := last
		o.Progress = hooks{reading: func(_, rows int64) {
			if rows < last {
				t.Errorf("attempt %d begins at row %d, after %d were read", attempt, rows, last)
			}
			last = rows
			if atOnce := attempt%3 == 2; atOnce || rows > first+700 { // while it skips what has been read, or later
				cancel()
			}
		}}
		slices.Reverse(o.Inputs)
		result, err := Import(ctx, parts, o)
		cancel()
		if err == nil {
			if result.RowsRead != want.RowsRead || !result.Resumed || attempt < 4 || fmt.Sprint(result.Counts) != fmt.Sprint(want.Counts) {
				t.Errorf("after %d interruptions: %+v, want %+v", attempt, result.Counts, want.Counts)
			}
			break
		}
		if !errors.Is(err, context.Canceled) || attempt > 50 {
			t.Fatal(err)
		}
	}
	if fmt.Sprint(parts.bytes(t)) != fmt.Sprint(whole.bytes(t)) {
		t.Error("an import that was interrupted archives other bytes")
	}
}

// testKilled starts from the temporary folder as it was at each moment of an import, as if the process had been killed.
func testKilled(t *testing.T, w *world) {
	whole := newArchive(t)
	o := small(options(t, w.shards["parquet"]))
	var moments []string
	o.Progress = hooks{reading: func(int64, int64) {
		moment := t.TempDir()
		if err := os.CopyFS(moment, os.DirFS(o.Temp)); err != nil {
			t.Fatal(err)
		}
		moments = append(moments, moment)
	}}
	want := whole.bring(t, o)
	resumed := 0
	for i, moment := range moments {
		if i%4 != 1 && i != len(moments)-1 {
			continue
		}
		o := small(o)
		o.Temp, o.Progress = moment, hooks{}
		// The remains of an unfinished run.
		if err := os.WriteFile(filepath.Join(moment, "sara-import-"+testProperty, "999999.run"), []byte("torn"), 0o600); err != nil {
			t.Fatal(err)
		}
		a := newArchive(t)
		result := a.bring(t, o)
		if result.Resumed {
			resumed++
		}
		if fmt.Sprint(result.Counts) != fmt.Sprint(want.Counts) || fmt.Sprint(a.bytes(t)) != fmt.Sprint(whole.bytes(t)) {
			t.Errorf("after the end at moment %d: %+v, want %+v, or other bytes", i, result.Counts, want.Counts)
		}
	}
	if len(moments) < 8 || resumed < 2 {
		t.Errorf("%d of %d imports continued", resumed, len(moments))
	}
}

// Months that are archived are not archived again, unless the files have changed or Replace is set.
func testMonths(t *testing.T, w *world) {
	whole := newArchive(t)
	want := whole.bring(t, options(t, w.shards["csv"]))
	h := &limitedHistory{testArchive: newArchive(t), limit: 1}
	o := options(t, w.shards["csv"])
	if _, err := Import(t.Context(), h, o); !errors.Is(err, errFull) || h.months != 1 {
		t.Fatalf("%v after %d months", err, h.months)
	}
	h.limit = 10
	result, err := Import(t.Context(), h, o)
	if err != nil || h.months != 2 || fmt.Sprint(result.ImportResult) != fmt.Sprint(want.ImportResult) {
		t.Errorf("%d months, %v: %+v, want %+v", h.months, err, result.ImportResult, want.ImportResult)
	}
	if fmt.Sprint(h.bytes(t)) != fmt.Sprint(whole.bytes(t)) {
		t.Error("an import that failed archives other bytes")
	}
	h.limit = 3
	if _, err := Import(t.Context(), h, o); !errors.Is(err, errFull) {
		t.Fatal(err)
	}
	h.limit, o.Replace = 10, true
	if result, err = Import(t.Context(), h, o); err != nil || h.months != 5 || result.Kept != 0 || !result.Resumed {
		t.Errorf("%d months, %v: %+v", h.months, err, result)
	}
}

// An archive that lacks a month gets it even if an interrupted import has archived it: the month may have been deleted since, or
// this is another archive, such as that of a copy of the deployment.
func testOtherArchive(t *testing.T, w *world) {
	whole := newArchive(t)
	want := whole.bring(t, options(t, w.shards["csv"]))
	first := &limitedHistory{testArchive: newArchive(t), limit: 1}
	o := options(t, w.shards["csv"])
	if _, err := Import(t.Context(), first, o); !errors.Is(err, errFull) {
		t.Fatal(err)
	}
	other := newArchive(t)
	result := other.bring(t, o)
	if !result.Resumed || fmt.Sprint(result.ImportResult) != fmt.Sprint(want.ImportResult) || fmt.Sprint(other.bytes(t)) != fmt.Sprint(whole.bytes(t)) {
		t.Errorf("another archive: %+v, want %+v", result.ImportResult, want.ImportResult)
	}
}

// An import whose temporary files are gone, for example because a program cleaned up the cache folder, starts over.
func testLostFiles(t *testing.T, w *world) {
	whole := newArchive(t)
	want := whole.bring(t, options(t, w.shards["csv"]))
	for name, lose := range map[string]func(string) error{"gone": os.Remove, "cut": func(path string) error { return os.Truncate(path, 1) }} {
		o := small(options(t, w.shards["csv"]))
		ctx, cancel := context.WithCancel(t.Context())
		o.Progress = hooks{reading: func(_, rows int64) {
			if rows > want.RowsRead/2 {
				cancel()
			}
		}}
		if _, err := Import(ctx, newArchive(t), o); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		cancel()
		runs, err := filepath.Glob(filepath.Join(o.Temp, "*", "*.run"))
		if err != nil || len(runs) == 0 || lose(runs[0]) != nil {
			t.Fatalf("%d runs, %v", len(runs), err)
		}
		o.Progress = hooks{}
		a := newArchive(t)
		if result := a.bring(t, o); result.Resumed || fmt.Sprint(result.Counts) != fmt.Sprint(want.Counts) ||
			fmt.Sprint(a.bytes(t)) != fmt.Sprint(whole.bytes(t)) {
			t.Errorf("%s: %+v, want %+v, or other bytes", name, result.Counts, want.Counts)
		}
	}
}

// twoMonths returns the options of an import with a day in each of two months, of which each day has some clicks.
func twoMonths(t *testing.T, clicks int) Options {
	t.Helper()
	folder := t.TempDir()
	text := strings.Join(siteColumns(), ",")
	for _, day := range []string{"2025-01-28", "2025-02-01"} {
		text += fmt.Sprintf("\n%s,sc-domain:shop.example,WEB,10,%d,5,deu,MOBILE,shoes,false", day, clicks)
	}
	writeFile(t, filepath.Join(folder, "site.csv"), []byte(text+"\n"), false)
	return options(t, folder)
}

// An archive that has other figures of the days of an interrupted import gets them all replaced: which archive was interrupted is not known.
func TestReplaceContinuesInAnotherArchive(t *testing.T) {
	whole, other, first := newArchive(t), newArchive(t), &limitedHistory{testArchive: newArchive(t), limit: 1}
	other.bring(t, twoMonths(t, 1))
	o := twoMonths(t, 2)
	o.Replace = true
	if _, err := Import(t.Context(), first, o); !errors.Is(err, errFull) {
		t.Fatal(err)
	}
	if result := other.bring(t, o); !result.Resumed || result.Days != 8 || result.Kept != 0 {
		t.Errorf("%+v", result)
	}
	whole.bring(t, twoMonths(t, 2))
	if got, want := other.rows(t), whole.rows(t); !slices.Equal(got, want) {
		t.Errorf("archived %q, want %q", got, want)
	}
}

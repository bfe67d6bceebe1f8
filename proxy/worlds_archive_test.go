package proxy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"sara/archive"
	"sara/archive/bucket"
	"sara/archive/sqlstore"
	"sara/translate"
)

// A memoryBucket is a bucket for the archives of hundreds of worlds: a folder would sync each of their files to the disk.
type memoryBucket struct {
	mu      sync.Mutex
	objects map[string][]byte // guarded by mu
}

func revisionOf(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

func (b *memoryBucket) Get(_ context.Context, name string) ([]byte, string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	data, ok := b.objects[name]
	if !ok {
		return nil, "", fmt.Errorf("%s: %w", name, bucket.ErrNotFound)
	}
	return bytes.Clone(data), revisionOf(data), nil
}

func (b *memoryBucket) Put(_ context.Context, name string, data []byte, revision string) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old, ok := b.objects[name]; ok != (revision != "") || ok && revisionOf(old) != revision {
		return "", fmt.Errorf("%s: %w", name, bucket.ErrChanged)
	}
	b.objects[name] = bytes.Clone(data)
	return revisionOf(data), nil
}

func (b *memoryBucket) List(_ context.Context, prefix string) ([]bucket.Entry, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var entries []bucket.Entry
	for _, name := range slices.Sorted(maps.Keys(b.objects)) {
		if strings.HasPrefix(name, prefix) {
			entries = append(entries, bucket.Entry{Name: name, Revision: revisionOf(b.objects[name]), Size: int64(len(b.objects[name]))})
		}
	}
	return entries, nil
}

func (b *memoryBucket) Delete(_ context.Context, name, revision string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old, ok := b.objects[name]; !ok || revisionOf(old) != revision {
		return fmt.Errorf("%s: %w", name, bucket.ErrChanged)
	}
	delete(b.objects, name)
	return nil
}

// keptDays are the days that an archive keeps. Worlds share them, because to write their Parquet takes longer than the questions.
type keptDays struct {
	name    string // in place of a property's id
	days    map[date]storedDay
	written bool
}

// A sharedHistory is an archive in which properties share what is archived under another name.
type sharedHistory struct {
	*archive.History
	names map[string]string // by the property's id; complete before the first request
}

func (h *sharedHistory) Read(ctx context.Context, id string, by translate.Dimension, r translate.DateRange, first int) (archive.Result, error) {
	return h.History.Read(ctx, h.nameOf(id), by, r, first)
}

func (h *sharedHistory) Sum(ctx context.Context, id string, by translate.Dimension, r translate.DateRange) (archive.Result, error) {
	return h.History.Sum(ctx, h.nameOf(id), by, r)
}

func (h *sharedHistory) Missing(ctx context.Context, id string, by translate.Dimension, r translate.DateRange) ([]date, *archive.DamageError, error) {
	return h.History.Missing(ctx, h.nameOf(id), by, r)
}

func (h *sharedHistory) Bounds(ctx context.Context, id string, by translate.Dimension, from date) (translate.DateRange, bool, error) {
	return h.History.Bounds(ctx, h.nameOf(id), by, from)
}

func (h *sharedHistory) Version(ctx context.Context, id string) (uint64, error) {
	return h.History.Version(ctx, h.nameOf(id))
}

func (h *sharedHistory) Begins(ctx context.Context, id string, from date) (date, bool, error) {
	return h.History.Begins(ctx, h.nameOf(id), from)
}

func (h *sharedHistory) nameOf(id string) string {
	if name, ok := h.names[id]; ok {
		return name
	}
	return id
}

// A storedDay is the figures of an archived day by table, "total" included. An imported day lacks some tables.
type storedDay map[string]map[string]tally

// newArchives draws the archives of a group of worlds: spans with holes and imported days. Their figures are not those of the
// sites, so that a mistaken source shows.
func newArchives(seed, group uint64) []*keptDays {
	const n = 24
	archives := make([]*keptDays, n)
	for i := range archives {
		r := rand.New(rand.NewPCG(^seed, group*n+uint64(i)))
		a := &keptDays{name: fmt.Sprintf("kept-%d", i), days: map[date]storedDay{}}
		archives[i] = a
		end := lastDay - date(pick(r, 0, 0, 1, 2, 3, 9, 11, r.IntN(40)))
		kind := r.IntN(4)
		holes, imports := pick(r, 0, 0, 8, 3), pick(r, 0, 0, 6, 2)
		if kind > 0 { // around the start of the live window
			from := liveStart - date(1+r.IntN(19))
			a.draw(r, from, from+date(r.IntN(25)), holes, imports)
		}
		if kind < 3 {
			a.draw(r, end-date(r.IntN(40)), end, holes, imports)
		}
	}
	return archives
}

// draw draws the days of a span. Holes and imported days are one in so many; zero means none.
func (a *keptDays) draw(r *rand.Rand, from, to date, holes, imports int) {
	for d := from; d <= to; d++ {
		if holes > 0 && r.IntN(holes) == 0 {
			continue
		}
		imported := imports > 0 && r.IntN(imports) == 0
		if stored := drawStored(r, imported, r.IntN(15) == 0); len(stored) > 0 {
			a.days[d] = stored
		}
	}
}

// drawStored draws what the archive keeps of a day: nothing but empty tables of a quiet one.
func drawStored(r *rand.Rand, imported, quiet bool) storedDay {
	stored := storedDay{}
	for _, name := range append([]string{"total"}, tableNames...) {
		if imported && (quiet || r.IntN(2) == 0) {
			continue
		}
		keys := archivedKeys[name]
		if name == "total" {
			keys = []string{""}
		}
		rows := map[string]tally{}
		for _, key := range keys[r.IntN(len(keys)):] {
			if !quiet {
				impressions := float64(100 + r.IntN(1000))
				rows[key] = tally{clicks: float64(r.IntN(100)), impressions: impressions, positions: impressions * float64(1+r.IntN(20))}
			}
		}
		stored[name] = rows
	}
	return stored
}

// drawArchive picks an archive that the world can have: a connected property has no unpublished day in it, and no day before its
// first.
func (x *truth) drawArchive(r *rand.Rand, archives []*keptDays) *keptDays {
	none := &keptDays{}
	if x.kind == connected && r.IntN(5) == 0 {
		return none
	}
	start := r.IntN(len(archives))
	for i := range archives {
		a := archives[(start+i)%len(archives)]
		days := slices.Sorted(maps.Keys(a.days))
		if len(days) > 0 && (x.kind != connected || days[0] >= x.firstDay && days[len(days)-1] <= x.lastPublished) {
			return a
		}
	}
	return none
}

// store fills the archive of the property, and records its bounds.
func (x *truth) store(w *world, history *sharedHistory) {
	w.t.Helper()
	days := slices.Sorted(maps.Keys(x.archive.days))
	if len(days) == 0 {
		return
	}
	ctx := context.Background()
	if !x.archive.written {
		x.archive.written = true
		var written []archive.Day
		for _, d := range days {
			for name, rows := range x.archive.days[d] {
				written = append(written, archive.Day{Date: d, Dimension: dimensionOf(name), Final: true, Rows: builtRows(rows)})
			}
		}
		w.must(history.Merge(ctx, x.archive.name, written))
	}
	history.names[x.id] = x.archive.name
	w.must(w.store.SaveArchiveState(ctx, sqlstore.ArchiveState{PropertyID: x.id, First: &days[0], Last: &days[len(days)-1]}))
}

func dimensionOf(table string) translate.Dimension {
	switch table {
	case "query":
		return translate.ByQuery
	case "page":
		return translate.ByPage
	case "country":
		return translate.ByCountry
	case "device":
		return translate.ByDevice
	}
	return translate.ByDate
}

func builtRows(rows map[string]tally) *translate.Rows {
	keys := ranked(rows, "-clicks")
	var b translate.RowsBuilder
	for _, key := range keys {
		row := rows[key]
		b.Add([]byte(key), translate.Metrics{Clicks: int64(row.clicks), Impressions: int64(row.impressions), Position: row.positions / row.impressions})
	}
	return b.Rows()
}

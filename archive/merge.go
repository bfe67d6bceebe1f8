package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"sara/archive/bucket"
	"sara/translate"
)

// Merge archives days of a property that were collected from the upstream. Each replaces the archived figures of its date and
// dimension, whether collected or imported, unless those are final and the new day is not. Two days of the same date and dimension
// in one call are an error.
//
// Merge writes month by month, the oldest first, and is idempotent: if it fails, the earlier months are written, and merging
// the same days again completes it.
func (h *History) Merge(ctx context.Context, property string, days []Day) error {
	entries := make([]entry, len(days))
	for i, d := range days {
		rows, err := d.ranked()
		if err != nil {
			return fmt.Errorf("merge: %w", err)
		}
		entries[i] = entry{date: d.Date, by: d.Dimension, rows: rows, state: collected}
		if d.Final {
			entries[i].state = collectedFinal
		}
	}
	_, err := h.merge(ctx, property, entries, func(was state, e *entry) bool {
		return !was.isFinal() || e.state.isFinal()
	})
	return err
}

// entry is a day ready to be archived.
type entry struct {
	date  translate.Date
	by    translate.Dimension
	rows  []row // in the order of compareRows
	state state
	// inferred entries have no rows, because of the total of their day, which precedes them: they replace nothing, and are left out if that
	// total is not the archived one.
	inferred bool
}

// identity is what a merge has one entry of at most.
type identity struct {
	date translate.Date
	by   translate.Dimension
}

func (e *entry) identity() identity { return identity{e.date, e.by} }

// merged is the outcome of a merge.
type merged struct {
	archived  int          // entries
	kept      int          // archived days that stayed
	differing []Difference // of those that stayed
}

// merge archives the entries of days that are absent, and of those that may be replaced.
func (h *History) merge(ctx context.Context, property string, entries []entry, replaceable func(was state, e *entry) bool) (merged, error) {
	var all merged
	months, err := byMonth(entries)
	if err == nil {
		err = checkProperty(property)
	}
	if err != nil {
		return all, fmt.Errorf("merge: %w", err)
	}
	for _, first := range slices.Sorted(maps.Keys(months)) {
		var one merged
		err := h.update(ctx, property, first, func(m *month) {
			one = merged{}
			for i := range months[first] {
				e := &months[first][i]
				day := e.date - first
				switch was := m.states[e.by][day]; {
				case e.inferred && len(m.rows[translate.ByDate][day]) > 0:
				case was == absent || replaceable(was, e):
					m.states[e.by][day], m.rows[e.by][day] = e.state, e.rows
					one.archived++
				default:
					one.kept++
					if d, differs := difference(e, m.rows[e.by][day]); differs {
						one.differing = append(one.differing, d)
					}
				}
			}
		})
		if err != nil {
			return all, fmt.Errorf("merge into %s: %w", first.Time().Format(monthLayout), err)
		}
		all.archived += one.archived
		all.kept += one.kept
		all.differing = append(all.differing, one.differing...)
	}
	return all, nil
}

func byMonth(entries []entry) (map[translate.Date][]entry, error) {
	seen := make(map[identity]bool, len(entries))
	months := make(map[translate.Date][]entry)
	for _, e := range entries {
		switch {
		case int(e.by) >= dimensionCount:
			return nil, fmt.Errorf("the archive has no dimension %s", e.by)
		case e.date < 0:
			return nil, fmt.Errorf("%s is before 1970", e.date)
		case seen[e.identity()]:
			return nil, fmt.Errorf("%s of %s is given twice", DimensionName(e.by), e.date)
		}
		seen[e.identity()] = true
		first := e.date.MonthStart()
		months[first] = append(months[first], e)
	}
	return months, nil
}

// mergeAttempts bounds the retries of a writer that loses the race. In every round one writer succeeds.
const mergeAttempts = 100

// update reads a month, changes it and writes it back, with optimistic concurrency: if the month was written in between, it starts over
// after a random backoff, so change may be called several times.
func (h *History) update(ctx context.Context, property string, first translate.Date, change func(*month)) error {
	for attempt := range mergeAttempts {
		err := h.tryUpdate(ctx, property, first, change)
		if !errors.Is(err, bucket.ErrChanged) {
			return err
		}
		select {
		case <-time.After(rand.N(time.Duration(min(attempt, 8)+1) * time.Millisecond)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("after %d attempts: %w", mergeAttempts, bucket.ErrChanged)
}

// tryUpdate is one attempt of update.
func (h *History) tryUpdate(ctx context.Context, property string, first translate.Date, change func(*month)) error {
	m := &month{ledger: newLedger(property, first)}
	before, revision, err := h.get(ctx, property, first)
	switch {
	case errors.Is(err, bucket.ErrNotFound):
		revision = ""
	case err != nil:
		return err
	default:
		o, err := openObject(property, first, before)
		if err != nil {
			return err
		}
		if m, err = o.unpack(); err != nil {
			return err
		}
	}
	change(m)
	return h.write(ctx, m, before, revision)
}

// write replaces a month if it still has the revision, or removes it if no day is archived any more.
func (h *History) write(ctx context.Context, m *month, before []byte, revision string) error {
	if m.isEmpty() && revision == "" {
		return nil
	}
	// Also after an error: the object may have been written, so cached listings may be outdated.
	defer h.stripe(m.property).Add(1)
	name := objectName(m.property, m.month)
	if m.isEmpty() {
		return h.bucket.Delete(ctx, name, revision)
	}
	data, err := m.encode()
	if err != nil || bytes.Equal(data, before) {
		return err
	}
	_, err = h.bucket.Put(ctx, name, data, revision)
	return err
}

// Prune removes the days of a property before a date, and whole months in which no other day is left. Damaged objects stay, and
// are returned as the error; all other months are pruned.
func (h *History) Prune(ctx context.Context, property string, before translate.Date) error {
	listed, err := h.list(ctx, property)
	if err != nil {
		return fmt.Errorf("prune: %w", err)
	}
	var damaged error
	for _, m := range listed {
		if m.month >= before {
			break
		}
		err := h.update(ctx, property, m.month, func(m *month) { m.prune(before) })
		switch {
		case errors.As(err, new(*ObjectError)):
			damaged = errors.Join(damaged, err)
		case err != nil:
			return fmt.Errorf("prune before %s: %w", before, err)
		}
	}
	if damaged != nil {
		return fmt.Errorf("prune before %s: %w", before, damaged)
	}
	return nil
}

func (m *month) prune(before translate.Date) {
	for by := range m.states {
		for day := range min(int(before-m.month), longestMonth) {
			m.states[by][day], m.rows[by][day] = absent, nil
		}
	}
}

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

// Merge archives days of a property that were collected from the upstream. Each takes the place of what is archived of the
// same day and dimension, be it collected or imported, unless that is final and the day is not. Merge writes month by
// month, the oldest first; after an error the months before it are written, and merging the same days again completes them.
// Days that are archived already change nothing. Two days of the same date and dimension in one call are an error.
func (h *History) Merge(ctx context.Context, property string, days []Day) error {
	entries := make([]entry, len(days))
	for i, d := range days {
		rows, err := d.ranked()
		if err != nil {
			return fmt.Errorf("merge into property %.80q: %w", property, err)
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
}

// merge archives the entries that may take the place of what is there, and returns how many did.
func (h *History) merge(ctx context.Context, property string, entries []entry, may func(was state, e *entry) bool) (int, error) {
	months, err := byMonth(entries)
	if err == nil {
		err = checkProperty(property)
	}
	if err != nil {
		return 0, fmt.Errorf("merge into property %.80q: %w", property, err)
	}
	merged := 0
	for _, first := range slices.Sorted(maps.Keys(months)) {
		taken := 0
		err := h.update(ctx, property, first, func(m *month) {
			taken = 0
			for i := range months[first] {
				e := &months[first][i]
				day := e.date - first
				if was := m.states[e.by][day]; was == absent || may(was, e) {
					m.states[e.by][day], m.rows[e.by][day] = e.state, e.rows
					taken++
				}
			}
		})
		if err != nil {
			return merged, fmt.Errorf("merge into %s of property %s: %w", first.Time().Format(monthLayout), property, err)
		}
		merged += taken
	}
	return merged, nil
}

func byMonth(entries []entry) (map[translate.Date][]entry, error) {
	type place struct {
		date translate.Date
		by   translate.Dimension
	}
	seen := make(map[place]bool, len(entries))
	months := make(map[translate.Date][]entry)
	for _, e := range entries {
		at := place{e.date, e.by}
		switch {
		case int(e.by) >= dimensionCount:
			return nil, fmt.Errorf("%s is no dimension of the archive", e.by)
		case e.date < 0:
			return nil, fmt.Errorf("%s is before 1970", e.date)
		case seen[at]:
			return nil, fmt.Errorf("%s of %s is there twice", dimensionName(e.by), e.date)
		}
		seen[at] = true
		first := monthOf(e.date)
		months[first] = append(months[first], e)
	}
	return months, nil
}

// mergeAttempts bounds how often a writer starts over because others were faster. One of them succeeds every time.
const mergeAttempts = 100

// update changes a month and writes it back, and starts over when somebody else has written it meanwhile. change may be
// called several times.
func (h *History) update(ctx context.Context, property string, first translate.Date, change func(*month)) error {
	for attempt := range mergeAttempts {
		err := h.tryUpdate(ctx, property, first, change)
		if !errors.Is(err, bucket.ErrChanged) {
			return err
		}
		if err := pause(ctx, rand.N(time.Duration(min(attempt, 8)+1)*time.Millisecond)); err != nil {
			return err
		}
	}
	return fmt.Errorf("after %d attempts: %w", mergeAttempts, bucket.ErrChanged)
}

func (h *History) tryUpdate(ctx context.Context, property string, first translate.Date, change func(*month)) error {
	name := objectName(property, first)
	m := &month{ledger: newLedger(property, first)}
	before, revision, err := h.bucket.Get(ctx, name)
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
	return h.write(ctx, name, m, before, revision)
}

// write puts a month in the place of what was there before, or removes it when nothing is archived any more.
func (h *History) write(ctx context.Context, name string, m *month, before []byte, revision string) error {
	if m.isEmpty() && revision == "" {
		return nil
	}
	// Also after an error the object may have been written. Readers must not use what was listed before.
	defer h.stripe(m.property).Add(1)
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

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Prune forgets the days of a property before a date. Months that lie before it are removed whole.
func (h *History) Prune(ctx context.Context, property string, before translate.Date) error {
	if err := checkProperty(property); err != nil {
		return fmt.Errorf("prune: %w", err)
	}
	listed, err := h.list(ctx, property)
	if err != nil {
		return fmt.Errorf("prune property %s: %w", property, err)
	}
	for _, m := range listed {
		if m.month >= before {
			break
		}
		err := h.update(ctx, property, m.month, func(m *month) { m.forget(before) })
		if err != nil {
			return fmt.Errorf("prune property %s before %s: %w", property, before, err)
		}
	}
	return nil
}

func (m *month) forget(before translate.Date) {
	for by := range m.states {
		for day := range min(int(before-m.month), longestMonth) {
			m.states[by][day], m.rows[by][day] = absent, nil
		}
	}
}

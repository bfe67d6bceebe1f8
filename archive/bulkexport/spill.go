package bulkexport

import (
	"bytes"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"sara/archive"
	"sara/translate"
)

const (
	// defaultMaxRuns is the maxRuns of an import.
	defaultMaxRuns = 100
	// maxUnsaved is the number of rows after which the sums are written to a run although there is room: it bounds how many rows a killed
	// import reads again.
	maxUnsaved = 8_000_000
	// rowRoom is how many sums a row adds at most.
	rowRoom = 4
)

// A spill keeps sums: in memory up to a bound, and beyond that in the runs of a folder.
type spill struct {
	folder  *folder
	state   *state
	sums    *sums
	country [3]byte // scratch space
	unsaved int64   // rows in the sums
	maxRuns int     // bounds the runs, and so the files that are open at a time; more are merged into one
}

// isFull reports whether there may be no room for another row. It is called once for each row of the files.
func (s *spill) isFull() bool {
	s.unsaved++
	return len(s.sums.entries)+rowRoom > cap(s.sums.entries) ||
		len(s.sums.keys)+archive.LongestKey+rowRoom*8 > cap(s.sums.keys) || s.unsaved > maxUnsaved
}

// addSum adds figures, for which isFull has reported room.
func (s *spill) addSum(g group, key []byte, f figures) error {
	added, err := s.sums.add(g, key, f)
	if err == nil && !added {
		panic("BUG: there is no room for a row")
	}
	return err
}

// flush makes room: it saves, and merges the runs when there are too many. If the context ends meanwhile, nothing is lost.
func (s *spill) flush(ctx context.Context, current *partial) error {
	if err := s.save(current); err != nil {
		return err
	}
	if len(s.state.Runs) > s.maxRuns {
		return s.compact(ctx)
	}
	return nil
}

// save moves the sums into a run, and saves the state with the file that is being read.
func (s *spill) save(current *partial) error {
	s.state.Current = current
	if len(s.sums.entries) > 0 {
		if err := s.write(s.writeSums); err != nil {
			return err
		}
		s.sums.empty()
	}
	s.unsaved = 0
	return s.folder.save(s.state)
}

func (s *spill) writeSums(w *runWriter) error {
	sorted := s.sums.sorted()
	for i := range sorted {
		e := &sorted[i]
		if err := w.add(group{e.date, e.by}, s.sums.key(e), e.figures); err != nil {
			return err
		}
	}
	return nil
}

// write adds a run to the state, which the caller saves.
func (s *spill) write(fill func(*runWriter) error) error {
	name := fmt.Sprintf("%06d.run", s.state.NextRun)
	w, err := createRun(s.folder.file(name), name)
	if err != nil {
		return err
	}
	if err := fill(w); err != nil {
		w.abandon()
		return err
	}
	if err := w.close(); err != nil {
		return err
	}
	s.state.NextRun++
	s.state.Runs = append(s.state.Runs, w.run)
	return nil
}

// compact merges all runs into one. The old ones are deleted once the state is saved without them.
func (s *spill) compact(ctx context.Context) error {
	old := s.state.Runs
	s.state.Runs = nil
	err := s.write(func(w *runWriter) error {
		for _, month := range monthsOf(old) {
			if err := s.mergeMonth(ctx, old, month, w.add); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.state.Runs = old
		return err
	}
	if err := s.folder.save(s.state); err != nil {
		return err
	}
	for _, r := range old {
		if err := os.Remove(s.folder.file(r.Name)); err != nil {
			return err
		}
	}
	return nil
}

// monthsOf returns the months of runs, in order.
func monthsOf(runs []run) []translate.Date {
	months := make(map[translate.Date]bool)
	for _, r := range runs {
		for _, section := range r.Sections {
			months[section.Month] = true
		}
	}
	return slices.Sorted(maps.Keys(months))
}

// mergeMonth calls use for each group and key of a month, in order, with the sums over all runs. The key is valid until use returns.
func (s *spill) mergeMonth(ctx context.Context, runs []run, month translate.Date, use func(group, []byte, figures) error) error {
	var sections sectionHeap
	for _, r := range runs {
		at := slices.IndexFunc(r.Sections, func(s section) bool { return s.Month == month })
		if at < 0 {
			continue
		}
		file, err := os.Open(s.folder.file(r.Name))
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // at most a few more than maxRuns; opened for reading only
		reader := newSectionReader(file, r.Sections[at])
		if err := reader.next(); err != nil {
			return fmt.Errorf("%s: %w", r.Name, err) // a section is never empty
		}
		sections = append(sections, reader)
	}
	heap.Init(&sections)
	return sections.merge(ctx, use)
}

// merge consumes the sections.
func (h *sectionHeap) merge(ctx context.Context, use func(group, []byte, figures) error) error {
	var key []byte
	for n := 0; len(*h) > 0; n++ {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		at := (*h)[0].group
		key = append(key[:0], (*h)[0].key...)
		var sum figures
		for len(*h) > 0 && (*h)[0].group == at && bytes.Equal((*h)[0].key, key) {
			if err := sum.add((*h)[0].figures); err != nil {
				return fmt.Errorf("%s: %w", at.date, err)
			}
			if err := h.advance(); err != nil {
				return err
			}
		}
		if err := use(at, key, sum); err != nil {
			return err
		}
	}
	return nil
}

// advance goes to the next sum.
func (h *sectionHeap) advance() error {
	err := (*h)[0].next()
	if errors.Is(err, io.EOF) {
		heap.Pop(h)
		return nil
	}
	if err == nil {
		heap.Fix(h, 0)
	}
	return err
}

// sectionHeap orders the sections of a month by their next sum.
type sectionHeap []*sectionReader

func (h sectionHeap) Len() int           { return len(h) }
func (h sectionHeap) Less(i, j int) bool { return h[i].before(h[j]) }
func (h sectionHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface; sections are only ever removed.
func (h *sectionHeap) Push(any) { panic("BUG: a section is added") }

// Pop implements heap.Interface.
func (h *sectionHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

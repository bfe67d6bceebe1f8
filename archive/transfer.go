package archive

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"sara/translate"
)

// Export returns the archived rows of a range, ordered by date, name of the dimension, clicks descending, and key. It reads one
// month at a time and ends at the first error. Import knows a day without traffic from its total of zeros, and a dimension without rows on
// another day, such as the queries if the upstream withheld all, from a record without a key, of zeros.
func (h *History) Export(ctx context.Context, property string, r translate.DateRange) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		listed, err := h.list(ctx, property)
		for _, m := range overlapping(listed, r) {
			var o *object
			if o, err = h.load(ctx, property, m); err != nil {
				break
			}
			if o == nil {
				continue
			}
			var more bool
			if more, err = o.export(r, yield); err != nil || !more {
				break
			}
		}
		if err != nil {
			yield(Record{}, fmt.Errorf("export %s to %s: %w", r.Start, r.End, err))
		}
	}
}

// export yields the rows of the month in a range, and reports whether to continue.
func (o *object) export(r translate.DateRange, yield func(Record, error) bool) (more bool, err error) {
	m, err := o.unpack()
	if err != nil {
		return false, err
	}
	first, last := o.overlap(r)
	for day := first; day < last; day++ {
		hasNone := func(by translate.Dimension) bool { return m.states[by][day] != absent && len(m.rows[by][day]) == 0 }
		for _, by := range Dimensions() {
			rows := m.rows[by][day]
			if hasNone(by) && (by == translate.ByDate || !hasNone(translate.ByDate)) {
				rows = []row{{}}
			}
			for _, stored := range rows {
				record := Record{
					Date:        o.month + translate.Date(day),
					Dimension:   by,
					Key:         string(stored.key),
					Clicks:      stored.clicks,
					Impressions: stored.impressions,
					Position:    stored.position,
				}
				if !yield(record, nil) {
					return false, nil
				}
			}
		}
	}
	return true, nil
}

// ImportOptions configure an import.
type ImportOptions struct {
	// Until is the last day that can have figures. A record of a later day is an error.
	Until translate.Date
	// Provisional is the first day whose figures may still change: from it on, days are not final, so they are collected again. 0: none.
	Provisional translate.Date
	// Replace lets imported days replace archived ones. Otherwise archived days are kept.
	Replace bool
}

// An ImportResult describes what an import did. A day counts once for each dimension.
type ImportResult struct {
	Rows        int // read
	Days        int // archived by this import
	Kept        int // days that were already archived and have been kept
	DroppedRows int // not archived: below the top 100, or without clicks and impressions
	// Differing lists the kept days whose clicks or impressions differ from those of the import, in order.
	Differing []Difference
}

// Import archives records as days, which are final except from ImportOptions.Provisional on. A day is archived under the dimensions that it
// has records for, and a day with a total of zeros under all of them, unless another total of it is kept. Import validates every record
// before it writes anything; the error of an invalid record is a *RecordError. Then it writes month by month. It is idempotent: importing the
// same records again completes an import that failed while writing.
func (h *History) Import(ctx context.Context, property string, records iter.Seq2[FileRecord, error], o ImportOptions) (ImportResult, error) {
	read, err := collectRecords(records, o.Until)
	if err != nil {
		return ImportResult{}, err
	}
	entries, kept, err := entriesOf(read)
	if err != nil {
		return ImportResult{}, err
	}
	result := ImportResult{Rows: len(read), DroppedRows: len(read) - kept}
	err = h.importEntries(ctx, property, entries, o, &result)
	return result, err
}

// importEntries archives the entries of an import, and counts them in the result.
func (h *History) importEntries(ctx context.Context, property string, entries []entry, o ImportOptions, result *ImportResult) error {
	entries = append(entries, withoutTraffic(entries)...)
	for i := range entries {
		e := &entries[i]
		e.state = importedFinal
		if o.Provisional != 0 && e.date >= o.Provisional {
			e.state = imported
		}
	}
	m, err := h.merge(ctx, property, entries, func(_ state, e *entry) bool { return o.Replace && !e.inferred })
	result.Days, result.Kept, result.Differing = m.archived, m.kept, m.differing
	return err
}

// collectRecords validates all records, and returns them ordered by date, dimension and key.
func collectRecords(records iter.Seq2[FileRecord, error], until translate.Date) ([]FileRecord, error) {
	var all []FileRecord
	for r, err := range records {
		if err != nil {
			return nil, err
		}
		if len(all) == maxRecords {
			return nil, recordError(r.Place, "", "too many rows: at most %d can be imported at once", maxRecords)
		}
		if err := r.check(until); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b FileRecord) int {
		return cmp.Or(cmp.Compare(a.Date, b.Date), cmp.Compare(a.Dimension, b.Dimension), cmp.Compare(a.Key, b.Key),
			cmp.Compare(a.Place.Number, b.Place.Number))
	})
	var first, duplicate *FileRecord
	for i := 1; i < len(all); i++ {
		a, b := &all[i-1], &all[i]
		if a.sameDay(b) && a.Key == b.Key && (duplicate == nil || b.Place.Number < duplicate.Place.Number) {
			first, duplicate = a, b
		}
	}
	if d := duplicate; d != nil {
		return nil, recordError(d.Place, "key", "%s %s %.80q is already in %s", d.Date, DimensionName(d.Dimension), d.Key, first.Place)
	}
	return all, nil
}

func (r *FileRecord) sameDay(other *FileRecord) bool {
	return r.Date == other.Date && r.Dimension == other.Dimension
}

// entriesOf groups records by day and dimension, and returns how many of the rows are kept.
func entriesOf(all []FileRecord) (entries []entry, kept int, err error) {
	for start := 0; start < len(all); {
		end := start
		var rows []row
		for ; end < len(all) && all[end].sameDay(&all[start]); end++ {
			r := &all[end]
			if r.isNoRow() {
				continue
			}
			rows = append(rows, row{key: []byte(r.Key), clicks: r.Clicks, impressions: r.Impressions, position: r.Position})
		}
		e := entry{date: all[start].Date, by: all[start].Dimension}
		if e.rows, err = rank(e.by, rows); err != nil {
			return nil, 0, fmt.Errorf("%s: %w", all[start].Place, err)
		}
		entries = append(entries, e)
		kept += len(e.rows)
		start = end
	}
	return entries, kept, nil
}

// withoutTraffic returns the entries that are missing on days with a total of zeros: such a day has no rows under any dimension.
func withoutTraffic(entries []entry) (missing []entry) {
	given := make(map[identity]bool, len(entries))
	for _, e := range entries {
		given[e.identity()] = true
	}
	for _, total := range entries {
		if total.by != translate.ByDate || len(total.rows) > 0 {
			continue
		}
		for _, by := range Dimensions() {
			if none := (entry{date: total.date, by: by, inferred: true}); !given[none.identity()] {
				missing = append(missing, none)
			}
		}
	}
	return missing
}

package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"sara/translate"
)

// A DayBuilder collects the rows of one day under one dimension for ImportDays. Rows arrive in any order, each key once. It keeps only
// rows that can be archived, so even a day of millions of queries takes little memory. Without rows it is a day without traffic.
type DayBuilder struct {
	date  translate.Date
	by    translate.Dimension
	rows  []row
	worst int64 // clicks of the last kept row, once there are TopRows
	full  bool
	read  int
}

// prunedRows is the number of rows at which a DayBuilder of queries or pages drops those below the top.
const prunedRows = 1024

// NewDayBuilder returns the builder of a day.
func NewDayBuilder(date translate.Date, by translate.Dimension) *DayBuilder {
	return &DayBuilder{date: date, by: by}
}

// Add adds a row, with a copy of its key. A total has no key. A row that the archive cannot hold is an error.
func (b *DayBuilder) Add(key []byte, clicks, impressions int64, position float64) error {
	r := row{key: key, clicks: clicks, impressions: impressions, position: position}
	err := r.check(b.by)
	if err == nil && (impressions < clicks || impressions > 0 && position < 1) {
		err = errors.New("impressions are fewer than clicks, or the position is less than 1")
	}
	if err != nil {
		return fmt.Errorf("%s of %s, key %.80q: %w", DimensionName(b.by), b.date, key, err)
	}
	b.read++
	if impressions == 0 || b.full && clicks < b.worst {
		return nil
	}
	r.key = bytes.Clone(key)
	b.rows = append(b.rows, r)
	if len(b.rows) >= prunedRows && keepsTop(b.by) {
		return b.Prune()
	}
	return nil
}

// Prune drops the rows below the top. It returns an error if a key was added twice.
func (b *DayBuilder) Prune() error {
	rows, err := rank(b.by, b.rows)
	if err != nil {
		return fmt.Errorf("%s of %s: %w", DimensionName(b.by), b.date, err)
	}
	if b.full = keepsTop(b.by) && len(rows) == TopRows; b.full {
		b.worst = rows[TopRows-1].clicks
	}
	b.rows = slices.Clone(rows) // without the dropped keys in memory
	return nil
}

// ImportDays archives complete days, as Import does with records. The caller must enforce ImportOptions.Until. Rows of the result counts
// the rows that were added to the builders.
func (h *History) ImportDays(ctx context.Context, property string, days []*DayBuilder, o ImportOptions) (ImportResult, error) {
	var result ImportResult
	entries := make([]entry, len(days))
	for i, b := range days {
		if err := b.Prune(); err != nil {
			return ImportResult{}, err
		}
		entries[i] = entry{date: b.date, by: b.by, rows: b.rows}
		result.Rows += b.read
		result.DroppedRows += b.read - len(b.rows)
	}
	err := h.importEntries(ctx, property, entries, o, &result)
	return result, err
}

package translate

import "slices"

// A RowsBuilder makes Rows from figures that were not read from an upstream body. The zero value is ready for use.
type RowsBuilder struct {
	rows Rows
}

// Grow makes room for n more rows whose keys have size bytes together.
func (b *RowsBuilder) Grow(n, size int) {
	b.rows.arena = slices.Grow(b.rows.arena, size)
	b.rows.ends = slices.Grow(b.rows.ends, n)
	b.rows.metrics = slices.Grow(b.rows.metrics, n)
}

// Add appends a row, of whose key it keeps a copy. The caller adds the rows in the upstream's order: by clicks descending
// and key ascending, or by key ascending where the key is a date.
func (b *RowsBuilder) Add(key []byte, m Metrics) {
	b.rows.arena = append(b.rows.arena, key...)
	b.rows.ends = append(b.rows.ends, int32(len(b.rows.arena)))
	b.rows.metrics = append(b.rows.metrics, m)
}

// Rows returns what has been added, and starts anew.
func (b *RowsBuilder) Rows() *Rows {
	rows := b.rows
	b.rows = Rows{}
	return &rows
}

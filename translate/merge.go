package translate

import (
	"bytes"
	"cmp"
	"slices"
)

// MergeRows adds up rows of different days, key by key: clicks and impressions are sums, and a position counts as much as
// the impressions it was seen on. Rows by date are put one behind the other. The result is in the upstream's order.
func MergeRows(by Dimension, parts ...*Rows) *Rows {
	if len(parts) == 1 {
		return parts[0]
	}
	m := merger{index: make(map[string]int)}
	for _, part := range parts {
		for i := range part.Len() {
			m.add(part.Key(i), part.metrics[i])
		}
	}
	slices.SortFunc(m.sums, func(a, b mergedRow) int {
		if by == ByDate {
			return bytes.Compare(a.key, b.key)
		}
		return cmp.Or(cmp.Compare(b.Clicks, a.Clicks), bytes.Compare(a.key, b.key))
	})
	var b RowsBuilder
	b.Grow(len(m.sums), m.size)
	for _, sum := range m.sums {
		b.Add(sum.key, sum.Metrics)
	}
	return b.Rows()
}

type merger struct {
	index map[string]int // in sums
	sums  []mergedRow
	size  int // of all keys
}

type mergedRow struct {
	key []byte
	Metrics
}

func (m *merger) add(key []byte, more Metrics) {
	i, there := m.index[string(key)]
	if !there {
		m.index[string(key)] = len(m.sums)
		m.sums = append(m.sums, mergedRow{key: key, Metrics: more})
		m.size += len(key)
		return
	}
	m.sums[i].Metrics = m.sums[i].plus(more)
}

// plus returns the figures of both together.
func (m Metrics) plus(other Metrics) Metrics {
	var sum Sum
	sum.Add(m.Clicks, m.Impressions, m.Position)
	sum.Add(other.Clicks, other.Impressions, other.Position)
	return sum.Metrics()
}

// Total returns the figures of all rows together.
func (r *Rows) Total() (sum Metrics) {
	for _, m := range r.metrics {
		sum = sum.plus(m)
	}
	return sum
}

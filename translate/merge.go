package translate

// A Merger adds up rows of different days by key, see Sum. Reused, it allocates nothing but the rows that it returns. The zero value is
// ready to use. It belongs to one goroutine at a time.
type Merger struct {
	index KeyIndex
	sums  []Metrics // by the number of their key
	order []uint64
}

// largestMerge is the number of keys from which a Merger gives up its memory: few requests need that much.
const largestMerge = 1 << 14

// A Part of a merge is *Rows, which must have all of their rows, or *Sums.
type Part interface {
	Len() int
	Size() int // about as many bytes as it takes up
}

// Merge returns the sums of parts in the upstream's order: the first ones, while the others are only counted, or all if first is 0. If
// there is only one part with rows, it returns that. Dates are merged whole.
func (m *Merger) Merge(by Dimension, first int, parts ...Part) *Rows {
	if len(parts) == 1 {
		switch only := parts[0].(type) {
		case *Rows:
			return only
		case *Sums:
			return only.Rows(first)
		}
	}
	defer m.reset()
	n := 0
	for _, part := range parts {
		n += part.Len()
	}
	m.index.Reserve(n)
	var all traits
	for _, part := range parts {
		switch part := part.(type) {
		case *Rows:
			all.add(part.traits)
			for i := range part.Len() {
				m.add(part.Key(i), part.metrics[i])
			}
		case *Sums:
			for i := range part.sums {
				m.add(part.keys[i], part.sums[i].Metrics())
			}
		}
	}
	return m.rows(by, first, all)
}

// reset lets go of the keys, which refer to the memory of the parts.
func (m *Merger) reset() {
	if m.index.Len() > largestMerge {
		*m = Merger{}
		return
	}
	m.index.Reset()
	m.sums = m.sums[:0]
}

func (m *Merger) add(key []byte, more Metrics) {
	i := m.index.Of(key)
	if i == len(m.sums) {
		m.sums = append(m.sums, more)
		return
	}
	m.sums[i] = m.sums[i].plus(more)
}

// rows returns the first sums in the upstream's order, or all if first is 0: a date by its key, others by their clicks first.
func (m *Merger) rows(by Dimension, first int, of traits) *Rows {
	sums := keyed{len: m.index.Len(), key: m.index.Key, metrics: func(i int) Metrics { return m.sums[i] }, clicks: func(i int) int64 {
		if by == ByDate {
			return 0
		}
		return m.sums[i].Clicks
	}}
	m.order = sums.ranked(m.order, first)
	rows := sums.build(m.order)
	rows.traits, rows.ordered = of, by != ByDate
	return rows
}

package archive

import (
	"sync"

	"sara/translate"
)

// names number the keys of a property under a dimension, across its months, so reads can add up months by number: a key is hashed once
// for each month in memory instead of in each read. They are safe for concurrent use.
type names struct {
	mu    sync.Mutex
	index translate.KeyIndex
	size  int64 // of the memory, in bytes
	kept  int64 // the size reported to the cache; 0: not cached
}

// nameSize is the memory of a name in addition to its text, in bytes.
const nameSize = 64

// A numbering has the numbers that names gave to the keys of a table.
type numbering struct {
	of   *names
	keys []int32 // by the index of the key
	most int32   // the largest of keys
}

// number numbers the keys of a table.
func (n *names) number(keys [][]byte) *numbering {
	n.mu.Lock()
	defer n.mu.Unlock()
	numbered := &numbering{of: n, keys: make([]int32, len(keys))}
	n.index.Reserve(len(keys))
	for i, key := range keys {
		known := n.index.Len()
		number := n.index.Of(key)
		if number == known {
			n.size += int64(len(key)) + nameSize
		}
		numbered.keys[i] = int32(number)
		numbered.most = max(numbered.most, int32(number))
	}
	return numbered
}

// numberedBy returns the numbering of the table's keys by these names, which it memoizes.
func (t *table) numberedBy(n *names) *numbering {
	if known := t.numbering.Load(); known != nil && known.of == n {
		return known
	}
	numbered := n.number(t.keys)
	t.numbering.Store(numbered)
	return numbered
}

type namesKey struct {
	property string
	by       translate.Dimension
}

// namesOf returns the names of a property, for reads to number its months with. keepNames must follow.
func (h *History) namesOf(property string, by translate.Dimension) *names {
	n, ok := h.names.Get(namesKey{property, by})
	if !ok {
		n = new(names)
	}
	return n
}

// keepNames caches names that have grown.
func (h *History) keepNames(property string, by translate.Dimension, n *names) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.size != n.kept {
		n.kept = n.size
		h.names.PutWeighted(namesKey{property, by}, n, n.size, "")
	}
}

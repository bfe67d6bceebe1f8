package translate

import (
	"io"
	"slices"
	"sync"
)

// A RowsReader reads bodies of Search Console. It keeps the memory of a read for the next. It is safe for concurrent use, and the zero
// value is ready to use.
type RowsReader struct {
	idle sync.Pool // of *scratch
}

// scratch is the memory of a read. It is enough for the narrow sample, with keys of up to 98 bytes on average.
type scratch struct {
	window  [usualWindow]byte
	keys    [96 << 10]byte
	ends    [NarrowSample]keyEnd
	metrics [NarrowSample]Metrics
}

// ReadRows is Read for a single body.
func ReadRows(body io.Reader, by Dimension) (*Rows, error) { return new(RowsReader).Read(body, by) }

// Read reads the body of a Search Console response to a query with the one dimension by, while it arrives: it holds the rows
// and 64 KiB of the body, or up to 1 MiB for a row that long. A body without a rows member has no rows. Anything malformed or
// cut off is an error, never a shorter result. An error of the body is wrapped. It reads to the end of the body.
func (r *RowsReader) Read(body io.Reader, by Dimension) (*Rows, error) {
	memory, _ := r.idle.Get().(*scratch)
	if memory == nil {
		memory = new(scratch)
	}
	defer r.idle.Put(memory)
	rows := &Rows{metrics: memory.metrics[:0]}
	rows.keys = keys{chunks: append(make([][]byte, 0, usualChunks), memory.keys[:0]), ends: memory.ends[:0]}
	if err := rows.readBody(&bodyWindow{source: body, buffer: memory.window[:]}, by); err != nil {
		return nil, err
	}
	rows.metrics = kept(rows.metrics, memory.metrics[:])
	rows.keys.keep(memory)
	rows.ordered = rows.areRankedBy(rows.has()) // once for all that ask
	return rows, nil
}

// keep makes the keys independent of a scratch, and frees what is unused: only the last chunk may have much of it.
func (k *keys) keep(memory *scratch) {
	k.ends = kept(k.ends, memory.ends[:])
	for i, chunk := range k.chunks {
		k.chunks[i] = kept(chunk, memory.keys[:])
	}
}

// kept returns a slice that does not share the memory of a scratch, with little unused capacity.
func kept[E any](s, scratch []E) []E {
	if &s[:1][0] == &scratch[0] {
		return slices.Clone(s)
	}
	return clip(s)
}

package translate

import "slices"

// keys are the keys of rows, one after the other, in chunks: the number of allocations hardly grows with the rows, and growing
// never copies more than the first chunk, so the memory does not double on the way.
type keys struct {
	chunks [][]byte
	ends   []keyEnd
}

// keyEnd is the end of a key: the index of its chunk, and the offset in it. A key begins where the one before it ends, or with
// its chunk.
type keyEnd uint64

func (e keyEnd) chunk() int  { return int(e >> 32) }
func (e keyEnd) offset() int { return int(uint32(e)) }

// The sizes of chunks: of the first one, which grows while its keys have up to growingChunk bytes; of the others, while it is not known
// how many keys will come; and of all, when it is known, at most. A key that is longer than a chunk has its own.
const (
	firstChunk   = 256
	growingChunk = 64 << 10
	nextChunk    = 512 << 10
	wholeChunk   = 1 << 20
	usualChunks  = 4 // that a body needs at most, unless its keys are unusually long
)

func (k *keys) at(i int) []byte {
	end := k.ends[i]
	return k.chunks[end.chunk()][k.start(i):end.offset():end.offset()]
}

// start returns where a key begins in its chunk.
func (k *keys) start(i int) int {
	if i > 0 && k.ends[i-1].chunk() == k.ends[i].chunk() {
		return k.ends[i-1].offset()
	}
	return 0
}

// length returns the bytes of a key.
func (k *keys) length(i int) int { return k.ends[i].offset() - k.start(i) }

// parts calls part with the bytes of the keys from begin to before end, one chunk at a time.
func (k *keys) parts(begin, end int, part func([]byte)) {
	for begin < end {
		start, chunk := k.start(begin), k.ends[begin].chunk()
		for begin < end && k.ends[begin].chunk() == chunk {
			begin++
		}
		part(k.chunks[chunk][start:k.ends[begin-1].offset()])
	}
}

// grow makes room for n keys of size bytes together, as far as one chunk has it.
func (k *keys) grow(n, size int) {
	k.ends = slices.Grow(k.ends, n)
	if len(k.chunks) == 0 && size > 0 {
		k.chunks = append(k.chunks, make([]byte, 0, min(size, wholeChunk)))
	}
}

// room returns the last chunk, to which up to n bytes can be appended without another allocation.
func (k *keys) room(n int) []byte {
	last := len(k.chunks) - 1
	if last < 0 {
		k.chunks = append(k.chunks, make([]byte, 0, max(n, firstChunk)))
		return k.chunks[0]
	}
	chunk := k.chunks[last]
	switch needed := len(chunk) + n; {
	case needed <= cap(chunk):
	case last == 0 && needed <= growingChunk:
		const factor = 8
		chunk = append(make([]byte, 0, min(growingChunk, max(needed, factor*cap(chunk)))), chunk...)
		k.chunks[last] = chunk
	default:
		chunk = make([]byte, 0, max(n, nextChunk))
		k.chunks = append(k.chunks, chunk)
	}
	return chunk
}

// end takes the last chunk, as room returned it, with a key appended.
func (k *keys) end(chunk []byte) {
	last := len(k.chunks) - 1
	k.chunks[last] = chunk
	k.ends = append(k.ends, keyEnd(last)<<32|keyEnd(len(chunk)))
}

func (k *keys) add(key []byte) { k.end(append(k.room(len(key)), key...)) }

// clip copies s if much of its capacity is unused: a cache may hold the rows for hours.
func clip[E any](s []E) []E {
	if waste := cap(s) - len(s); waste <= cap(s)/4 {
		return s
	}
	return append(make([]E, 0, len(s)), s...)
}

// grown returns s with room for one more element. It grows in few steps, to the numbers of rows that a Query asks for.
func grown[E any](s []E) []E {
	if len(s) < cap(s) {
		return s
	}
	const few = 64
	for _, step := range [...]int{few, NarrowSample, EnlargedSample, WideSample} {
		if len(s) < step {
			return append(make([]E, 0, step), s...)
		}
	}
	return slices.Grow(s, len(s))
}

package translate

import (
	"encoding/binary"
	"io"
	"math"
	"unsafe"
)

// Size returns the bytes of memory that r holds, with the capacity of its slices.
func (r *Rows) Size() int {
	size := int(unsafe.Sizeof(*r)) + cap(r.metrics)*int(unsafe.Sizeof(Metrics{})) +
		cap(r.keys.ends)*int(unsafe.Sizeof(keyEnd(0))) + cap(r.keys.chunks)*int(unsafe.Sizeof([]byte{}))
	for _, chunk := range r.keys.chunks {
		size += cap(chunk)
	}
	return size
}

// A BlockWriter is what Encode writes to. Flush ends a group: a reader of what was written before needs nothing of what follows.
type BlockWriter interface {
	io.Writer
	Flush() error
}

// firstGroup is how many rows the first group of Encode has: a page of the default limit.
const firstGroup = 100

// groupEnds are where the groups of ranked rows end, except for the group of all others.
func groupEnds() [2]int { return [...]int{firstGroup, NarrowSample} }

// groupEnd returns where the group of n rows ends that begins at a row: after the first page, after the narrow sample, or with all.
func groupEnd(begin, n int, ranked bool) int {
	for _, end := range groupEnds() {
		if ranked && begin < end {
			return min(end, n)
		}
	}
	return n
}

// Groups returns how many of the groups of Encode have a number of the first rows, if they are ranked; 0: all groups are needed.
func Groups(first int) int {
	for i, end := range groupEnds() {
		if 0 < first && first <= end {
			return i + 1
		}
	}
	return 0
}

// Encode writes r, in pieces, in a form that a Decoder reads back bit for bit. It has neither a version nor
// a checksum: these are for the caller to add. The error is one of out.
//
// What the upstream says about all rows comes first, then twice the number of rows, plus one if the rows of the narrow sample are ranked.
// Groups of rows follow, and Flush ends each: if the rows are ranked, few for the first page, the others of the narrow sample, and the
// rest; if not, all rows are one group. A group is
// columnar, so that it compresses well: the bytes of its keys; the length of each key; the keys; clicks; impressions; the
// exceptions of ctr; the codes of positions; the exceptions of position. All numbers are unsigned varints. The upstream
// computes ctr as clicks / impressions, and position as an integer / impressions, so ctr is not stored and position is
// stored as that integer. Rows for which this does not give the exact float are exceptions: their number, and for each the
// number of rows since the last exception and the eight bytes of the float, little-endian.
func (r *Rows) Encode(out BlockWriter) error {
	e := &encoder{out: out, pending: make([]byte, 0, encoderPiece+binary.MaxVarintLen64)}
	e.uvarint(r.traits.code())
	count, ranked := uint64(r.Len())<<1, r.head(NarrowSample).areRanked()
	if ranked {
		count |= 1
	}
	e.uvarint(count)
	for begin, end := 0, 0; begin < r.Len(); begin = end {
		end = groupEnd(begin, r.Len(), ranked)
		e.group(r, begin, end)
	}
	e.flush()
	return e.err
}

// code is the number that stands for the traits.
func (t traits) code() uint64 {
	code := uint64(t.incomplete) << 1
	if t.byPage {
		code |= 1
	}
	return code
}

// group writes some rows, and ends the block.
func (e *encoder) group(r *Rows, begin, end int) {
	size := 0
	r.keys.parts(begin, end, func(part []byte) { size += len(part) })
	e.uvarint(uint64(size))
	e.column(end-begin, func(i int) uint64 { return uint64(r.keys.length(begin + i)) })
	r.keys.parts(begin, end, e.bytes)
	e.metrics(r.metrics[begin:end])
	e.flush()
	if e.err == nil {
		e.err = e.out.Flush()
	}
}

func (e *encoder) metrics(metrics []Metrics) {
	e.column(len(metrics), func(i int) uint64 { return uint64(metrics[i].Clicks) })
	e.column(len(metrics), func(i int) uint64 { return uint64(metrics[i].Impressions) })
	var exceptions []exception
	for i := range metrics {
		if m := &metrics[i]; differ(m.CTR, m.quotient()) {
			exceptions = append(exceptions, exception{i, m.CTR})
		}
	}
	e.exceptions(exceptions)
	exceptions = exceptions[:0]
	e.column(len(metrics), func(i int) uint64 {
		code, exact := metrics[i].positionCode()
		if !exact {
			exceptions = append(exceptions, exception{i, metrics[i].Position})
		}
		return code
	})
	e.exceptions(exceptions)
}

// An encoder writes in pieces.
type encoder struct {
	out     BlockWriter
	pending []byte
	err     error // of out: everything after it is dropped
}

const encoderPiece = 16 << 10

func (e *encoder) flush() {
	if e.err == nil && len(e.pending) > 0 {
		_, e.err = e.out.Write(e.pending)
	}
	e.pending = e.pending[:0]
}

func (e *encoder) uvarint(v uint64) {
	if e.pending = binary.AppendUvarint(e.pending, v); len(e.pending) >= encoderPiece {
		e.flush()
	}
}

// column writes n numbers, of which nearly all have one or two bytes. The slice is a local variable meanwhile, since a field would take
// a write barrier for each number.
func (e *encoder) column(n int, value func(i int) uint64) {
	pending := e.pending
	for i := range n {
		if v := value(i); v < 0x80 {
			pending = append(pending, byte(v))
		} else {
			pending = binary.AppendUvarint(pending, v)
		}
		if len(pending) >= encoderPiece {
			e.pending = pending
			e.flush()
			pending = e.pending
		}
	}
	e.pending = pending
}

func (e *encoder) bytes(data []byte) {
	for len(data) > 0 && e.err == nil {
		taken := min(len(data), encoderPiece-len(e.pending))
		e.pending, data = append(e.pending, data[:taken]...), data[taken:]
		if len(e.pending) == encoderPiece {
			e.flush()
		}
	}
}

// An exception is a row in which a figure differs from the expected one.
type exception struct {
	row    int
	figure float64
}

// differ reports whether two figures differ in any bit.
func differ(a, b float64) bool { return math.Float64bits(a) != math.Float64bits(b) }

func (e *encoder) exceptions(all []exception) {
	e.uvarint(uint64(len(all)))
	after := 0 // the row after the last exception
	for _, x := range all {
		e.uvarint(uint64(x.row - after))
		e.pending = binary.LittleEndian.AppendUint64(e.pending, math.Float64bits(x.figure))
		after = x.row + 1
	}
}

// quotient returns clicks / impressions, or 0 without impressions.
func (m *Metrics) quotient() float64 {
	if m.Impressions == 0 {
		return 0
	}
	return float64(m.Clicks) / float64(m.Impressions)
}

// decodePosition returns the position of a code: twice the sum, over all impressions, of the places below the first. An even
// code adds the first place after the division, an odd one before it, which rounds differently: the upstream does either.
func (m *Metrics) decodePosition(code uint64) float64 {
	below, impressions := float64(code/2), float64(m.Impressions)
	switch {
	case m.Impressions == 0:
		return 0
	case code%2 == 0:
		return 1 + below/impressions
	default:
		return (below + impressions) / impressions
	}
}

const largestCode = 2*largestCount + 1

// positionCode returns the code of the position, and whether it gives exactly that.
func (m *Metrics) positionCode() (code uint64, exact bool) {
	below := math.Round((m.Position - 1) * float64(m.Impressions))
	if below >= 0 && below <= largestCount {
		code = 2 * uint64(below)
		if !differ(m.decodePosition(code), m.Position) {
			return code, true
		}
		if !differ(m.decodePosition(code+1), m.Position) {
			return code + 1, true
		}
	}
	return 0, !differ(m.decodePosition(0), m.Position)
}

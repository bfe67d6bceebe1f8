package translate

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"unicode/utf8"
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

// Encode writes r, in pieces, in a form that DecodeRows reads back bit for bit. It is columnar, so that it compresses well, and
// has neither a version nor a checksum: these are for the caller to add. The error is one of out.
//
// The columns are: what the upstream says of all rows; the number of rows and the bytes of all keys; the length of each key; the keys; clicks; impressions; the
// exceptions of ctr; the codes of positions; the exceptions of position. All numbers are unsigned varints. The upstream
// computes ctr as clicks / impressions, and position as an integer / impressions, so ctr is not stored and position is
// stored as that integer. Rows for which this does not give the exact float are exceptions: their number, and for each the
// number of rows since the last exception and the eight bytes of the float, little-endian.
func (r *Rows) Encode(out io.Writer) error {
	e := &encoder{out: out, pending: make([]byte, 0, encoderPiece+binary.MaxVarintLen64)}
	e.uvarint(r.traits.code())
	e.uvarint(uint64(r.Len()))
	e.uvarint(uint64(r.keys.size()))
	for i := range r.Len() {
		e.uvarint(uint64(len(r.Key(i))))
	}
	for _, chunk := range r.keys.chunks {
		e.bytes(chunk)
	}
	for i := range r.metrics {
		e.uvarint(uint64(r.metrics[i].Clicks))
	}
	for i := range r.metrics {
		e.uvarint(uint64(r.metrics[i].Impressions))
	}
	e.exceptions(r.metrics, func(m *Metrics) (got, expected float64) { return m.CTR, m.quotient() })
	for i := range r.metrics {
		e.uvarint(r.metrics[i].positionCode())
	}
	e.exceptions(r.metrics, func(m *Metrics) (got, expected float64) { return m.Position, m.decodePosition(m.positionCode()) })
	e.flush()
	return e.err
}

// An encoder writes in pieces.
type encoder struct {
	out     io.Writer
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

func (e *encoder) bytes(data []byte) {
	e.flush()
	for len(data) > 0 && e.err == nil {
		piece := data[:min(len(data), encoderPiece)]
		_, e.err = e.out.Write(piece)
		data = data[len(piece):]
	}
}

// exceptions writes the rows in which a figure differs from the expected one in any bit.
func (e *encoder) exceptions(metrics []Metrics, figure func(*Metrics) (got, expected float64)) {
	n := 0
	for i := range metrics {
		if got, expected := figure(&metrics[i]); math.Float64bits(got) != math.Float64bits(expected) {
			n++
		}
	}
	e.uvarint(uint64(n))
	after := 0 // the row after the last exception
	for i := range metrics {
		if got, expected := figure(&metrics[i]); math.Float64bits(got) != math.Float64bits(expected) {
			e.uvarint(uint64(i - after))
			e.pending = binary.LittleEndian.AppendUint64(e.pending, math.Float64bits(got))
			after = i + 1
		}
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

// positionCode returns the code of the position, or an arbitrary code if it has none.
func (m *Metrics) positionCode() uint64 {
	below := math.Round((m.Position - 1) * float64(m.Impressions))
	if !(below >= 0 && below <= largestCount) {
		return 0
	}
	code := 2 * uint64(below)
	if m.decodePosition(code) != m.Position {
		code++
	}
	if m.decodePosition(code) != m.Position {
		code = 0
	}
	return code
}

var errRowsData = errors.New("not in the format of Encode")

// maxDecodedRows is far above what one call upstream returns.
const maxDecodedRows = 4 * WideSample

// DecodeRows reads the format of Encode to its end. Of forged data it returns an error, or Rows that ReadRows could have
// returned too; it allocates no more than in proportion to the data. An error of in is wrapped.
func DecodeRows(in io.Reader) (*Rows, error) {
	d := &decoder{in: bufio.NewReaderSize(in, encoderPiece)}
	rows := d.rows()
	if d.err == nil {
		if _, err := d.in.ReadByte(); err != io.EOF {
			d.fail(cmp.Or(err, errRowsData))
		}
	}
	if d.err != nil {
		return nil, fmt.Errorf("decode rows: %w", d.err)
	}
	return rows, nil
}

// A decoder reads from the front. Once err is set, what it returns is meaningless.
type decoder struct {
	in  *bufio.Reader
	err error
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// lastDate is 9999-12-31, the last that ParseDate reads.
const lastDate = 2932896

func (t traits) code() uint64 {
	code := uint64(t.incomplete) << 1
	if t.byPage {
		code |= 1
	}
	return code
}

func (d *decoder) traits() traits {
	code := d.uvarint(lastDate<<1 | 1)
	return traits{byPage: code&1 != 0, incomplete: Date(code >> 1)}
}

func (d *decoder) rows() *Rows {
	traits := d.traits()
	n := int(d.uvarint(maxDecodedRows))
	size := int(d.uvarint(math.MaxInt32))
	r := &Rows{traits: traits}
	r.keys.ends = make([]keyEnd, 0, min(n, NarrowSample))
	lengths := make([]uint32, 0, min(n, NarrowSample))
	for left := size; len(lengths) < n && d.err == nil; {
		length := int(d.uvarint(uint64(left)))
		left -= length
		if lengths = append(lengths, uint32(length)); len(lengths) == n && left > 0 {
			d.fail(errRowsData)
		}
	}
	if n == 0 && size > 0 {
		d.fail(errRowsData)
	}
	d.keys(&r.keys, lengths, size)
	if d.err != nil {
		return nil
	}
	r.metrics = make([]Metrics, n)
	d.metrics(r.metrics)
	return r
}

// keys reads the keys, whose lengths are known, and of which size bytes are left.
func (d *decoder) keys(k *keys, lengths []uint32, size int) {
	k.ends = make([]keyEnd, 0, len(lengths))
	for _, length := range lengths {
		if d.err != nil {
			return
		}
		n := int(length)
		if n > maxWindow { // longer than any of ReadRows
			d.fail(errRowsData)
			return
		}
		if last := len(k.chunks) - 1; last < 0 || len(k.chunks[last])+n > cap(k.chunks[last]) {
			k.chunks = append(k.chunks, make([]byte, 0, max(n, min(size, wholeChunk))))
		}
		chunk := k.room(n)
		chunk = chunk[:len(chunk)+n]
		key := chunk[len(chunk)-n:]
		if _, err := io.ReadFull(d.in, key); err != nil {
			d.fail(err)
			return
		}
		if !utf8.Valid(key) {
			d.fail(errRowsData)
		}
		k.end(chunk)
		size -= n
	}
}
func (d *decoder) metrics(metrics []Metrics) {
	for i := range metrics {
		metrics[i].Clicks = int64(d.uvarint(largestCount))
	}
	for i := range metrics {
		m := &metrics[i]
		m.Impressions = int64(d.uvarint(largestCount))
		m.CTR = m.quotient()
	}
	d.exceptions(metrics, func(m *Metrics, f float64) { m.CTR = f })
	for i := range metrics {
		metrics[i].Position = metrics[i].decodePosition(d.uvarint(largestCode))
	}
	d.exceptions(metrics, func(m *Metrics, f float64) { m.Position = f })
	for i := range metrics {
		if !isFraction(metrics[i].CTR) || !isFraction(metrics[i].Position) {
			d.fail(errRowsData)
		}
	}
}

func (d *decoder) exceptions(metrics []Metrics, set func(*Metrics, float64)) {
	for range d.uvarint(uint64(len(metrics))) {
		before := d.uvarint(uint64(len(metrics)))
		var bits [8]byte
		if _, err := io.ReadFull(d.in, bits[:]); err != nil {
			d.fail(err)
		}
		if before >= uint64(len(metrics)) {
			d.fail(errRowsData)
		}
		if d.err != nil {
			return
		}
		set(&metrics[before], math.Float64frombits(binary.LittleEndian.Uint64(bits[:])))
		metrics = metrics[before+1:]
	}
}

// uvarint reads a number up to largest. It returns 0 and sets err if there is none.
func (d *decoder) uvarint(largest uint64) uint64 {
	if d.err != nil {
		return 0
	}
	data, err := d.in.Peek(binary.MaxVarintLen64) // less at the end
	v, n := binary.Uvarint(data)
	if n <= 0 || v > largest {
		d.fail(cmp.Or(err, errRowsData))
		return 0
	}
	_, _ = d.in.Discard(n) // of what Peek returned
	return v
}

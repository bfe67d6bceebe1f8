package translate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
	"unsafe"
)

// Size returns the bytes of memory that r holds, with the capacity of its slices.
func (r *Rows) Size() int {
	return int(unsafe.Sizeof(*r)) + cap(r.arena) + cap(r.ends)*int(unsafe.Sizeof(int32(0))) + cap(r.metrics)*int(unsafe.Sizeof(Metrics{}))
}

// AppendBinary appends r in a form that ParseRows reads back bit for bit. It is columnar, so that it compresses well, and has
// neither a version nor a checksum: these are for the caller to add.
//
// The columns are: the number of rows and the bytes of all keys; the length of each key; the keys; clicks; impressions; the
// exceptions of ctr; the codes of positions; the exceptions of position. All numbers are unsigned varints. The upstream
// computes ctr as clicks / impressions, and position as an integer / impressions, so ctr is not stored and position is
// stored as that integer. Rows for which this does not give the exact float are exceptions: their number, and for each the
// number of rows since the last exception and the eight bytes of the float, little-endian.
func (r *Rows) AppendBinary(dst []byte) []byte {
	const usualFigures = 8
	dst = slices.Grow(dst, len(r.arena)+r.Len()*usualFigures+2*binary.MaxVarintLen64)
	dst = binary.AppendUvarint(dst, uint64(r.Len()))
	dst = binary.AppendUvarint(dst, uint64(len(r.arena)))
	start := int32(0)
	for _, end := range r.ends {
		dst = binary.AppendUvarint(dst, uint64(end-start))
		start = end
	}
	dst = append(dst, r.arena...)
	for i := range r.metrics {
		dst = binary.AppendUvarint(dst, uint64(r.metrics[i].Clicks))
	}
	for i := range r.metrics {
		dst = binary.AppendUvarint(dst, uint64(r.metrics[i].Impressions))
	}
	dst = r.appendExceptions(dst, func(m *Metrics) (got, expected float64) { return m.CTR, m.quotient() })
	for i := range r.metrics {
		dst = binary.AppendUvarint(dst, r.metrics[i].positionCode())
	}
	return r.appendExceptions(dst, func(m *Metrics) (got, expected float64) { return m.Position, m.decodePosition(m.positionCode()) })
}

// appendExceptions appends the rows in which a figure differs from the expected one in any bit.
func (r *Rows) appendExceptions(dst []byte, figure func(*Metrics) (got, expected float64)) []byte {
	n := 0
	for i := range r.metrics {
		if got, expected := figure(&r.metrics[i]); math.Float64bits(got) != math.Float64bits(expected) {
			n++
		}
	}
	dst = binary.AppendUvarint(dst, uint64(n))
	after := 0 // the row after the last exception
	for i := range r.metrics {
		if got, expected := figure(&r.metrics[i]); math.Float64bits(got) != math.Float64bits(expected) {
			dst = binary.AppendUvarint(dst, uint64(i-after))
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(got))
			after = i + 1
		}
	}
	return dst
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

var errRowsData = errors.New("not in the format of AppendBinary")

// ParseRows reads the format of AppendBinary. It retains nothing of data. Of forged data it returns an error, or Rows that
// ReadRows could have returned too; it allocates no more than in proportion to len(data).
func ParseRows(data []byte) (*Rows, error) {
	p := &rowsParser{data: data}
	rows := p.rows()
	if p.failed || len(p.data) > 0 {
		return nil, fmt.Errorf("parse rows: %d bytes, error before the last %d: %w", len(data), len(p.data), errRowsData)
	}
	return rows, nil
}

// A rowsParser consumes data from the front. Once failed is set, what it returns is meaningless.
type rowsParser struct {
	data   []byte
	failed bool
}

func (p *rowsParser) rows() *Rows {
	const leastRow = 4 // bytes: one each for the key's length, clicks, impressions and position
	n := p.uvarint(uint64(len(p.data)) / leastRow)
	arena := p.uvarint(math.MaxInt32)
	if p.failed || arena+n*leastRow > uint64(len(p.data)) {
		p.failed = true
		return nil
	}
	r := &Rows{ends: make([]int32, n), metrics: make([]Metrics, n)}
	end := uint64(0)
	for i := range r.ends {
		end += p.uvarint(arena - end)
		r.ends[i] = int32(end)
	}
	if end != arena || arena > uint64(len(p.data)) {
		p.failed = true
		return nil
	}
	r.arena = append(make([]byte, 0, arena), p.data[:arena]...)
	p.data = p.data[arena:]
	p.failed = p.failed || !r.validKeys()
	p.metrics(r.metrics)
	return r
}

// validKeys reports whether every key is UTF-8.
func (r *Rows) validKeys() bool {
	for _, end := range r.ends {
		if int(end) < len(r.arena) && !utf8.RuneStart(r.arena[end]) {
			return false
		}
	}
	return utf8.Valid(r.arena)
}

func (p *rowsParser) metrics(metrics []Metrics) {
	for i := range metrics {
		metrics[i].Clicks = int64(p.uvarint(largestCount))
	}
	for i := range metrics {
		m := &metrics[i]
		m.Impressions = int64(p.uvarint(largestCount))
		m.CTR = m.quotient()
	}
	p.exceptions(metrics, func(m *Metrics, f float64) { m.CTR = f })
	for i := range metrics {
		metrics[i].Position = metrics[i].decodePosition(p.uvarint(largestCode))
	}
	p.exceptions(metrics, func(m *Metrics, f float64) { m.Position = f })
	for i := range metrics {
		p.failed = p.failed || !isFraction(metrics[i].CTR) || !isFraction(metrics[i].Position)
	}
}

func (p *rowsParser) exceptions(metrics []Metrics, set func(*Metrics, float64)) {
	const width = 8
	for range p.uvarint(uint64(len(metrics))) {
		before := p.uvarint(uint64(len(metrics)))
		if p.failed || before >= uint64(len(metrics)) || len(p.data) < width {
			p.failed = true
			return
		}
		set(&metrics[before], math.Float64frombits(binary.LittleEndian.Uint64(p.data)))
		p.data, metrics = p.data[width:], metrics[before+1:]
	}
}

// uvarint reads a number up to largest. It returns 0 and sets failed if there is none.
func (p *rowsParser) uvarint(largest uint64) uint64 {
	v, n := binary.Uvarint(p.data)
	if n <= 0 || v > largest {
		p.failed = true
		return 0
	}
	p.data = p.data[n:]
	return v
}

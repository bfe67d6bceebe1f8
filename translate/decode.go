package translate

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"unicode/utf8"
)

var errRowsData = errors.New("not in the format of Encode")

// maxDecodedRows is far above what one call upstream returns.
const maxDecodedRows = 4 * WideSample

// A Decoder reads the format of Encode. Reused, it allocates nothing but the Rows that it returns. The zero value is ready to use.
// It belongs to one goroutine at a time.
type Decoder struct {
	in      io.Reader
	buffer  [4 << 10]byte
	at, end int         // of what is not decoded yet in the buffer
	ended   error       // of in, which has no more; nil: it may have
	values  [128]uint64 // of a column
	chunks  []int       // the sizes of those of a group
	err     error       // the first: what is returned after it is meaningless
}

// Rows returns the rows that Encode wrote. Of forged data it returns an error, or Rows that ReadRows could have
// returned too; it allocates no more than in proportion to the data. An error of in is wrapped.
//
// first is 0 for all rows. Otherwise, if the rows are ranked, it reads no more groups than the first rows need. The Rows then count the
// others, but do not have them, so they are only for a Report whose FirstRows are no more, and a fault in the others remains
// unnoticed.
func (d *Decoder) Rows(in io.Reader, first int) (*Rows, error) {
	d.in, d.at, d.end, d.ended, d.err = in, 0, 0, nil, nil
	defer func() { d.in = nil }()
	rows := d.rows(first)
	if d.err == nil && rows.beyond == 0 {
		if d.fill(1); d.at < d.end || d.ended != io.EOF {
			d.fail(cmp.Or(d.ended, errRowsData))
		}
	}
	if d.err != nil {
		return nil, fmt.Errorf("decode rows: %w", d.err)
	}
	return rows, nil
}

const mostEmptyReads = 100

// fill makes n bytes available, or as many as there are.
func (d *Decoder) fill(n int) {
	if d.end-d.at >= n || d.ended != nil {
		return
	}
	d.end, d.at = copy(d.buffer[:], d.buffer[d.at:d.end]), 0
	for empty := 0; d.end < n && d.ended == nil; empty++ {
		more, err := d.in.Read(d.buffer[d.end:])
		d.end += more
		if d.ended = err; err == nil && more == 0 && empty > mostEmptyReads {
			d.ended = io.ErrNoProgress
		}
	}
}

// read fills p.
func (d *Decoder) read(p []byte) {
	for len(p) > 0 {
		d.fill(1)
		n := copy(p, d.buffer[d.at:d.end])
		if n == 0 {
			d.fail(d.ended)
			return
		}
		p, d.at = p[n:], d.at+n
	}
}

func (d *Decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// lastDate is 9999-12-31, the last that ParseDate reads.
const lastDate = 2932896

func (d *Decoder) traits() traits {
	code := d.uvarint(lastDate<<1 | 1)
	return traits{byPage: code&1 != 0, incomplete: Date(code >> 1)}
}

// rows reads the groups of the first rows.
func (d *Decoder) rows(first int) *Rows {
	r := &Rows{traits: d.traits()}
	count := d.uvarint(maxDecodedRows<<1 | 1)
	n, ranked := int(count>>1), count&1 != 0
	if first == 0 || !ranked || first > NarrowSample {
		first = n
	}
	for r.has() < min(n, first) && d.err == nil {
		d.group(r, groupEnd(r.has(), n, ranked)-r.has())
	}
	r.beyond = n - r.has()
	if d.err == nil && ranked != r.head(NarrowSample).areRanked() {
		d.fail(errRowsData)
	}
	r.ordered = ranked && r.has() <= NarrowSample
	if d.err != nil {
		return nil
	}
	return r
}

// group reads n more rows.
func (d *Decoder) group(r *Rows, n int) {
	before, text := r.has(), len(r.keys.chunks)
	d.ends(&r.keys, n, int(d.uvarint(math.MaxInt32)))
	for _, size := range d.chunks {
		d.chunk(&r.keys, size)
	}
	if d.err == nil && !r.keys.areText(text, before) {
		d.fail(errRowsData)
	}
	if d.err != nil {
		return
	}
	r.metrics = append(make([]Metrics, 0, before+n), r.metrics...)[:before+n]
	d.metrics(r.metrics[before:])
}

// ends reads the lengths of n more keys of size bytes together, and finds the sizes of their chunks.
func (d *Decoder) ends(k *keys, n, size int) {
	before, begin := len(k.ends), len(k.chunks)
	k.ends = append(make([]keyEnd, 0, before+min(n, EnlargedSample)), k.ends...)
	d.chunks = d.chunks[:0]
	room, left := -1, size                                // of the last chunk, and of all that follow
	d.column(n, maxWindow, func(_ int, values []uint64) { // no key of ReadRows is longer
		ends := k.ends // as a field, it would take a write barrier for each key
		for _, v := range values {
			length, last := int(v), len(d.chunks)-1
			if length > left {
				d.fail(errRowsData)
				return
			}
			if last < 0 || d.chunks[last]+length > room {
				d.chunks, room = append(d.chunks, 0), max(length, min(left, wholeChunk))
				last++
			}
			d.chunks[last] += length
			left -= length
			if len(ends) == cap(ends) {
				ends = grown(ends)
			}
			ends = append(ends, keyEnd(begin+last)<<32|keyEnd(d.chunks[last]))
		}
		k.ends = ends
	})
	if left > 0 {
		d.fail(errRowsData)
	}
	if len(k.ends) < cap(k.ends) {
		k.ends = append(make([]keyEnd, 0, len(k.ends)), k.ends...)
	}
}

// chunk reads a chunk of keys, one at a time: forged lengths take no memory for which there is no data.
func (d *Decoder) chunk(k *keys, size int) {
	if d.err != nil {
		return
	}
	chunk := make([]byte, size)
	d.read(chunk)
	k.chunks = append(k.chunks, chunk)
}

// areText reports whether all keys are valid UTF-8, from a chunk and its first key on: the chunks are, and every key begins at the
// beginning of a character.
func (k *keys) areText(chunk, key int) bool {
	for _, chunk := range k.chunks[chunk:] {
		if !utf8.Valid(chunk) {
			return false
		}
	}
	for _, end := range k.ends[key:] {
		if chunk, at := k.chunks[end.chunk()], end.offset(); at < len(chunk) && !utf8.RuneStart(chunk[at]) {
			return false
		}
	}
	return true
}

func (d *Decoder) metrics(metrics []Metrics) {
	d.column(len(metrics), largestCount, func(begin int, values []uint64) {
		rows := metrics[begin:][:len(values)]
		for i := range rows {
			rows[i].Clicks = int64(values[i])
		}
	})
	d.column(len(metrics), largestCount, func(begin int, values []uint64) {
		rows := metrics[begin:][:len(values)]
		for i := range rows {
			m := &rows[i]
			m.Impressions = int64(values[i])
			m.CTR = m.quotient()
		}
	})
	d.exceptions(metrics, func(m *Metrics, f float64) { m.CTR = f })
	d.column(len(metrics), largestCode, func(begin int, values []uint64) {
		rows := metrics[begin:][:len(values)]
		for i := range rows {
			m := &rows[i]
			if m.Position = m.decodePosition(values[i]); !isFraction(m.CTR) || !isFraction(m.Position) {
				d.fail(errRowsData)
			}
		}
	})
	d.exceptions(metrics, func(m *Metrics, f float64) {
		if m.Position = f; !isFraction(f) {
			d.fail(errRowsData)
		}
	})
}

func (d *Decoder) exceptions(metrics []Metrics, set func(*Metrics, float64)) {
	for range d.uvarint(uint64(len(metrics))) {
		before := d.uvarint(uint64(len(metrics)))
		var bits [8]byte
		if d.read(bits[:]); before >= uint64(len(metrics)) {
			d.fail(errRowsData)
		}
		if d.err != nil {
			return
		}
		set(&metrics[before], math.Float64frombits(binary.LittleEndian.Uint64(bits[:])))
		metrics = metrics[before+1:]
	}
}

// column reads n numbers up to largest, some at a time.
func (d *Decoder) column(n int, largest uint64, set func(begin int, values []uint64)) {
	for begin := 0; begin < n; {
		values := d.values[:min(n-begin, len(d.values))]
		if d.numbers(values, largest); d.err != nil {
			return
		}
		set(begin, values)
		begin += len(values)
	}
}

// numbers reads numbers up to largest. Nearly all of them have up to three bytes.
func (d *Decoder) numbers(values []uint64, largest uint64) {
	for len(values) > 0 && d.err == nil {
		d.fill(1) // and no more, which may be in the next block
		text := d.buffer[d.at:d.end]
		whole := len(text) - binary.MaxVarintLen64 // a number that begins before is there as a whole
		n, at := 0, 0
		for ; n < len(values) && at < whole; n++ {
			v := uint64(text[at])
			switch next, third := uint64(text[at+1]), uint64(text[at+2]); {
			case v < 0x80:
				at++
			case next < 0x80:
				v, at = v&0x7f|next<<7, at+2
			case third < 0x80:
				v, at = v&0x7f|next&0x7f<<7|third<<14, at+3
			default:
				long, size := binary.Uvarint(text[at:])
				if size <= 0 {
					long = math.MaxUint64
				}
				v, at = long, at+max(size, 1)
			}
			if v > largest {
				d.fail(errRowsData)
				return
			}
			values[n] = v
		}
		d.at += at
		if n == 0 { // near the end of the buffer
			values[0] = d.uvarint(largest)
			n = 1
		}
		values = values[n:]
	}
}

// uvarint reads a number up to largest. It returns 0 and sets err if there is none.
func (d *Decoder) uvarint(largest uint64) uint64 {
	if d.err != nil {
		return 0
	}
	d.fill(1)
	if d.at < d.end && d.buffer[d.at] < 0x80 && uint64(d.buffer[d.at]) <= largest { // most numbers
		d.at++
		return uint64(d.buffer[d.at-1])
	}
	v, n := binary.Uvarint(d.buffer[d.at:d.end])
	if n == 0 { // the buffer ends within it
		d.fill(binary.MaxVarintLen64)
		v, n = binary.Uvarint(d.buffer[d.at:d.end])
	}
	if n <= 0 || v > largest {
		d.fail(cmp.Or(d.ended, errRowsData))
		return 0
	}
	d.at += n
	return v
}

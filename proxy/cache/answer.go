package cache

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/flate"
)

// Answer is an answer that is ready to send but for a tail, which differs from request to request. It is immutable, and
// requests share it.
type Answer struct {
	head    []byte
	etag    string
	filled  time.Time
	sources [2]source

	packing sync.Once
	packed  []byte // the head as a whole gzip header and deflate blocks, none of which is the last
	sum     uint32 // CRC-32 of the head
}

// source names the fill that rows come from, without holding the rows.
type source struct {
	key string
	id  uint64
}

// NewAnswer returns the answer that begins with head, which is the Answer's from then on, and was built at a time, from the
// rows of the sources, two at most, and whatever else there was.
func NewAnswer(head []byte, made time.Time, sources ...*Entry) *Answer {
	a := &Answer{head: head, etag: fmt.Sprintf(`W/"%016x"`, xxhash.Sum64(head)), filled: made}
	if len(sources) > len(a.sources) {
		panic(fmt.Sprintf("BUG: an answer from %d sources", len(sources)))
	}
	for i, e := range sources {
		a.sources[i] = source{key: e.key, id: e.id}
		if i == 0 || e.filled.Before(a.filled) {
			a.filled = e.filled
		}
	}
	return a
}

// ETag returns a weak entity tag, W/"..." with the quotes. It tells heads apart, not tails.
func (a *Answer) ETag() string { return a.etag }

// Filled returns when the oldest source was filled; without sources, when the answer was made.
func (a *Answer) Filled() time.Time { return a.filled }

// Head returns the head, which is the Answer's own: it is not to be changed.
func (a *Answer) Head() []byte { return a.head }

// Packed returns the head as the beginning of a gzip member, which is the Answer's own: it is not to be changed. The head is
// compressed for the first request only.
func (a *Answer) Packed() []byte {
	a.packing.Do(a.pack)
	return a.packed
}

// AppendPacked appends what comes after Packed in a gzip member that holds the head and the tail: the tail, uncompressed.
func (a *Answer) AppendPacked(dst, tail []byte) []byte {
	a.packing.Do(a.pack)
	rest := tail
	for {
		block := rest[:min(len(rest), math.MaxUint16)]
		rest = rest[len(block):]
		last := byte(0)
		if len(rest) == 0 {
			last = 1
		}
		size := uint16(len(block))
		dst = append(dst, last, byte(size), byte(size>>8), ^byte(size), ^byte(size>>8)) // a stored block (RFC 1951, 3.2.4)
		dst = append(dst, block...)
		if last == 1 {
			break
		}
	}
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Update(a.sum, crc32.IEEETable, tail))
	return binary.LittleEndian.AppendUint32(dst, uint32(len(a.head)+len(tail)))
}

// gzipHeader says deflate, no name, no time, and no system (RFC 1952, 2.3).
const gzipHeader = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

// pack compresses the head and flushes, which ends at a full byte, so that blocks can follow.
func (a *Answer) pack() {
	var out bytes.Buffer
	out.WriteString(gzipHeader)
	// It needs no writer of a megabyte, which other levels would need for each of many small heads. Writing to a Buffer
	// has no errors.
	_ = flate.StatelessDeflate(&out, a.head, false, nil)
	a.packed = bytes.Clone(out.Bytes())
	a.sum = crc32.ChecksumIEEE(a.head)
}

// size returns the bytes that the answer holds once it is compressed, for which half of the head is allowed.
func (a *Answer) size() int {
	size := len(a.head) + len(a.head)/2 + len(a.etag)
	for _, s := range a.sources {
		size += len(s.key)
	}
	return size
}

// Answer returns the answer that was kept under a key, or nil when there is none, or when one of its sources was refilled
// since. How old an answer may be is up to the caller. It does not keep the key.
func (c *Cache) Answer(key []byte) *Answer {
	a := c.memory.answer(key)
	if a != nil {
		c.metrics.memory.Inc()
	}
	return a
}

// Keep remembers an answer in memory, in the account's share of it. It copies the key.
func (c *Cache) Keep(key []byte, accountID string, a *Answer) {
	c.memory.putAnswer(string(key), a, accountID)
}

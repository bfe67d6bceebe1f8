package cache

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/flate"
)

// Answer is a response body without its tail, which differs between requests. Requests share it plain, compressed, and in
// other formats. It is immutable.
type Answer struct {
	head    []byte
	etag    string // of head
	tag     [len(`W/""`) + 16]byte
	filled  time.Time
	sources [2]source
	mention mention
	key     string       // under which it was kept; empty: not kept
	account string       // whose share it counts against
	basis   uint64       // see RestOn
	checked atomic.Int64 // when the basis was last found unchanged, in nanoseconds since 1970
	doubted bool         // see Doubt

	packing  sync.Once
	packed   []byte // the head as a gzip header and deflate blocks without the final one
	sum      uint32 // CRC-32 of the head
	isPacked atomic.Bool

	renditions renditions
}

// source identifies the fill of an entry without holding its rows in memory.
type source struct {
	key string
	id  uint64
}

// NewAnswer returns the answer with a head, which must not change afterwards, that was built at a time from at most two
// entries.
func NewAnswer(head []byte, built time.Time, sources ...*Entry) *Answer {
	a := &Answer{head: head, filled: built}
	a.etag = view(appendTag(a.tag[:0], head))
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

// appendTag appends the entity tag of a head.
func appendTag(dst, head []byte) []byte {
	var sum [8]byte
	binary.BigEndian.PutUint64(sum[:], xxhash.Sum64(head))
	return append(hex.AppendEncode(append(dst, `W/"`...), sum[:]), '"')
}

// ETag returns a weak entity tag with its quotes, W/"...". It depends only on the head.
func (a *Answer) ETag() string { return a.etag }

// Filled returns when the oldest source was filled or, without sources, when the answer was built.
func (a *Answer) Filled() time.Time { return a.filled }

// RestOn records the version of what the answer was built from in addition to its sources, and when it was read. It must be called
// before Keep.
func (a *Answer) RestOn(version uint64, at time.Time) {
	a.basis = version
	a.checked.Store(at.UnixNano())
}

// Rests reports whether RestOn recorded a version.
func (a *Answer) Rests() bool { return a.basis != 0 }

// Checked returns when the version of RestOn was last found unchanged.
func (a *Answer) Checked() time.Time { return time.Unix(0, a.checked.Load()) }

// Check reports whether the version is still that of RestOn, and if so records the time.
func (a *Answer) Check(version uint64, at time.Time) bool {
	if version != a.basis {
		return false
	}
	a.checked.Store(at.UnixNano())
	return true
}

// Doubt records that the next answer may know more at any time, so that clients must revalidate this one before each use. It must be called
// before Keep.
func (a *Answer) Doubt() { a.doubted = true }

// IsDoubted reports whether Doubt was called.
func (a *Answer) IsDoubted() bool { return a.doubted }

// IsOf reports whether the answer was built from these entries.
func (a *Answer) IsOf(entries []*Entry) bool {
	for i, s := range a.sources {
		if has := i < len(entries); has != (s.key != "") || has && (entries[i].id != s.id || entries[i].key != s.key) {
			return false
		}
	}
	return true
}

// Head returns the head, which must not be changed.
func (a *Answer) Head() []byte { return a.head }

// Packed returns the head as the beginning of a gzip member, which must not be changed. The first call compresses it; the
// result is memoized.
func (a *Answer) Packed() []byte {
	a.packing.Do(a.pack)
	return a.packed
}

// IsPacked reports whether Packed has the result at hand.
func (a *Answer) IsPacked() bool { return a.isPacked.Load() }

// AppendPacked appends what follows Packed in the gzip member of the head and a tail. The tail is stored, not compressed.
func (a *Answer) AppendPacked(dst, tail []byte) []byte {
	a.packing.Do(a.pack)
	rest := tail
	for {
		block := rest[:min(len(rest), math.MaxUint16)]
		rest = rest[len(block):]
		final := byte(0)
		if len(rest) == 0 {
			final = 1
		}
		size := uint16(len(block))
		dst = append(dst, final, byte(size), byte(size>>8), ^byte(size), ^byte(size>>8)) // a stored block (RFC 1951, 3.2.4)
		dst = append(dst, block...)
		if final == 1 {
			break
		}
	}
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Update(a.sum, crc32.IEEETable, tail))
	return binary.LittleEndian.AppendUint32(dst, uint32(len(a.head)+len(tail)))
}

// gzipHeader is deflate without a name, a time or an operating system (RFC 1952, 2.3).
const gzipHeader = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

// pack compresses the head and flushes to a byte boundary, so that more blocks can follow.
func (a *Answer) pack() {
	var out bytes.Buffer
	out.WriteString(gzipHeader)
	// Stateless: the other levels need a writer of a megabyte, for heads of a few kilobytes. A Buffer returns no errors.
	_ = flate.StatelessDeflate(&out, a.head, false, nil)
	a.packed = bytes.Clone(out.Bytes())
	a.sum = crc32.ChecksumIEEE(a.head)
	a.isPacked.Store(true)
}

// size returns the bytes that the answer holds with its renditions, with an estimate of half the head for the compressed form.
func (a *Answer) size() int {
	size := cap(a.head) + len(a.head)/2 + len(a.etag) + len(a.mention.key)
	for _, s := range a.sources {
		size += len(s.key)
	}
	for i := range a.renditions {
		if r := a.renditions[i].Load(); r != nil {
			size += r.size()
		}
	}
	return size
}

// Answer returns the answer that was kept under a key, or nil if there is none, a source has been refilled since, or what it mentions
// is outdated. The caller checks its age. Answer does not retain the key.
func (c *Cache) Answer(key []byte) *Answer {
	a := c.memory.answer(key)
	if a != nil {
		c.metrics.memory.Inc()
	}
	return a
}

// Keep puts an answer into memory, where it counts against the account's share. Keep copies the key. It must be called at most once for
// an answer, before other requests have it.
func (c *Cache) Keep(key []byte, accountID string, a *Answer) {
	a.key, a.account = string(key), accountID
	c.memory.putAnswer(a.key, a, accountID)
}

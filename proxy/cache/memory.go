package cache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"

	"sara/proxy/lru"
	"sara/translate"
)

// Entry is one copy of upstream rows. It is immutable.
type Entry struct {
	key         string // of the query that filled it
	rows        *translate.Rows
	filled      time.Time
	requestHash uint64
	id          uint64 // of the fill, the same in every replica

	refillFailed atomic.Bool // the last refill failed for all waiters: the next request waits for another one
}

// Rows returns the rows, which must not be changed.
func (e *Entry) Rows() *translate.Rows { return e.rows }

// Filled returns when the upstream answered.
func (e *Entry) Filled() time.Time { return e.filled }

// RequestHash returns the Request.RequestHash of the fill. It differs from a request's own when another request filled the
// rows.
func (e *Entry) RequestHash() uint64 { return e.requestHash }

// appendKey appends the cache key of a query for a property: the property, the site and the query's canonical form. The
// lengths make it injective. Since the property is part of it, tenants never share rows.
func appendKey(dst []byte, propertyID string, q *translate.Query) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(propertyID)))
	dst = append(dst, propertyID...)
	dst = binary.AppendUvarint(dst, uint64(len(q.Site)))
	dst = append(dst, q.Site...)
	return q.AppendKey(dst)
}

// lookup is a request that memory did not answer, with its keys.
type lookup struct {
	Request
	own       candidate
	others    []candidate // the sibling, if there is one
	flightKey string
	began     time.Time // in real time, since it bounds the time spent on Redis
}

// candidate is a query whose rows may answer a request.
type candidate struct {
	query    translate.Query
	key      string
	redisKey string
}

func newLookup(r *Request) *lookup {
	l := &lookup{Request: *r, own: newCandidate(r.PropertyID, r.Query), began: time.Now()}
	if sibling, ok := r.Query.Sibling(); ok {
		l.others = []candidate{newCandidate(r.PropertyID, sibling)}
	}
	l.flightKey = l.own.key
	if r.Bypass {
		l.flightKey = "bypass " + l.flightKey
	}
	return l
}

func newCandidate(propertyID string, q translate.Query) candidate {
	key := string(appendKey(nil, propertyID, &q))
	return candidate{query: q, key: key, redisKey: redisKey(propertyID, key)}
}

// An entry in Redis is, in this order, with numbers in little-endian:
//
//	4 bytes  "sara"
//	1        version
//	1        flags, all zero
//	8        when it was filled, in nanoseconds since 1970
//	8        Request.RequestHash of the fill
//	8        id of the fill
//	4, n     length of the cache key, and the cache key
//	rest     rows (translate.Rows.AppendBinary), compressed with zstd
//	8        xxHash64 of everything before
//
// The cache key is stored in the value and compared on read, because the Redis key is only a hash of it: a collision is a
// miss, never the rows of another property.
const (
	magic          = "sara"
	version        = 1
	headerSize     = len(magic) + 1 + 1 + 3*8
	sumSize        = 8
	maxPayload     = 64 << 20        // of the rows, decompressed: 25,000 rows with the longest keys need less
	maxClockDrift  = 5 * time.Minute // how far the clock of another replica may be ahead
	decoderThreads = 0               // as many as there are cores
)

// Why a value in Redis is discarded.
var (
	errVersion = errors.New("it has another version")
	errTorn    = errors.New("it is damaged")
	errForeign = errors.New("it has another key, or comes from the future")
)

// codec encodes and decodes entries for Redis. It is safe for concurrent use.
type codec struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

// newCodec returns a codec that refuses rows of more than maxBytes, so that a forged value cannot exhaust the memory.
func newCodec(maxBytes uint64) (*codec, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("create the compressor of cached rows: %w", err)
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(decoderThreads), zstd.WithDecoderMaxMemory(maxBytes), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("create the decompressor of cached rows: %w", err)
	}
	return &codec{encoder: encoder, decoder: decoder}, nil
}

func (c *codec) close() { c.decoder.Close() }

func (c *codec) encode(e *Entry) []byte {
	data := append(make([]byte, 0, 512), magic...)
	data = append(data, version, 0)
	data = binary.LittleEndian.AppendUint64(data, uint64(e.filled.UnixNano()))
	data = binary.LittleEndian.AppendUint64(data, e.requestHash)
	data = binary.LittleEndian.AppendUint64(data, e.id)
	data = binary.LittleEndian.AppendUint32(data, uint32(len(e.key)))
	data = append(data, e.key...)
	data = c.encoder.EncodeAll(e.rows.AppendBinary(nil), data)
	return binary.LittleEndian.AppendUint64(data, xxhash.Sum64(data))
}

// encodedEntry is an entry from Redis with valid headers, whose rows are not decoded yet.
type encodedEntry struct {
	headers Entry // without rows
	payload []byte
}

// parseHeaders checks a value that was found for a cache key, and reads its headers.
func parseHeaders(data []byte, key string, now time.Time) (*encodedEntry, error) {
	if len(data) < len(magic)+1 || string(data[:len(magic)]) != magic {
		return nil, errTorn
	}
	if data[len(magic)] != version {
		return nil, errVersion
	}
	end := len(data) - sumSize
	if end < headerSize+4 || xxhash.Sum64(data[:end]) != binary.LittleEndian.Uint64(data[end:]) {
		return nil, errTorn
	}
	numbers, rest := data[len(magic)+2:headerSize], data[headerSize:end]
	keySize := int64(binary.LittleEndian.Uint32(rest))
	rest = rest[4:]
	if keySize > int64(len(rest)) {
		return nil, errTorn
	}
	filled := time.Unix(0, int64(binary.LittleEndian.Uint64(numbers)))
	if string(rest[:keySize]) != key || filled.Sub(now) > maxClockDrift {
		return nil, errForeign
	}
	return &encodedEntry{
		headers: Entry{key: key, filled: filled, requestHash: binary.LittleEndian.Uint64(numbers[8:]), id: binary.LittleEndian.Uint64(numbers[16:])},
		payload: rest[keySize:],
	}, nil
}

// decode reads the rows.
func (c *codec) decode(e *encodedEntry) (*Entry, error) {
	data, err := c.decoder.DecodeAll(e.payload, nil)
	if err != nil {
		return nil, errTorn
	}
	rows, err := translate.ParseRows(data)
	if err != nil {
		return nil, errTorn
	}
	h := &e.headers
	return &Entry{key: h.key, rows: rows, filled: h.filled, requestHash: h.requestHash, id: h.id}, nil
}

// accountShare is the part of the memory that one account may fill, and so may one value: a quarter.
const accountShare = 4

// valueOverhead is the memory of a value in addition to its bytes: its place in the index and the lists of the LRU, and the
// headers of the slices in it.
const valueOverhead = 512

// memory holds the entries and answers of this process in an LRU that is bounded in bytes, in total and for each account.
// Reads take no lock.
type memory struct {
	values *lru.Cache[memoryKey, value]
}

// memoryKey keeps the keys of entries apart from those of answers.
type memoryKey struct {
	answer bool
	text   string
}

// value is an entry or an answer.
type value struct {
	entry  *Entry
	answer *Answer
}

func newMemory(bytes int64) *memory {
	return &memory{values: lru.New[memoryKey](lru.Config[value]{Weight: bytes, OwnerWeight: bytes / accountShare, Replaces: value.isReplacedBy})}
}

// isReplacedBy refuses an entry that is older than the present one: fills may finish in another order than they began.
func (v value) isReplacedBy(other value) bool {
	return v.entry == nil || !v.entry.filled.After(other.entry.filled)
}

// entry returns the entry with a key, or nil. It does not retain the key.
func (m *memory) entry(key []byte) *Entry {
	found, _ := m.values.Get(memoryKey{text: view(key)})
	return found.entry
}

// answer returns the answer with a key, or nil if there is none or one of its sources was refilled. It does not retain the
// key.
func (m *memory) answer(key []byte) *Answer {
	found, _ := m.values.Get(memoryKey{answer: true, text: view(key)})
	if found.answer == nil || m.outdated(found.answer) {
		return nil
	}
	return found.answer
}

// outdated reports whether a source was refilled since the answer was built from it. A source that was evicted is not.
func (m *memory) outdated(a *Answer) bool {
	for i := range a.sources {
		s := &a.sources[i]
		if s.key == "" {
			break
		}
		// Peek, because a hit of the answer does not use the rows: they may be evicted before it.
		if now, ok := m.values.Peek(memoryKey{text: s.key}); ok && now.entry.id != s.id {
			return true
		}
	}
	return false
}

// view returns the bytes as a string without a copy. It is valid only until the bytes change.
func view(key []byte) string { return unsafe.String(unsafe.SliceData(key), len(key)) }

// putEntry keeps an entry unless there is a newer one.
func (m *memory) putEntry(e *Entry, account string) {
	m.values.Put(memoryKey{text: e.key}, value{entry: e}, weigh(len(e.key)+e.rows.Size()), account)
}

func (m *memory) putAnswer(key string, a *Answer, account string) {
	m.values.Put(memoryKey{answer: true, text: key}, value{answer: a}, weigh(len(key)+a.size()), account)
}

func weigh(bytes int) int64 { return int64(bytes) + valueOverhead }

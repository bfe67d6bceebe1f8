package cache

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"

	"sara/proxy/cpubound"
	"sara/translate"
)

// An entry in Redis is, in this order, with numbers in little-endian:
//
//	4 bytes  "sara"
//	1        version
//	1        flags, all zero
//	8        when it was filled, in nanoseconds since 1970
//	8        Request.RequestHash of the fill
//	8        id of the fill
//	4, n     length of the cache key, and the cache key
//	rest     rows (translate.Rows.Encode), compressed with zstd
//	8        xxHash64 of everything before
//
// The cache key is stored in the value and compared on read, because the Redis key is only a hash of it: a collision is a
// miss, never the rows of another property.
const (
	magic         = "sara"
	version       = 3
	headerSize    = len(magic) + 1 + 1 + 3*8
	sumSize       = 8
	maxPayload    = 64 << 20        // of the rows, decompressed: 25,000 rows with the longest keys need less
	maxClockDrift = 5 * time.Minute // how far the clock of another replica may be ahead
	windowSize    = 1 << 20         // of the compression; its memory is a few times that
)

// Why a value in Redis is discarded.
var (
	errVersion = errors.New("it has another version")
	errTorn    = errors.New("it is damaged")
	errForeign = errors.New("it has another key, or comes from the future")
)

// codec encodes and decodes entries for Redis as streams, so that the rows are in memory once. It bounds how many do so at a
// time: more than there are cores would only take more memory. It is safe for concurrent use.
type codec struct {
	maxBytes int64
	slots    *cpubound.Slots
	// Idle ones; nil: not made yet. Their numbers are those of the channels' capacities.
	encoders chan *zstd.Encoder
	decoders chan *zstd.Decoder
}

// newCodec returns a codec that refuses rows of more than maxBytes, so that a forged value cannot exhaust the memory.
func newCodec(maxBytes int64, slots *cpubound.Slots) *codec {
	threads := runtime.GOMAXPROCS(0)
	// No request waits for a copy to be written, but the requests of other replicas may wait for it.
	c := &codec{maxBytes: maxBytes, slots: slots, encoders: make(chan *zstd.Encoder, max(1, threads/4)), decoders: make(chan *zstd.Decoder, max(2, threads))}
	c.reset()
	return c
}

// close waits for what is being encoded and decoded. It may be called again.
func (c *codec) close() {
	for range cap(c.encoders) {
		<-c.encoders
	}
	for range cap(c.decoders) {
		if d := <-c.decoders; d != nil {
			d.Close()
		}
	}
	c.reset()
}

func (c *codec) reset() {
	for range cap(c.encoders) {
		c.encoders <- nil
	}
	for range cap(c.decoders) {
		c.decoders <- nil
	}
}

// A slottedWriter compresses each piece in a slot of the processor.
type slottedWriter struct {
	io.Writer
	slots *cpubound.Slots
}

// Write implements io.Writer.
func (w slottedWriter) Write(p []byte) (int, error) {
	// The wait ends: holders of slots wait for nothing but the processor.
	if err := w.slots.Acquire(context.Background()); err != nil {
		return 0, err
	}
	defer w.slots.Release()
	return w.Writer.Write(p)
}

func (c *codec) encode(e *Entry) []byte {
	encoder := <-c.encoders
	defer func() { c.encoders <- encoder }()
	if encoder == nil {
		var err error
		encoder, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true),
			zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(windowSize))
		if err != nil {
			panic("BUG: create the compressor of cached rows: " + err.Error())
		}
	}
	data := append(make([]byte, 0, 512), magic...)
	data = append(data, version, 0)
	data = binary.LittleEndian.AppendUint64(data, uint64(e.filled.UnixNano()))
	data = binary.LittleEndian.AppendUint64(data, e.requestHash)
	data = binary.LittleEndian.AppendUint64(data, e.id)
	data = binary.LittleEndian.AppendUint32(data, uint32(len(e.key)))
	out := bytes.NewBuffer(append(data, e.key...))
	encoder.Reset(out)
	defer encoder.Reset(nil) // lets go of the buffer
	if err := errors.Join(e.rows.Encode(slottedWriter{encoder, c.slots}), encoder.Close()); err != nil {
		panic("BUG: a buffer refuses cached rows: " + err.Error())
	}
	return binary.LittleEndian.AppendUint64(out.Bytes(), xxhash.Sum64(out.Bytes()))
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
	decoder := <-c.decoders
	defer func() { c.decoders <- decoder }()
	if decoder == nil {
		var err error
		decoder, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(windowSize))
		if err != nil {
			panic("BUG: create the decompressor of cached rows: " + err.Error())
		}
	}
	if err := decoder.Reset(bytes.NewReader(e.payload)); err != nil {
		return nil, errTorn
	}
	defer func() { _ = decoder.Reset(nil) }() // lets go of the value
	rows, err := translate.DecodeRows(io.LimitReader(decoder, c.maxBytes))
	if err != nil {
		return nil, errTorn
	}
	h := &e.headers
	return &Entry{key: h.key, rows: rows, filled: h.filled, requestHash: h.requestHash, id: h.id}, nil
}

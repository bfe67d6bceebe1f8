package cache

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"time"

	"github.com/klauspost/compress/s2"

	"sara/policy/keyring"
	"sara/proxy/cpubound"
	"sara/translate"
)

// An entry in Redis is, in this order, with numbers in little-endian:
//
//	4 bytes  "sara"
//	1        version
//	rest     a keyring stream, with everything before and the cache key as additional data, of:
//	         8     when it was filled, in nanoseconds since 1970
//	         8     Request.RequestHash of the fill
//	         8     id of the fill
//	         rest  rows (translate.Rows.Encode), compressed with S2, each block by itself
//
// Each group of the rows is a part of the stream, so seek.lua can read the first groups without the others. The headers are in the
// first part.
//
// The stream can be decrypted only with the cache key under which it was sealed, which begins with the property. So neither a collision of
// Redis keys, which are only hashes, nor a copy put there by another program returns the rows of another property.
const (
	magic         = "sara"
	version       = 8
	clearSize     = len(magic) + 1
	headerSize    = 3 * 8
	maxPayload    = 64 << 20        // of the rows, decompressed: 25,000 rows with the longest keys need less
	maxClockDrift = 5 * time.Minute // how far another replica's clock may be ahead
	blockSize     = 64 << 10        // of the compression; its memory is a few times as large

	// freeBytes of rows are compressed without a CPU slot. Most entries are smaller, and take a tenth of a millisecond.
	freeBytes = 128 << 10
)

// The purposes of sealed data.
const (
	rowsPurpose     = "cached rows"
	failuresPurpose = "failures of fills"
)

// Why a value in Redis is discarded. If it cannot be decrypted, the error is one of package keyring.
var (
	errVersion = errors.New("it has a different version")
	errTorn    = errors.New("it is damaged")
	errFuture  = errors.New("it comes from the future")
)

// codec encodes and decodes entries for Redis as streams, so the rows are in memory only once. It bounds how many do so at a
// time: more than there are cores would only take more memory. Long ones take a CPU slot. It is safe for concurrent use.
type codec struct {
	maxBytes int64
	slots    *cpubound.Slots
	sealer   *keyring.StreamSealer
	// Idle ones; nil: not made yet. The channels' capacities bound their numbers.
	encoders chan *s2.Writer
	decoders chan *decoder
}

// A decoder holds the memory to decode an entry.
type decoder struct {
	blocks *s2.Reader
	limit  io.LimitedReader // of blocks
	rows   translate.Decoder
}

// newCodec returns a codec that refuses rows of more than maxBytes, so that a value of another version cannot exhaust the memory.
func newCodec(maxBytes int64, slots *cpubound.Slots, keys *keyring.Keyring) *codec {
	threads := runtime.GOMAXPROCS(0)
	// No request waits for a copy to be written, but other replicas' requests may.
	c := &codec{
		maxBytes: maxBytes, slots: slots, sealer: keys.StreamSealer(rowsPurpose),
		encoders: make(chan *s2.Writer, max(1, threads/4)), decoders: make(chan *decoder, max(2, threads)),
	}
	c.reset()
	return c
}

// close waits for running encodings and decodings. It may be called again.
func (c *codec) close() {
	for range cap(c.encoders) {
		<-c.encoders
	}
	for range cap(c.decoders) {
		<-c.decoders
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

// A partWriter compresses rows, and ends a part of the stream after each group.
type partWriter struct {
	*s2.Writer
	stream *keyring.StreamWriter
}

// Flush implements translate.BlockWriter.
func (w partWriter) Flush() error {
	err := w.Writer.Flush()
	w.stream.EndPart()
	return err
}

// A slottedWriter compresses and seals each piece in a CPU slot.
type slottedWriter struct {
	partWriter
	slots *cpubound.Slots
}

// Write implements io.Writer.
func (w slottedWriter) Write(p []byte) (n int, err error) {
	err = w.inSlot(func() error { n, err = w.partWriter.Write(p); return err })
	return n, err
}

// Flush implements translate.BlockWriter.
func (w slottedWriter) Flush() error { return w.inSlot(w.partWriter.Flush) }

func (w slottedWriter) inSlot(work func() error) error {
	// The wait ends: holders of slots wait only for the processor.
	if err := w.slots.Acquire(context.Background()); err != nil {
		return err
	}
	defer w.slots.Release()
	return work()
}

func (c *codec) encode(e *Entry) []byte {
	encoder := <-c.encoders
	defer func() { c.encoders <- encoder }()
	if encoder == nil {
		encoder = s2.NewWriter(nil, s2.WriterConcurrency(1), s2.WriterBlockSize(blockSize))
	}
	size := e.rows.Size()
	out := bytes.NewBuffer(appendClear(make([]byte, 0, 512+size/4)))
	headers := binary.LittleEndian.AppendUint64(make([]byte, 0, headerSize), uint64(e.filled.UnixNano()))
	headers = binary.LittleEndian.AppendUint64(headers, e.requestHash)
	headers = binary.LittleEndian.AppendUint64(headers, e.id)
	sealed, err := c.sealer.Seal(out, additional(e.key))
	_, headersErr := sealed.Write(headers)
	encoder.Reset(sealed)
	defer encoder.Reset(nil) // releases the buffer
	parts := partWriter{encoder, sealed}
	rows := translate.BlockWriter(parts)
	if size > freeBytes {
		rows = slottedWriter{parts, c.slots}
	}
	if err := errors.Join(err, headersErr, e.rows.Encode(rows), encoder.Close(), sealed.Close()); err != nil {
		panic("BUG: a buffer refuses cached rows: " + err.Error())
	}
	return out.Bytes()
}

// additional returns the additional data of the stream of a value: its clear bytes and the cache key.
func additional(key string) []byte {
	return append(appendClear(make([]byte, 0, clearSize+len(key))), key...)
}

// appendClear appends the clear bytes of a value.
func appendClear(dst []byte) []byte { return append(append(dst, magic...), version) }

// encodedEntry is an entry from Redis with valid headers, whose rows are not decoded yet. The caller closes the payload.
type encodedEntry struct {
	headers *Entry // without rows
	payload *keyring.StreamReader
	size    int // of the value
}

// open opens a value, or its first parts, that was found under a candidate's key, and reads its headers. The value must not change any more.
func (c *codec) open(data []byte, place string, now time.Time) (encodedEntry, error) {
	switch {
	case len(data) < clearSize || string(data[:len(magic)]) != magic:
		return encodedEntry{}, errTorn
	case data[len(magic)] != version:
		return encodedEntry{}, errVersion
	}
	stream, err := c.sealer.Open(data[clearSize:], bytesOf(place))
	if err != nil {
		return encodedEntry{}, err
	}
	var headers [headerSize]byte
	if n, _ := stream.Read(headers[:]); n < len(headers) { // the first segment has all of them
		stream.Close()
		return encodedEntry{}, errTorn
	}
	filled := time.Unix(0, int64(binary.LittleEndian.Uint64(headers[:])))
	if filled.Sub(now) > maxClockDrift {
		stream.Close()
		return encodedEntry{}, errFuture
	}
	return encodedEntry{
		headers: &Entry{key: place[clearSize:], filled: filled,
			requestHash: binary.LittleEndian.Uint64(headers[8:]), id: binary.LittleEndian.Uint64(headers[16:])},
		payload: stream, size: len(data),
	}, nil
}

// decode reads the first rows, or all, as translate.Decoder does.
func (c *codec) decode(ctx context.Context, e encodedEntry, first int) (*Entry, error) {
	if e.size > longestAlong {
		if err := c.slots.Acquire(ctx); err != nil {
			return nil, err
		}
		defer c.slots.Release()
	}
	var err error
	e.headers.rows, err = c.rows(e.payload, first)
	return e.headers, err
}

func (c *codec) rows(payload io.Reader, first int) (*translate.Rows, error) {
	d := <-c.decoders
	defer func() { c.decoders <- d }()
	if d == nil {
		// The blocks' checksums need not be verified: the stream is authenticated.
		d = &decoder{blocks: s2.NewReader(nil, s2.ReaderMaxBlockSize(blockSize), s2.ReaderIgnoreCRC())}
	}
	d.blocks.Reset(payload)
	defer d.blocks.Reset(nil) // releases the value
	d.limit = io.LimitedReader{R: d.blocks, N: c.maxBytes}
	rows, err := d.rows.Rows(&d.limit, first)
	switch {
	case errors.Is(err, keyring.ErrNotAuthentic):
		return nil, keyring.ErrNotAuthentic
	case err != nil:
		return nil, errTorn
	}
	return rows, nil
}

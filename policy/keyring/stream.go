package keyring

import (
	"cmp"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"io"
	"sync"
)

// A stream is a version byte, the id of the key, 19 random bytes, and segments. Each segment is sealed with the same key of
// XAES-256-GCM, which is derived from the first 12 random bytes, and with a nonce of its own: the other 7, the number of the segment
// (32 bits, big-endian), and its kind. This is the STREAM construction: segments that are moved, left out, repeated or taken from another
// stream do not open, and a stream ends only after its last segment.
//
// Before each segment are four bytes, little-endian: its sealed size times four, plus its kind. So the first parts of a stream, which
// EndPart ends, can be found without a key, and read without the rest.
const (
	streamVersion = 4
	prefixSize    = 7
	streamNonce   = nonceSize/2 + prefixSize
	frameSize     = 4
	// StreamHead is where the first segment of a stream begins with its frame.
	StreamHead = 1 + len(ID{}) + streamNonce
	// SegmentSize is how many bytes a segment of a stream holds at most.
	SegmentSize = 64 << 10
)

// The kinds of segments.
const (
	within  = 0 // another one of the same part follows
	last    = 1 // the stream ends with it
	endPart = 2 // a part ends with it, and another one follows
	kinds   = 4 // in a frame
)

// StreamSealer seals and opens streams of one purpose, for what is too long to be in memory both plain and sealed.
type StreamSealer struct {
	keys
	segments sync.Pool // *[]byte: those of readers and writers that are closed
}

// StreamSealer returns the StreamSealer of a purpose. It derives keys other than those of Sealer: callers keep it.
func (k *Keyring) StreamSealer(purpose string) *StreamSealer {
	return &StreamSealer{
		keys:     k.derive("sara: stream " + purpose),
		segments: sync.Pool{New: func() any { return new(make([]byte, 0, SegmentSize+tagSize)) }},
	}
}

// A segmenter knows the cipher and the next nonce of a stream.
type segmenter struct {
	aead       cipher.AEAD
	nonce      [nonceSize / 2]byte
	number     uint32 // of the next segment; 2^32 of them are 256 TiB
	additional []byte
}

func newSegmenter(c *xaes, random, additional []byte) segmenter {
	s := segmenter{aead: c.message(random), additional: additional}
	copy(s.nonce[:], random[nonceSize/2:])
	return s
}

// nonceOf returns the nonce of the next segment, which is of a kind.
func (s *segmenter) nonceOf(kind byte) []byte {
	binary.BigEndian.PutUint32(s.nonce[prefixSize:], s.number)
	s.number++
	s.nonce[len(s.nonce)-1] = kind
	return s.nonce[:]
}

// A StreamWriter seals what is written to it. Close seals the last segment: without it, the stream does not open.
type StreamWriter struct {
	segmenter
	to      io.Writer
	pending []byte // in buffer: less than a segment, or one that may be the last
	endPart bool   // the part ends with what is pending
	buffer  *[]byte
	unused  *sync.Pool // of buffers
}

// Seal writes the beginning of a stream, and returns a writer of its content. The additional data must not change before Close.
func (s *StreamSealer) Seal(to io.Writer, additional []byte) (*StreamWriter, error) {
	head := append(make([]byte, 0, StreamHead), streamVersion)
	head = append(head, s.current[:]...)
	random := head[len(head):StreamHead]
	_, _ = rand.Read(random) // never fails
	w := &StreamWriter{
		segmenter: newSegmenter(s.ciphers[s.current], random, additional), to: to,
		buffer: s.segments.Get().(*[]byte), unused: &s.segments,
	}
	w.pending = (*w.buffer)[:0]
	_, err := to.Write(head[:StreamHead])
	return w, err
}

// Write implements io.Writer.
func (w *StreamWriter) Write(p []byte) (n int, err error) {
	for n < len(p) {
		switch {
		case w.endPart:
			err = w.flush(endPart)
		case len(w.pending) == SegmentSize:
			err = w.flush(within)
		}
		if err != nil {
			return n, err
		}
		taken := min(len(p)-n, SegmentSize-len(w.pending))
		w.pending = append(w.pending, p[n:n+taken]...)
		n += taken
	}
	return n, nil
}

// EndPart ends a part, if anything was written since the last one: what follows is in other segments.
func (w *StreamWriter) EndPart() { w.endPart = len(w.pending) > 0 }

// Close seals the last segment, and releases the writer's memory for reuse. It is called once, and nothing can be written afterwards.
func (w *StreamWriter) Close() error {
	defer func() {
		w.unused.Put(w.buffer)
		w.pending, w.buffer = nil, nil
	}()
	return w.flush(last)
}

// flush seals what is pending, in place.
func (w *StreamWriter) flush(kind byte) error {
	w.endPart = false
	sealed := w.aead.Seal(w.pending[:0], w.nonceOf(kind), w.pending, w.additional)
	var frame [frameSize]byte
	binary.LittleEndian.PutUint32(frame[:], uint32(len(sealed)*kinds)+uint32(kind))
	_, frameErr := w.to.Write(frame[:])
	_, err := w.to.Write(sealed)
	w.pending = sealed[:0]
	return cmp.Or(frameErr, err)
}

// A StreamReader reads the content of a stream, or of its first segments. It returns no byte of a segment before it has authenticated all
// of it. After the last segment that it was given, it returns io.EOF if the stream ends there, and io.ErrUnexpectedEOF if not.
type StreamReader struct {
	segmenter
	sealed []byte // not opened yet
	opened []byte // of the current segment, not read yet
	buffer *[]byte
	unused *sync.Pool // of buffers
	err    error      // of the segments that follow
}

// Open returns a reader of a stream, if it was sealed for this purpose with the same additional data, neither of which may change
// while it is read. It opens the first segment. Its errors, and those of the reader except io.EOF and io.ErrUnexpectedEOF, are those of
// Sealer.AppendOpen. The caller closes the reader.
func (s *StreamSealer) Open(stream, additional []byte) (*StreamReader, error) {
	if len(stream) <= StreamHead || stream[0] != streamVersion {
		return nil, ErrNotAuthentic
	}
	id := ID(stream[1:])
	c := s.ciphers[id]
	if c == nil {
		return nil, &UnknownKeyError{id}
	}
	r := &StreamReader{
		segmenter: newSegmenter(c, stream[1+len(id):StreamHead], additional), sealed: stream[StreamHead:],
		buffer: s.segments.Get().(*[]byte), unused: &s.segments,
	}
	if r.advance(); r.err != nil && r.err != io.EOF {
		r.Close()
		return nil, r.err
	}
	return r, nil
}

// Close releases the reader's memory for reuse. Nothing can be read afterwards.
func (r *StreamReader) Close() {
	if r.buffer != nil {
		r.unused.Put(r.buffer)
	}
	r.buffer, r.opened, r.err = nil, nil, cmp.Or(r.err, io.ErrClosedPipe)
}

// Read implements io.Reader.
func (r *StreamReader) Read(p []byte) (int, error) {
	if len(r.opened) == 0 && r.err == nil {
		r.advance()
	}
	if len(r.opened) == 0 {
		return 0, r.err
	}
	n := copy(p, r.opened)
	r.opened = r.opened[n:]
	return n, nil
}

// advance opens the next segment.
func (r *StreamReader) advance() {
	if r.opened = nil; len(r.sealed) == 0 {
		r.err = io.ErrUnexpectedEOF
		return
	}
	segment, kind := r.next()
	opened, err := r.aead.Open((*r.buffer)[:0], r.nonceOf(kind), segment, r.additional)
	switch {
	case err != nil || kind == last && len(r.sealed) > 0:
		r.err = ErrNotAuthentic
		return
	case kind == last:
		r.err = io.EOF
	}
	r.opened = opened
}

// next takes the next segment from what is sealed. A segment that cannot be one is empty, and does not open.
func (r *StreamReader) next() (segment []byte, kind byte) {
	if len(r.sealed) < frameSize {
		return nil, last
	}
	frame := binary.LittleEndian.Uint32(r.sealed)
	size := int(frame / kinds)
	if size > min(len(r.sealed)-frameSize, SegmentSize+tagSize) {
		return nil, last
	}
	segment, r.sealed = r.sealed[frameSize:frameSize+size], r.sealed[frameSize+size:]
	return segment, byte(frame % kinds)
}

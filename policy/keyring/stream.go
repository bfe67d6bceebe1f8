package keyring

import (
	"cmp"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"io"
	"slices"
	"sync"
)

// A stream is a version byte, the id of the key, 19 random bytes, and segments. Each segment is sealed with the same key of
// XAES-256-GCM, which is derived from the first 12 random bytes, and with a nonce of its own: the other 7, the number of the segment
// (32 bits, big-endian), and 1 for the last segment, 0 for the others. This is the STREAM construction: segments that are moved,
// left out, repeated or taken from another stream do not open, nor does a stream that ends early.
const (
	streamVersion = 3
	prefixSize    = 7
	streamNonce   = nonceSize/2 + prefixSize
	streamHead    = 1 + len(ID{}) + streamNonce
	// SegmentSize is how many bytes each segment of a stream holds, but for the last, which may hold fewer.
	SegmentSize = 64 << 10
)

// StreamSealer seals and opens streams of one purpose, for what is too long to be in memory both plain and sealed.
type StreamSealer struct {
	keys
	segments sync.Pool // *[]byte: those of readers that are closed
}

// StreamSealer returns the StreamSealer of a purpose. It derives keys other than those of Sealer: callers keep it.
func (k *Keyring) StreamSealer(purpose string) *StreamSealer {
	return &StreamSealer{
		keys:     k.derive("sara: stream " + purpose),
		segments: sync.Pool{New: func() any { return new(make([]byte, 0, SegmentSize)) }},
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

// next returns the nonce of the next segment.
func (s *segmenter) next(last bool) []byte {
	binary.BigEndian.PutUint32(s.nonce[prefixSize:], s.number)
	s.number++
	s.nonce[len(s.nonce)-1] = 0
	if last {
		s.nonce[len(s.nonce)-1] = 1
	}
	return s.nonce[:]
}

// A StreamWriter seals what is written to it. Close seals the last segment: without it, the stream does not open.
type StreamWriter struct {
	segmenter
	to      io.Writer
	pending []byte // less than a segment, or one that may be the last
}

// Seal writes the beginning of a stream, and returns a writer of its content. The additional data must not change before Close.
func (s *StreamSealer) Seal(to io.Writer, additional []byte) (*StreamWriter, error) {
	head := append(make([]byte, 0, streamHead), streamVersion)
	head = append(head, s.current[:]...)
	random := head[len(head):streamHead]
	_, _ = rand.Read(random) // never fails
	w := &StreamWriter{segmenter: newSegmenter(s.ciphers[s.current], random, additional), to: to}
	_, err := to.Write(head[:streamHead])
	return w, err
}

// Write implements io.Writer.
func (w *StreamWriter) Write(p []byte) (n int, err error) {
	for n < len(p) {
		if len(w.pending) == SegmentSize {
			if err := w.flush(false); err != nil {
				return n, err
			}
		}
		taken := min(len(p)-n, SegmentSize-len(w.pending))
		w.pending = append(w.pending, p[n:n+taken]...)
		n += taken
	}
	return n, nil
}

// Close seals the last segment.
func (w *StreamWriter) Close() error { return w.flush(true) }

// flush seals what is pending, in place.
func (w *StreamWriter) flush(last bool) error {
	w.pending = slices.Grow(w.pending, tagSize)
	sealed := w.aead.Seal(w.pending[:0], w.next(last), w.pending, w.additional)
	_, err := w.to.Write(sealed)
	w.pending = sealed[:0]
	return err
}

// A StreamReader reads the content of a stream. It returns no byte of a segment before it has authenticated all of it.
type StreamReader struct {
	segmenter
	sealed []byte // not opened yet
	opened []byte // of the current segment, not read yet
	buffer *[]byte
	unused *sync.Pool // of buffers
	err    error      // of the segments that follow
}

// Open returns a reader of a stream, if it was sealed for this purpose with the same additional data, neither of which may change
// while it is read. It opens the first segment. Its errors, and those of the reader but io.EOF, are those of Sealer.AppendOpen. The caller
// closes the reader.
func (s *StreamSealer) Open(stream, additional []byte) (*StreamReader, error) {
	if len(stream) < streamHead+tagSize || stream[0] != streamVersion {
		return nil, ErrNotAuthentic
	}
	id := ID(stream[1:])
	c := s.ciphers[id]
	if c == nil {
		return nil, &UnknownKeyError{id}
	}
	r := &StreamReader{
		segmenter: newSegmenter(c, stream[1+len(id):streamHead], additional), sealed: stream[streamHead:],
		buffer: s.segments.Get().(*[]byte), unused: &s.segments,
	}
	if r.advance(); r.err != nil && r.err != io.EOF {
		r.Close()
		return nil, r.err
	}
	return r, nil
}

// Close gives the memory of the reader to others. Nothing can be read afterwards.
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
	segment := r.sealed[:min(len(r.sealed), SegmentSize+tagSize)]
	r.sealed = r.sealed[len(segment):]
	last := len(r.sealed) == 0
	opened, err := r.aead.Open((*r.buffer)[:0], r.next(last), segment, r.additional)
	switch {
	case err != nil:
		r.opened, r.err = nil, ErrNotAuthentic
	case last:
		r.opened, r.err = opened, io.EOF
	default:
		r.opened = opened
	}
}

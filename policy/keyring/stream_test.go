package keyring

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/iotest"
)

// sealStream returns the stream of a content that is written in pieces of a size.
func sealStream(t *testing.T, by *StreamSealer, content []byte, piece int, additional string) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := by.Seal(&out, []byte(additional))
	if err != nil {
		t.Fatal(err)
	}
	for part := range slices.Chunk(content, piece) {
		if n, err := w.Write(part); n != len(part) || err != nil {
			t.Fatalf("wrote %d of %d bytes: %v", n, len(part), err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func openStream(by *StreamSealer, stream []byte, additional string) ([]byte, error) {
	r, err := by.Open(stream, []byte(additional))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func randomBytes(n int) []byte {
	content := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content)
	return content
}

func TestStreamReturnsItsContent(t *testing.T) {
	t.Parallel()
	k := ring(t, key(1))
	sealer := k.StreamSealer("rows")
	for _, size := range []int{0, 1, SegmentSize - 1, SegmentSize, SegmentSize + 1, 2 * SegmentSize, 3*SegmentSize + 5} {
		content := randomBytes(size)
		for _, piece := range []int{1000, SegmentSize, 10 * SegmentSize} {
			stream := sealStream(t, sealer, content, piece, "key")
			segments := max(1, (size+SegmentSize-1)/SegmentSize)
			if want := StreamHead + size + segments*(frameSize+tagSize); len(stream) != want {
				t.Errorf("%d bytes in pieces of %d: the stream has %d bytes, want %d", size, piece, len(stream), want)
			}
			if got, err := openStream(sealer, stream, "key"); err != nil || !bytes.Equal(got, content) {
				t.Errorf("%d bytes in pieces of %d: read %d bytes, %v", size, piece, len(got), err)
			}
		}
	}
	content := randomBytes(SegmentSize + 100)
	r, err := sealer.Open(sealStream(t, sealer, content, 100, ""), nil)
	if err == nil {
		err = iotest.TestReader(r, content)
	}
	if err != nil {
		t.Error(err)
	}
}

// Readers use the memory of closed ones again, and never that of open ones.
func TestClosedReadersLeaveOthersAlone(t *testing.T) {
	t.Parallel()
	sealer := ring(t, key(1)).StreamSealer("rows")
	content := func(n byte) []byte { return bytes.Repeat([]byte{n}, SegmentSize+9) }
	open := func(n byte) *StreamReader {
		r, err := sealer.Open(sealStream(t, sealer, content(n), 1000, ""), nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	kept, begun := open(0), open(1)
	if _, err := io.ReadFull(begun, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // to close twice gives the memory away once
		begun.Close()
		if n, err := begun.Read(make([]byte, 10)); n > 0 || err == nil || err == io.EOF {
			t.Errorf("read %d bytes of a closed reader, %v", n, err)
		}
	}
	for n, r := range []*StreamReader{kept, open(1), open(2), open(3)} {
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, content(byte(n))) {
			t.Errorf("reader %d read %d bytes, %v", n, len(got), err)
		}
		defer r.Close()
	}
}

// Whatever is done to a stream of three segments, no reader gets all of it, nor a byte that was not there.
func TestStreamOpensOnlyUnalteredInItsPlace(t *testing.T) {
	t.Parallel()
	k := ring(t, key(1))
	sealer := k.StreamSealer("rows")
	content := randomBytes(3*SegmentSize - 7)
	stream, other := sealStream(t, sealer, content, 4096, "tenant a"), sealStream(t, sealer, content, 4096, "tenant a")
	const segment = frameSize + SegmentSize + tagSize
	head, first, second, third := stream[:StreamHead], stream[StreamHead:][:segment], stream[StreamHead+segment:][:segment],
		stream[StreamHead+2*segment:]
	wantError := func(want error, what string, by *StreamSealer, stream []byte, additional string) {
		t.Helper()
		r, err := by.Open(stream, []byte(additional))
		var got []byte
		if err == nil {
			got, err = io.ReadAll(r)
		}
		if !errors.Is(err, want) || !bytes.HasPrefix(content, got) {
			t.Errorf("%s: read %d bytes, %v", what, len(got), err)
		}
	}
	refused := func(what string, by *StreamSealer, stream []byte, additional string) {
		t.Helper()
		wantError(ErrNotAuthentic, what, by, stream, additional)
	}
	refused("another place", sealer, stream, "tenant b")
	refused("another purpose", k.StreamSealer("credentials"), stream, "tenant a")
	wantError(io.ErrUnexpectedEOF, "an ended stream", sealer, slices.Concat(head, first, second), "tenant a")
	refused("a segment as the end of a part", sealer, marked(stream, StreamHead, endPart), "tenant a")
	refused("a segment in the middle as the last one", sealer, marked(slices.Concat(head, first, second), StreamHead+segment, last), "tenant a")
	refused("the last one as another", sealer, marked(stream, StreamHead+2*segment, endPart), "tenant a")
	refused("a cut segment", sealer, stream[:len(stream)-1], "tenant a")
	refused("something after it", sealer, append(slices.Clone(stream), 0), "tenant a")
	refused("other order", sealer, slices.Concat(head, second, first, third), "tenant a")
	refused("a repeated segment", sealer, slices.Concat(head, first, first, second, third), "tenant a")
	refused("a left out segment", sealer, slices.Concat(head, first, third), "tenant a")
	refused("a segment of another stream", sealer, slices.Concat(head, first, other[StreamHead+segment:]), "tenant a")
	refused("nothing", sealer, nil, "tenant a")
	refused("an envelope", sealer, k.Sealer("rows").AppendSeal(nil, content, []byte("tenant a")), "tenant a")
	for _, at := range []int{0, 5, StreamHead - 1, StreamHead, StreamHead + segment, len(stream) - 1} {
		changed := slices.Clone(stream)
		changed[at] ^= 1
		refused("a changed byte", sealer, changed, "tenant a")
	}
	for n := range StreamHead + frameSize + tagSize {
		refused("a short stream", sealer, stream[:n], "tenant a")
	}
}

// marked returns a stream with another kind in a frame.
func marked(stream []byte, frame int, kind byte) []byte {
	stream = slices.Clone(stream)
	stream[frame] = stream[frame]&^(kinds-1) | kind
	return stream
}

// The frames tell where parts end, so that they are read without the rest.
func TestPartsOfAStreamAreReadWithoutTheRest(t *testing.T) {
	t.Parallel()
	sealer := ring(t, key(1)).StreamSealer("rows")
	parts := [][]byte{randomBytes(100), randomBytes(2*SegmentSize + 1), randomBytes(SegmentSize), randomBytes(3)}
	var out bytes.Buffer
	w, err := sealer.Seal(&out, nil)
	w.EndPart() // of nothing
	for _, part := range parts {
		if err == nil {
			_, err = w.Write(part)
		}
		w.EndPart()
		w.EndPart()
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	stream, at := out.Bytes(), StreamHead
	for n := range parts {
		kind := byte(within)
		for kind == within {
			frame := binary.LittleEndian.Uint32(stream[at:])
			at, kind = at+frameSize+int(frame/kinds), byte(frame%kinds)
		}
		wantKind, wantErr := byte(endPart), io.ErrUnexpectedEOF
		if n == len(parts)-1 {
			wantKind, wantErr = last, nil
		}
		got, err := openStream(sealer, stream[:at], "")
		if kind != wantKind || !errors.Is(err, wantErr) || !bytes.Equal(got, slices.Concat(parts[:n+1]...)) {
			t.Errorf("%d parts: kind %d, %d bytes, %v", n+1, kind, len(got), err)
		}
	}
	if at != len(stream) {
		t.Errorf("the last segment ends at %d of %d", at, len(stream))
	}
}

func TestPreviousKeyOpensStreams(t *testing.T) {
	t.Parallel()
	before, after := ring(t, key(1)), ring(t, key(2), key(1))
	old := sealStream(t, before.StreamSealer("rows"), []byte("rows"), 1, "key")
	if got, err := openStream(after.StreamSealer("rows"), old, "key"); err != nil || string(got) != "rows" {
		t.Errorf("a previous key opens %q, %v", got, err)
	}
	unknown := (*UnknownKeyError)(nil)
	young := sealStream(t, after.StreamSealer("rows"), []byte("rows"), 1, "key")
	if _, err := openStream(before.StreamSealer("rows"), young, "key"); !errors.As(err, &unknown) || unknown.Key != after.Current() {
		t.Errorf("opening without the key: %v", err)
	}
}

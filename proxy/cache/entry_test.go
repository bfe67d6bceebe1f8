package cache

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"

	"sara/policy/keyring"
	"sara/proxy/cpubound"
	"sara/translate"
)

var update = flag.Bool("update", false, "rewrite the copy in testdata")

func newToken() string { return time.Now().Format(time.RFC3339Nano) }

func newTestCodec(tb testing.TB, maxBytes int64) *codec {
	tb.Helper()
	c := newCodec(maxBytes, cpubound.New(), ringOf(tb, 1))
	tb.Cleanup(c.close)
	return c
}

// encoded returns the value of an entry of three rows.
func encoded(tb testing.TB, key string, filled time.Time) []byte {
	tb.Helper()
	return encodedWith(tb, ringOf(tb, 1), key, filled)
}

func encodedWith(tb testing.TB, keys *keyring.Keyring, key string, filled time.Time) []byte {
	tb.Helper()
	c := newCodec(maxPayload, cpubound.New(), keys)
	defer c.close()
	return c.encode(&Entry{key: key, rows: rowsOf(tb, 3), filled: filled, requestHash: 1, id: 2})
}

// sealedValue returns a value with a content that is sealed for a key.
func sealedValue(tb testing.TB, c *codec, key string, content []byte) []byte {
	tb.Helper()
	out := bytes.NewBufferString(magic)
	out.WriteByte(version)
	w, err := c.sealer.Seal(out, additional(key))
	if err == nil {
		_, err = w.Write(content)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func TestEntriesOfAnySizeRoundTrip(t *testing.T) {
	c := newTestCodec(t, maxPayload)
	filled := newClock().Now()
	for _, n := range []int{0, 1, 1001, 25_000} {
		in := &Entry{key: "key", rows: rowsOf(t, n), filled: filled, requestHash: 3, id: 4}
		s, err := c.open(c.encode(in), string(additional("key")), filled)
		if err != nil {
			t.Fatalf("%d rows: %v", n, err)
		}
		out, err := c.decode(t.Context(), s, 0)
		if err != nil || out.id != 4 || out.requestHash != 3 || !out.filled.Equal(filled) || out.key != "key" {
			t.Errorf("%d rows: %+v, %v", n, out, err)
		} else if !sameRows(t, out.rows, in.rows) {
			t.Errorf("%d rows differ after a round trip", n)
		}
	}
}

// testdata/copy-8 is a copy that another program of this version wrote: replicas of both share copies while an update rolls out. If the format
// changes, version has to, and the file with it.
func TestCopiesOfAVersionHaveOneFormat(t *testing.T) {
	name := fmt.Sprintf("testdata/copy-%d", version)
	c, rows, filled := newTestCodec(t, maxPayload), rowsOf(t, 150), newClock().Now()
	if *update {
		value := c.encode(&Entry{key: "key", rows: rows, filled: filled, requestHash: 3, id: 4})
		if err := os.WriteFile(name, value, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	value, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	open := func() encodedEntry {
		opened, err := c.open(value, string(additional("key")), filled)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(opened.payload.Close)
		return opened
	}
	stored := open()
	if h := stored.headers; h.id != 4 || h.requestHash != 3 || !h.filled.Equal(filled) {
		t.Errorf("the headers are %+v", h)
	}
	got, err := io.ReadAll(s2.NewReader(stored.payload))
	var want bytes.Buffer
	encoding := bufio.NewWriter(&want)
	if err = errors.Join(err, rows.Encode(encoding), encoding.Flush()); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("the rows are %q, %v, and encoded now %q", got, err, want.Bytes())
	}
	for _, first := range []int{0, 10} {
		if e, err := c.decode(t.Context(), open(), first); err != nil || !bytes.Equal(e.rows.Key(9), rows.Key(9)) {
			t.Errorf("the first %d rows: %v", first, err)
		}
	}
}

// Replicas that share copies share the events of fills, too.
func TestEventsHaveOneFormat(t *testing.T) {
	if got := string(fillEvent{kind: fillFailed, failure: []byte("sealed")}.encode("key")); got != "e\x03keysealed" {
		t.Errorf("encoded as %q: a change needs another version", got)
	}
}

// sameRows compares rows by their encoding.
func sameRows(t *testing.T, a, b *translate.Rows) bool {
	t.Helper()
	var ofA, ofB bytes.Buffer
	toA, toB := bufio.NewWriter(&ofA), bufio.NewWriter(&ofB)
	if err := errors.Join(a.Encode(toA), b.Encode(toB)); err != nil {
		t.Fatal(err)
	}
	return bytes.Equal(ofA.Bytes(), ofB.Bytes())
}

func TestDecompressionIsBounded(t *testing.T) {
	const most = 1 << 20
	var bomb bytes.Buffer
	writer := s2.NewWriter(&bomb, s2.WriterBlockSize(blockSize))
	if _, err := writer.Write(make([]byte, most+1)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	c := newTestCodec(t, most)
	if _, err := c.rows(&bomb, 0); err == nil {
		t.Errorf("%d bytes were decompressed to more than %d", bomb.Len(), most)
	}
}

// Even a value sealed by a replica of another version may be anything.
func FuzzOpen(f *testing.F) {
	now := newClock().Now()
	good := encoded(f, "key", now)
	c := newTestCodec(f, maxPayload)
	content := make([]byte, headerSize, 1024)
	if s, err := c.open(good, string(additional("key")), now); err == nil {
		rows, err := io.ReadAll(s.payload)
		if err != nil {
			f.Fatal(err)
		}
		content = append(content, rows...)
	}
	for _, value := range [][]byte{nil, good, good[:len(good)/2], []byte(magic), append([]byte(magic), version), content, content[:len(content)-1]} {
		f.Add(value, false)
		f.Add(value, true)
	}
	f.Fuzz(func(t *testing.T, value []byte, seal bool) {
		if seal {
			value = sealedValue(t, c, "key", value)
		}
		s, err := c.open(value, string(additional("key")), now)
		if err != nil {
			return
		}
		entry, err := c.decode(t.Context(), s, 0)
		if err != nil {
			return
		}
		again, err := c.open(c.encode(entry), string(additional("key")), now)
		if err != nil {
			t.Fatalf("a decoded entry does not round-trip: %v", err)
		}
		if _, err = c.decode(t.Context(), again, 0); err != nil || again.headers.id != entry.id {
			t.Errorf("a decoded entry does not round-trip: %v", err)
		}
	})
}

func FuzzParseFillEvent(f *testing.F) {
	for _, n := range []fillEvent{{kind: fillDone}, {kind: fillReleased}, {kind: fillFailed, failure: []byte("down")}} {
		f.Add(string(n.encode("sara:c:{p}:0")))
	}
	f.Add("")
	f.Add("f\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
	f.Add("f\x03ab") // a key of three bytes, of which two are there
	f.Fuzz(func(t *testing.T, data string) {
		key, n, ok := parseFillEvent(data)
		if !ok {
			return
		}
		if again, event, ok := parseFillEvent(string(n.encode(key))); !ok || again != key || event.kind != n.kind ||
			!bytes.Equal(event.failure, n.failure) {
			t.Errorf("%q is %q, %+v, then %q, %+v", data, key, n, again, event)
		}
	})
}

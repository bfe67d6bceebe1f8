package cache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"

	"sara/proxy/cpubound"
	"sara/translate"
)

func newToken() string { return time.Now().Format(time.RFC3339Nano) }

func encodedBy(tb testing.TB, key string, filled time.Time) ([]byte, error) {
	tb.Helper()
	c := newCodec(maxPayload, cpubound.New())
	defer c.close()
	return c.encode(&Entry{key: key, rows: rowsOf(tb, 3), filled: filled, requestHash: 1, id: 2}), nil
}

func encoded(tb testing.TB, key string, filled time.Time) []byte {
	tb.Helper()
	value, err := encodedBy(tb, key, filled)
	if err != nil {
		tb.Fatal(err)
	}
	return value
}

// withValidSum returns a value with a valid checksum.
func withValidSum(value []byte) []byte {
	body := value[:max(0, len(value)-sumSize)]
	return binary.LittleEndian.AppendUint64(bytes.Clone(body), xxhash.Sum64(body))
}

func TestEntriesOfAnySizeRoundTrip(t *testing.T) {
	c := newCodec(maxPayload, cpubound.New())
	defer c.close()
	filled := newClock().Now()
	for _, n := range []int{0, 1, 1001} {
		in := &Entry{key: "key", rows: rowsOf(t, n), filled: filled, requestHash: 3, id: 4}
		s, err := parseHeaders(c.encode(in), "key", filled)
		if err != nil {
			t.Fatalf("%d rows: %v", n, err)
		}
		out, err := c.decode(s)
		if err != nil || out.id != 4 || out.requestHash != 3 || !out.filled.Equal(filled) || out.key != "key" {
			t.Errorf("%d rows: %+v, %v", n, out, err)
		} else if !sameRows(t, out.rows, in.rows) {
			t.Errorf("%d rows differ after a round trip", n)
		}
	}
}

// sameRows compares rows by their encoding.
func sameRows(t *testing.T, a, b *translate.Rows) bool {
	t.Helper()
	var ofA, ofB bytes.Buffer
	if err := errors.Join(a.Encode(&ofA), b.Encode(&ofB)); err != nil {
		t.Fatal(err)
	}
	return bytes.Equal(ofA.Bytes(), ofB.Bytes())
}

func TestDecompressionIsBounded(t *testing.T) {
	writer, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	const most = 1 << 20
	bomb := writer.EncodeAll(make([]byte, most+1), nil)
	c := newCodec(most, cpubound.New())
	defer c.close()
	if _, err := c.decode(&encodedEntry{payload: bomb}); err == nil {
		t.Errorf("%d bytes were decompressed to more than %d", len(bomb), most)
	}
}

func FuzzParseHeaders(f *testing.F) {
	now := newClock().Now()
	good := encoded(f, "key", now)
	for _, value := range [][]byte{nil, good, good[:len(good)/2], []byte(magic), append([]byte(magic), version)} {
		f.Add(value, false)
		f.Add(value, true)
	}
	c := newCodec(maxPayload, cpubound.New())
	f.Fuzz(func(t *testing.T, value []byte, seal bool) {
		if seal {
			value = withValidSum(value)
		}
		s, err := parseHeaders(value, "key", now)
		if err != nil {
			return
		}
		entry, err := c.decode(s)
		if err != nil {
			return
		}
		again, err := parseHeaders(c.encode(entry), "key", now)
		if err != nil {
			t.Fatalf("a decoded entry does not round-trip: %v", err)
		}
		if _, err = c.decode(again); err != nil || again.headers.id != entry.id {
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
	f.Fuzz(func(t *testing.T, data string) {
		key, n, ok := parseFillEvent(data)
		if !ok {
			return
		}
		if again, event, ok := parseFillEvent(string(n.encode(key))); !ok || again != key || event.kind != n.kind || !bytes.Equal(event.failure, n.failure) {
			t.Errorf("%q is %q, %+v, then %q, %+v", data, key, n, again, event)
		}
	})
}

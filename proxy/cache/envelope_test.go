package cache

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"
)

func newToken() string { return time.Now().Format(time.RFC3339Nano) }

func encodedBy(tb testing.TB, key string, filled time.Time) ([]byte, error) {
	tb.Helper()
	c, err := newCodec(maxPayload)
	if err != nil {
		return nil, err
	}
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

// sealAgain makes the checksum of a value right.
func sealAgain(value []byte) []byte {
	body := value[:max(0, len(value)-sumSize)]
	return binary.LittleEndian.AppendUint64(bytes.Clone(body), xxhash.Sum64(body))
}

func TestValuesOfAnySizeComeBack(t *testing.T) {
	c, err := newCodec(maxPayload)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	filled := newClock().Now()
	for _, n := range []int{0, 1, 1001} {
		in := &Entry{key: "key", rows: rowsOf(t, n), filled: filled, requestHash: 3, id: 4}
		s, err := open(c.encode(in), "key", filled)
		if err != nil {
			t.Fatalf("%d rows: %v", n, err)
		}
		out, err := c.unpack(s)
		if err != nil || out.id != 4 || out.requestHash != 3 || !out.filled.Equal(filled) || out.key != "key" {
			t.Errorf("%d rows: %+v, %v", n, out, err)
		} else if !bytes.Equal(out.rows.AppendBinary(nil), in.rows.AppendBinary(nil)) {
			t.Errorf("%d rows came back as others", n)
		}
	}
}

func TestAPayloadIsNotDecompressedPastItsBound(t *testing.T) {
	writer, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	const most = 1 << 20
	bomb := writer.EncodeAll(make([]byte, most+1), nil)
	c, err := newCodec(most)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if _, err := c.unpack(&sealed{payload: bomb}); err == nil {
		t.Errorf("%d bytes became more than %d", len(bomb), most)
	}
}

func FuzzOpen(f *testing.F) {
	now := newClock().Now()
	good := encoded(f, "key", now)
	for _, value := range [][]byte{nil, good, good[:len(good)/2], []byte(magic), append([]byte(magic), version)} {
		f.Add(value, false)
		f.Add(value, true)
	}
	c, err := newCodec(maxPayload)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, value []byte, seal bool) {
		if seal {
			value = sealAgain(value)
		}
		s, err := open(value, "key", now)
		if err != nil {
			return
		}
		entry, err := c.unpack(s)
		if err != nil {
			return
		}
		again, err := open(c.encode(entry), "key", now)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if _, err = c.unpack(again); err != nil || again.entry.id != entry.id {
			t.Errorf("what was read cannot be written: %v", err)
		}
	})
}

func FuzzParseNotice(f *testing.F) {
	for _, n := range []notice{{kind: noticeFilled}, {kind: noticeReleased}, {kind: noticeFailed, failure: []byte("down")}} {
		f.Add(string(n.encode("sara:c:{p}:0")))
	}
	f.Add("")
	f.Add("f\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
	f.Fuzz(func(t *testing.T, data string) {
		key, n, ok := parseNotice(data)
		if !ok {
			return
		}
		if again, told, ok := parseNotice(string(n.encode(key))); !ok || again != key || told.kind != n.kind || !bytes.Equal(told.failure, n.failure) {
			t.Errorf("%q is %q, %+v, then %q, %+v", data, key, n, again, told)
		}
	})
}

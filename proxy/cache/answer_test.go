package cache

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
)

func unzip(t *testing.T, member []byte) []byte {
	t.Helper()
	reader, err := gzip.NewReader(bytes.NewReader(member))
	if err != nil {
		t.Fatal(err)
	}
	reader.Multistream(false)
	data, err := io.ReadAll(reader) // checks the checksum and the size
	if err != nil {
		t.Fatalf("read %d bytes, then: %v", len(data), err)
	}
	return data
}

func checkAnswer(t *testing.T, head, tail []byte) {
	t.Helper()
	a := NewAnswer(bytes.Clone(head), time.Time{})
	whole := append(bytes.Clone(head), tail...)
	if !bytes.Equal(a.Head(), head) {
		t.Errorf("the head of %d bytes has changed", len(head))
	}
	for range 2 {
		end := a.AppendPacked([]byte("kept"), tail)
		if string(end[:4]) != "kept" || !bytes.Equal(unzip(t, append(bytes.Clone(a.Packed()), end[4:]...)), whole) {
			t.Errorf("a head of %d bytes and a tail of %d decompress to something else", len(head), len(tail))
		}
	}
}

func TestPackedAnswerDecompressesToHeadAndTail(t *testing.T) {
	long := []byte(strings.Repeat(`{"query":"best shoes","clicks":12},`, 10_000))
	for _, head := range [][]byte{nil, []byte("{"), long} {
		for _, tail := range [][]byte{nil, []byte("}"), long[:65_535], long[:65_536], long[:200_000]} {
			checkAnswer(t, head, tail)
		}
	}
	if a := NewAnswer(long, time.Time{}); len(a.Packed()) > len(long)/10 {
		t.Error("the head is not compressed")
	}
}

func FuzzAppendPacked(f *testing.F) {
	f.Add([]byte(`{"data":[`), []byte(`],"request_id":"1"}`))
	f.Add([]byte{}, []byte{})
	f.Fuzz(checkAnswer)
}

func TestAnswerIsPackedConcurrently(t *testing.T) {
	a := NewAnswer([]byte("head"), time.Time{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if end := a.AppendPacked(nil, []byte("tail")); string(unzip(t, append(bytes.Clone(a.Packed()), end...))) != "headtail" {
				t.Error("it decompresses to something else")
			}
		})
	}
	all.Wait()
}

func TestETagDependsOnHead(t *testing.T) {
	a, same, other := NewAnswer([]byte("head"), time.Time{}), NewAnswer([]byte("head"), time.Time{}), NewAnswer([]byte("heae"), time.Time{})
	if a.ETag() != same.ETag() || a.ETag() == other.ETag() || !strings.HasPrefix(a.ETag(), `W/"`) || !strings.HasSuffix(a.ETag(), `"`) {
		t.Errorf("tags %s, %s, %s", a.ETag(), same.ETag(), other.ETag())
	}
}

func TestAnswerIsMissedOnceASourceIsRefilled(t *testing.T) {
	clock, upstream := newClock(), answering(rowsOf(t, 3))
	c := newReplica(t, nil, clock)
	one := c.do(t, upstream.request("p", narrow("a")), Filled)
	clock.advance(time.Minute)
	second := upstream.request("p", narrow("b"))
	two := c.do(t, second, Filled)
	a := NewAnswer([]byte("head"), time.Time{}, two.Entry, one.Entry)
	for _, of := range [][]*Entry{{two.Entry, one.Entry}, {one.Entry, two.Entry}, {one.Entry}} {
		if b := NewAnswer([]byte("head"), time.Time{}, of...); !b.Filled().Equal(one.Entry.Filled()) || !b.IsOf(of) {
			t.Errorf("filled %v, want the time of the oldest source", b.Filled())
		}
	}
	for _, others := range [][]*Entry{nil, {two.Entry}, {one.Entry, two.Entry}, {two.Entry, two.Entry}, {two.Entry, {key: one.Entry.key}}} {
		if a.IsOf(others) {
			t.Errorf("it is of %v", others)
		}
	}
	key := []byte("key")
	c.Keep(key, "account", a)
	key[0]++
	if c.Answer(key) != nil {
		t.Error("hit an answer under another key")
	}
	key[0]--
	for range 2 {
		if c.Answer(key) != a {
			t.Fatal("the answer was missed")
		}
	}
	if n := c.metric(t, "lookups_total", "memory"); n != 2 {
		t.Errorf("counted %v hits", n)
	}
	c.memory.evict(memoryKey{text: one.Entry.key})
	if c.Answer(key) != a {
		t.Error("an answer was missed because its rows were evicted")
	}
	second.Bypass = true
	c.do(t, second, Filled)
	if c.Answer(key) != nil {
		t.Error("hit an answer whose source was refilled")
	}
}

func TestAnswerFromThreeSourcesPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("three sources are accepted")
		}
	}()
	e := &Entry{}
	NewAnswer(nil, time.Time{}, e, e, e)
}

func TestAnswerHitAllocatesNothing(t *testing.T) {
	c := newReplica(t, nil, newClock())
	entry := c.do(t, answering(rowsOf(t, 3)).request("p", narrow("a")), Filled).Entry
	key, head := []byte("key"), []byte(strings.Repeat(`{"query":"best shoes","clicks":12},`, 200))
	c.Keep(key, "account", NewAnswer(head, time.Time{}, entry, entry))
	dst, tail := make([]byte, 0, 100), []byte(`"request_id":"0123456789"}`)
	for name, step := range map[string]func(){
		"Head":         func() { c.Answer(key).Head() },
		"Packed":       func() { c.Answer(key).Packed() },
		"AppendPacked": func() { dst = c.Answer(key).AppendPacked(dst[:0], tail) },
	} {
		if n := testing.AllocsPerRun(1000, step); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

package proxy

import (
	"bytes"
	"errors"
	"testing"
	"testing/iotest"
)

// A body read by any method is its head and its tail.
func TestBodyIsHeadAndTail(t *testing.T) {
	for _, test := range []struct{ head, tail string }{{`{"data":[`, `]}`}, {"", "tail"}, {"head", ""}, {"", ""}} {
		b := body{[]byte(test.head), []byte(test.tail)}
		var out bytes.Buffer
		if n, err := b.WriteTo(&out); err != nil || out.String() != test.head+test.tail || n != int64(out.Len()) {
			t.Errorf("%q: it wrote %d bytes, %q: %v", test, n, &out, err)
		}
		if err := iotest.TestReader(&b, []byte(test.head+test.tail)); err != nil {
			t.Errorf("%q: %v", test, err)
		}
	}
}

// full accepts a number of writes, and half of the next one.
type full struct{ writes int }

var errFull = errors.New("full")

func (f *full) Write(p []byte) (int, error) {
	f.writes--
	if f.writes < 0 {
		return len(p) / 2, errFull
	}
	return len(p), nil
}

func TestBodyReportsBytesWritten(t *testing.T) {
	for writes, want := range []int64{2, 4 + 1} {
		b := body{[]byte("head"), []byte("ta")}
		if n, err := b.WriteTo(&full{writes}); n != want || !errors.Is(err, errFull) {
			t.Errorf("after %d writes: %d bytes, %v, want %d", writes, n, err, want)
		}
	}
}

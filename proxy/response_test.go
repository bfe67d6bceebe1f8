package proxy

import (
	"bytes"
	"errors"
	"testing"
	"testing/iotest"
)

// However a body is taken, it is its head and its tail.
func TestABodyIsItsHeadAndItsTail(t *testing.T) {
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

// full takes so many writes, and half of the next one.
type full struct{ writes int }

var errFull = errors.New("full")

func (f *full) Write(p []byte) (int, error) {
	f.writes--
	if f.writes < 0 {
		return len(p) / 2, errFull
	}
	return len(p), nil
}

func TestABodySaysHowFarItGot(t *testing.T) {
	for writes, want := range []int64{2, 4 + 1} {
		b := body{[]byte("head"), []byte("ta")}
		if n, err := b.WriteTo(&full{writes}); n != want || !errors.Is(err, errFull) {
			t.Errorf("after %d writes: %d bytes, %v, want %d", writes, n, err, want)
		}
	}
}

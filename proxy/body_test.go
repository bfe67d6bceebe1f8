package proxy

import (
	"strings"
	"testing"
	"testing/iotest"
)

// A body can be read in any pieces, and WriteTo writes what has not been read.
func TestBodyIsReadOrWritten(t *testing.T) {
	if err := iotest.TestReader(&body{head: []byte("head"), tail: []byte("tail")}, []byte("headtail")); err != nil {
		t.Error(err)
	}
	b, first, rest := &body{head: []byte("head"), tail: []byte("tail")}, make([]byte, 6), &strings.Builder{}
	if n, err := b.Read(first); n != 6 || err != nil || string(first) != "headta" {
		t.Errorf("read %d bytes of %q, %v", n, first, err)
	}
	if n, err := b.WriteTo(rest); n != 2 || err != nil || rest.String() != "il" {
		t.Errorf("wrote %d bytes of %q, %v", n, rest, err)
	}
}

package connections

import (
	"fmt"
	"io"
	"os"
	"testing"
	"time"
)

// Only an earlier deadline is set at once, because setting one is expensive; a later one is when the one in force has expired.
func TestDeadlineIsSetSeldom(t *testing.T) {
	begun := time.Now()
	at := func(seconds time.Duration) time.Time { return begun.Add(seconds * time.Second) }
	var set []time.Time
	var failure error
	d := &lazyDeadline{set: func(t time.Time) error {
		set = append(set, t)
		return failure
	}}
	want := func(when string, times ...time.Time) {
		t.Helper()
		if fmt.Sprint(set) != fmt.Sprint(times) {
			t.Errorf("%s: set to %v, want %v", when, set, times)
		}
		set = nil
	}
	move := func(to time.Time) {
		t.Helper()
		if err := d.moveTo(to); err != nil {
			t.Error(err)
		}
	}
	move(at(5))
	want("first", at(5))
	for _, to := range []time.Time{at(5), at(9), {}, at(6)} {
		move(to)
	}
	want("not earlier")
	move(at(4))
	want("earlier", at(4))
	move(at(8))
	if d.extends(io.ErrUnexpectedEOF) {
		t.Error("a read is retried that did not end because of its deadline")
	}
	want("moved")
	if !d.extends(os.ErrDeadlineExceeded) {
		t.Error("a read is not retried whose deadline was moved")
	}
	want("expired", at(8))
	if d.extends(os.ErrDeadlineExceeded) {
		t.Error("a read is retried after its deadline")
	}
	want("expired again")
	failure = os.ErrClosed
	if err := d.moveTo(at(7)); err != failure {
		t.Errorf("a deadline that cannot be set: %v", err)
	}
	move(at(9))
	if d.extends(os.ErrDeadlineExceeded) {
		t.Error("a read is retried whose deadline cannot be set")
	}
}

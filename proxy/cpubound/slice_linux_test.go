package cpubound

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A slot's holder has short time slices, and its thread has the kernel's own again afterwards.
func TestSlotHasShortTimeSlices(t *testing.T) {
	t.Parallel()
	runtime.LockOSThread() // of the test: the slice is a thread's
	defer runtime.UnlockOSThread()
	slice := func() time.Duration {
		attributes, err := unix.SchedGetAttr(0, 0)
		if err != nil {
			t.Skip("this system does not tell time slices:", err)
		}
		return time.Duration(attributes.Runtime)
	}
	own := slice()
	if own == 0 {
		t.Skip("this kernel has no time slices of threads")
	}
	s := New()
	if err := s.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	held := slice()
	s.Release()
	if held != shortSlice || slice() != own {
		t.Errorf("the slice is %v while the slot is held, and %v after it was %v", held, slice(), own)
	}
}

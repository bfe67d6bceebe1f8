// Package cpubound bounds how many goroutines work on megabytes at a time: parse and compress bodies, and build answers from
// large row sets.
//
// Such work takes a core for tens of milliseconds. If it takes all cores, every hop of a short request (its connection, Redis,
// the response) waits for the kernel's scheduler. Slots leaves half of the cores to short requests and the garbage collector,
// so that one tenant's large reports delay the others little; the large ones wait for each other instead. On Linux, the thread that
// holds a slot has short time slices: a thread that becomes ready on the same core waits a tenth of a millisecond for it, not three.
package cpubound

import (
	"context"
	"fmt"
	"runtime"
)

// Slots is a semaphore, granted first in, first out. It is safe for concurrent use. A nil *Slots bounds nothing.
//
// The holder of a slot must not wait for anything but the processor. It releases the slot to read from a network, so that a
// slow upstream takes no slot. It must release it on the goroutine that acquired it, which keeps its thread in between.
type Slots struct{ taken chan struct{} }

// New returns a slot for every two of the cores that this process may use, at least one.
func New() *Slots {
	cores := min(runtime.NumCPU(), runtime.GOMAXPROCS(0))
	return &Slots{make(chan struct{}, max(1, cores/2))}
}

// Acquire waits for a slot. It fails only if ctx ends first; the error wraps the cause.
func (s *Slots) Acquire(ctx context.Context) error {
	if s == nil {
		return nil
	}
	select {
	case s.taken <- struct{}{}:
	default:
		select {
		case s.taken <- struct{}{}:
		case <-ctx.Done():
			return fmt.Errorf("wait for the processor: %w", context.Cause(ctx))
		}
	}
	runtime.LockOSThread()
	setSlice(shortSlice)
	return nil
}

// Release gives back a slot, and lets short requests run first if this goroutine acquires another at once.
func (s *Slots) Release() {
	if s == nil {
		return
	}
	setSlice(0)
	runtime.UnlockOSThread()
	<-s.taken
	runtime.Gosched()
}

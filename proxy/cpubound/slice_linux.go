package cpubound

import (
	"time"

	"golang.org/x/sys/unix"
)

// shortSlice is the time after which another thread that is ready runs instead of one that works on megabytes. Linux's own is 3 ms.
const shortSlice = 100 * time.Microsecond

// setSlice sets the time slice of this thread, zero for the kernel's own. Linux has it since 6.12, older kernels ignore it.
func setSlice(slice time.Duration) {
	const self = 0
	attributes, err := unix.SchedGetAttr(self, 0)
	if err != nil {
		return // a sandbox forbids it: the slice is the kernel's own
	}
	attributes.Runtime = uint64(slice)
	_ = unix.SchedSetAttr(self, attributes, 0) // likewise
}

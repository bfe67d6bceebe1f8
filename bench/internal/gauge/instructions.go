package gauge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Counter counts what the threads of a process do from when it was made. It is to be closed.
type Counter struct{ descriptors []int }

// CountInstructions counts the instructions that a process of ours retires, the kernel's on its behalf not included. They
// hardly depend on what else the machine does. It is an error where the kernel does not let us or the machine, as many a
// virtual one, has no counters.
func CountInstructions(pid int) (*Counter, error) {
	c, err := count(pid, unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_INSTRUCTIONS)
	if err != nil {
		return nil, fmt.Errorf("count instructions: %w", err)
	}
	return c, nil
}

// count opens an event for each thread there is; those that they start are counted with them.
func count(pid int, kind uint32, event uint64) (*Counter, error) {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, err
	}
	c := new(Counter)
	attributes := unix.PerfEventAttr{Type: kind, Config: event, Bits: unix.PerfBitInherit | unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv}
	attributes.Size = uint32(unsafe.Sizeof(attributes))
	for _, entry := range threads {
		thread, err := strconv.Atoi(entry.Name())
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		descriptor, err := unix.PerfEventOpen(&attributes, thread, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if errors.Is(err, unix.ESRCH) {
			continue // the thread has ended
		}
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.descriptors = append(c.descriptors, descriptor)
	}
	return c, nil
}

// Value is the count so far.
func (c *Counter) Value() (int64, error) {
	total := int64(0)
	for _, descriptor := range c.descriptors {
		var value [8]byte
		if _, err := unix.Read(descriptor, value[:]); err != nil {
			return 0, fmt.Errorf("read a counter: %w", err)
		}
		total += int64(binary.NativeEndian.Uint64(value[:]))
	}
	return total, nil
}

// Close ends the counting.
func (c *Counter) Close() error {
	var failures []error
	for _, descriptor := range c.descriptors {
		failures = append(failures, unix.Close(descriptor))
	}
	return errors.Join(failures...)
}

package main

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// yieldProcessors gives this process, with the abuser and the simulator, the scheduling policy SCHED_IDLE. In production they run
// on other machines. Here they would compete with sara for the processors, and the quiet tenants' latencies would show that
// instead of sara's share. The lowest niceness is not enough: a thread that wakes up waits for the rest of the time slice of a
// thread of any niceness, but never of an idle one. It reports whether it did so, which requires root, because the other
// processes must leave the policy again.
func yieldProcessors() (bool, error) {
	if os.Geteuid() != 0 {
		return false, nil
	}
	// On Linux, the policy belongs to a thread. Threads inherit it from those that start them.
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return false, err
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			return false, err
		}
		if err := unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0); err != nil {
			return false, fmt.Errorf("yield the processors: %w", err)
		}
	}
	return true, nil
}

package main

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// lowest is the niceness that leaves the processors to all other processes.
const lowest = 19

// yieldProcessors gives this process, with the abuser and the simulator, the lowest priority. In production they run on other
// machines. Here they would compete with sara for the processors, and the quiet tenants' latencies would show that instead of
// sara's share. It returns the niceness to add for a process at the usual priority, which takes root; without root it changes
// nothing and returns 0.
func yieldProcessors() (nice int, err error) {
	if os.Geteuid() != 0 {
		return 0, nil
	}
	// On Linux, niceness is a thread's. Threads inherit it from those that start them.
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return 0, err
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			return 0, err
		}
		if err := unix.Setpriority(unix.PRIO_PROCESS, id, lowest); err != nil {
			return 0, fmt.Errorf("lower the priority: %w", err)
		}
	}
	return -lowest, nil
}

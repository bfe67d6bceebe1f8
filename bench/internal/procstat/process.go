package procstat

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Process has the kernel's counters of a process.
type Process struct {
	User     time.Duration
	System   time.Duration
	Resident int64 // bytes, now
}

// CPU returns all of its processor time.
func (p Process) CPU() time.Duration { return p.User + p.System }

func (p Process) since(before Process) Process {
	p.User -= before.User
	p.System -= before.System
	return p
}

// tick is the unit of times in /proc, the same on every Linux platform that Go supports.
const tick = 10 * time.Millisecond

// readProcess reads the counters of a process of any user (proc(5): stat and status).
func readProcess(pid int) (Process, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Process{}, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Process{}, err
	}
	p, err := parseStat(stat)
	if err != nil {
		return Process{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
	}
	p.Resident = kibibytes(status, "VmRSS:")
	return p, nil
}

// PeakResident returns the most bytes that a process has had in memory at once.
func PeakResident(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	return kibibytes(status, "VmHWM:"), nil
}

// parseStat parses the times. Fields are counted after the name, which may contain spaces and parentheses.
func parseStat(stat []byte) (Process, error) {
	const user, system = 11, 12 // fields 14 and 15 of the manual, which also counts the PID and the name
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= system {
		return Process{}, errors.New("too short for the processor times")
	}
	var times [2]time.Duration
	for i, at := range []int{user, system} {
		ticks, err := strconv.ParseInt(fields[at], 10, 64)
		if err != nil {
			return Process{}, err
		}
		times[i] = time.Duration(ticks) * tick
	}
	return Process{User: times[0], System: times[1]}, nil
}

// kibibytes returns the value of a line in bytes, or 0 if there is no such line, as for a process that has just ended.
func kibibytes(status []byte, name string) int64 {
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == name {
			n, _ := strconv.ParseInt(fields[1], 10, 64)
			return n << 10
		}
	}
	return 0
}

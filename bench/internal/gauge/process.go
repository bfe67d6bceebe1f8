package gauge

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Process is what a process used, as the kernel counts it.
type Process struct {
	User     time.Duration `json:"user_ns"`
	System   time.Duration `json:"system_ns"`
	Resident int64         `json:"resident_bytes"`      // now
	Peak     int64         `json:"peak_resident_bytes"` // since it began
}

// CPU is all of its processor time.
func (p Process) CPU() time.Duration { return p.User + p.System }

func (p Process) since(before Process) Process {
	p.User -= before.User
	p.System -= before.System
	return p
}

// tick is the unit of times in /proc, the same on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// ReadProcess reads what a process, of any user, has used so far (proc(5): stat and status).
func ReadProcess(pid int) (Process, error) {
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
	p.Resident, p.Peak = kibibytes(status, "VmRSS:"), kibibytes(status, "VmHWM:")
	return p, nil
}

// parseStat finds the times, which are counted from behind the name: that may have blanks and brackets in it.
func parseStat(stat []byte) (Process, error) {
	const user, system = 11, 12 // fields 14 and 15 by the manual's count, which begins with the process and its name
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= system {
		return Process{}, errors.New("it ends before the processor times")
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

// kibibytes returns a line's number in bytes, or 0 if it is not there, as for a process that has just ended.
func kibibytes(status []byte, name string) int64 {
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == name {
			n, _ := strconv.ParseInt(fields[1], 10, 64)
			return n << 10
		}
	}
	return 0
}

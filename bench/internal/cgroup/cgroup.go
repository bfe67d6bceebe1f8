// Package cgroup bounds the memory of a process with a Linux memory cgroup, version 1 or 2, without swap, as a container's
// limit does: the kernel kills a process of the group that exceeds it.
//
// A group is a folder. Creating it requires the right to create folders in the cgroup file system, which root has outside most
// containers; New reports what is missing. The next New removes groups that an earlier process left behind.
package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// files are the file names of a cgroup version.
type files struct{ limit, swap, peak, events string }

func filesOf(version int) files {
	if version == 1 {
		return files{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control"}
	}
	return files{"memory.max", "memory.swap.max", "memory.peak", "memory.events"}
}

// A Group is a memory cgroup. It belongs to one goroutine.
type Group struct {
	folder string
	files
}

// prefix begins the names of all groups; the PID of the process that created them follows.
const prefix = "sara-bench-"

var created atomic.Int64 // numbers the groups of this process

// New creates a group that bounds its processes to limit bytes together.
func New(limit int64) (*Group, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	failures := []error{errors.New("no memory cgroup can be created")}
	for _, p := range parents(string(mounts), string(own)) {
		sweep(p.folder)
		group, err := p.create(limit)
		if err == nil {
			return group, nil
		}
		failures = append(failures, err)
	}
	return nil, errors.Join(failures...)
}

// A parent is a folder in which a group may be created.
type parent struct {
	folder  string
	version int
}

// parents returns the roots of the mounted hierarchies that may control memory and, in version 2, the surroundings of this
// process's own group, which a container may own.
func parents(mounts, own string) (found []parent) {
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		switch at := fields[1]; {
		case fields[2] == "cgroup" && hasOption(fields[3], "memory"):
			found = append(found, parent{at, 1})
		case fields[2] == "cgroup2":
			found = append(found, parent{at, 2})
			if path := ownPath(own); path != "/" {
				found = append(found, parent{filepath.Join(at, filepath.Dir(path)), 2})
			}
		}
	}
	return found
}

func hasOption(options, option string) bool {
	for o := range strings.SplitSeq(options, ",") {
		if o == option {
			return true
		}
	}
	return false
}

// ownPath returns the group of this process in version 2.
func ownPath(own string) string {
	for line := range strings.Lines(own) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return path
		}
	}
	return "/"
}

func (p parent) create(limit int64) (_ *Group, err error) {
	if p.version == 2 {
		// It fails if the parent has its own processes, or if memory is already enabled.
		_ = write(filepath.Join(p.folder, "cgroup.subtree_control"), "+memory")
	}
	name := fmt.Sprintf("%s%d-%d", prefix, os.Getpid(), created.Add(1))
	g := &Group{filepath.Join(p.folder, name), filesOf(p.version)}
	if err := os.Mkdir(g.folder, 0o755); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Remove())
		}
	}()
	if err := write(g.path(g.limit), strconv.FormatInt(limit, 10)); err != nil {
		return nil, err
	}
	swap := "0"
	if p.version == 1 { // memory and swap together
		swap = strconv.FormatInt(limit, 10)
	}
	if err := write(g.path(g.swap), swap); err != nil && !errors.Is(err, os.ErrNotExist) { // a kernel without swap has no such file
		return nil, err
	}
	return g, nil
}

func (g *Group) path(file string) string { return filepath.Join(g.folder, file) }

// write writes an existing file of the cgroup file system.
func write(path, text string) (err error) {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = file.WriteString(text)
	return err
}

// Procs returns the file that puts a process into the group: the process writes its PID to it.
func (g *Group) Procs() string { return g.path("cgroup.procs") }

// Peak returns the most bytes that the group has used at once: the memory of its processes, their file pages and, where
// the kernel counts it, the kernel's memory for their sockets.
func (g *Group) Peak() (int64, error) {
	text, err := os.ReadFile(g.path(g.peak))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// Kills returns how many processes of the group the kernel has killed because the group exceeded its limit.
func (g *Group) Kills() (int64, error) {
	text, err := os.ReadFile(g.path(g.events))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
			return strconv.ParseInt(strings.TrimSpace(n), 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no line oom_kill", g.path(g.events))
}

// Remove kills the group's processes, if there are any left, and removes it.
func (g *Group) Remove() error {
	text, _ := os.ReadFile(g.Procs())
	for line := range strings.Lines(string(text)) {
		if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return remove(g.folder)
}

// remove removes a group. A process that has just ended is still in it for a moment.
func remove(folder string) (err error) {
	const attempts, pause = 100, 20 * time.Millisecond
	for range attempts {
		if err = syscall.Rmdir(folder); !errors.Is(err, syscall.EBUSY) {
			break
		}
		time.Sleep(pause)
	}
	if err != nil {
		return fmt.Errorf("remove the cgroup %s: %w", folder, err)
	}
	return nil
}

// sweep removes the groups of processes that have ended without removing them. A group that cannot be removed does no harm.
func sweep(folder string) {
	groups, _ := filepath.Glob(filepath.Join(folder, prefix+"*"))
	for _, group := range groups {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(group), prefix), "-")
		if _, err := os.Stat("/proc/" + pid); errors.Is(err, os.ErrNotExist) {
			_ = syscall.Rmdir(group)
		}
	}
}

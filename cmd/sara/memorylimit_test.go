package main

import (
	"math"
	"runtime/debug"
	"testing"

	"sara/cmd/sara/internal/service"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

func TestMemoryLimit(t *testing.T) {
	const gib = 1 << 30
	cgroup := func(limit uint64, err error) memlimit.Provider { return func() (uint64, error) { return limit, err } }
	for _, test := range []struct {
		name     string
		variable string
		runtime  int64 // what the runtime has read from the variable
		cgroup   memlimit.Provider
		want     int64
	}{
		{"a cgroup with a limit", "", math.MaxInt64, cgroup(10*gib, nil), 9 * gib},
		{"a cgroup without a limit", "", math.MaxInt64, cgroup(0, memlimit.ErrNoLimit), 0},
		{"no cgroup", "", math.MaxInt64, cgroup(0, memlimit.ErrNoCgroup), 0},
		{"a limit beyond any memory", "", math.MaxInt64, cgroup(math.MaxUint64, nil), 0},
		{"GOMEMLIMIT wins", "640MiB", 640 << 20, cgroup(10*gib, nil), 640 << 20},
		{"GOMEMLIMIT=off", "off", math.MaxInt64, cgroup(10*gib, nil), 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := debug.SetMemoryLimit(test.runtime)
			defer debug.SetMemoryLimit(before)
			limitMemory(test.variable, test.cgroup)
			if got := service.MemoryLimit(); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
}

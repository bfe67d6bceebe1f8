package main

import (
	"math"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// limitMemory sets Go's memory limit, unless the variable GOMEMLIMIT has set it: to nine tenths of the cgroup's, because the
// kernel kills at the cgroup's limit and also counts what is not of the Go runtime. Without a limit of the cgroup it sets none.
func limitMemory(variable string, cgroup memlimit.Provider) {
	if variable != "" {
		return
	}
	const share = 0.9
	if limit, err := memlimit.ApplyRatio(cgroup, share)(); err == nil && limit < math.MaxInt64 {
		debug.SetMemoryLimit(int64(limit))
	}
}

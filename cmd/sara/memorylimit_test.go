package main

import (
	"log/slog"
	"math"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"sara/proxy"
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
			if got := memoryLimit(); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
}

func TestCacheOfMoreThanHalfOfTheMemoryIsWarnedOf(t *testing.T) {
	for _, test := range []struct {
		limit, cache int64
		want         bool
	}{{640 << 20, 256 << 20, false}, {512 << 20, 256 << 20, false}, {511 << 20, 256 << 20, true}, {0, 1 << 40, false}} {
		var log strings.Builder
		warnOfCacheSize(t.Context(), proxy.Config{MemoryLimit: test.limit, CacheBytes: test.cache, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if warned := strings.Contains(log.String(), "SARA_CACHE_BYTES is more than half"); warned != test.want {
			t.Errorf("%d of %d: %q", test.cache, test.limit, &log)
		}
	}
}

package service

import (
	"math"
	"runtime/debug"
)

// MemoryLimit returns Go's memory limit in bytes, 0 if there is none.
func MemoryLimit() int64 {
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		return limit
	}
	return 0
}

package main

import (
	"runtime"
	"runtime/metrics"
)

// leastHeapGoal is how large the heap may grow before garbage is collected, however little of it is in use. By Go's default it may double:
// a replica with little in its cache uses 15 MiB, and under load would collect garbage two dozen times a second, at up to a tenth of
// its processor time. The default settings of the cache let the heap grow to several times this. Go has no such setting itself
// (golang/go#23044).
const leastHeapGoal = 64 << 20

const (
	defaultGCPercent = 100
	// mostGCPercent makes the smallest heap of the runtime, 4 MiB at 100, as large as the goal.
	mostGCPercent = leastHeapGoal / (4 << 20) * defaultGCPercent
)

// raiseHeapGoal lets the heap grow to leastHeapGoal, or an eighth of the memory limit if that is less, unless the variable GOGC has set
// how much it may grow. Without a limit, it is math.MaxInt64, as the runtime has it.
func raiseHeapGoal(variable string, limit int64, set func(percent int) int) {
	if variable != "" {
		return
	}
	h := &heapGoal{goal: uint64(min(leastHeapGoal, limit/8)), percent: defaultGCPercent, set: set}
	h.afterCollection()
}

// A heapGoal follows the heap from one garbage collection to the next.
type heapGoal struct {
	goal    uint64
	percent int // that was set
	set     func(percent int) int
}

// afterCollection sets how much the heap may grow until the next garbage collection, and comes back after that.
func (h *heapGoal) afterCollection() {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(samples)
	percent := gcPercent(h.goal, samples[0].Value.Uint64(), samples[1].Value.Uint64()+samples[2].Value.Uint64())
	// Each change stops the world for some microseconds: a small one is not worth it.
	if difference := max(percent-h.percent, h.percent-percent); difference > h.percent/8 {
		h.percent = percent
		h.set(percent)
	}
	next := &struct{ _ *byte }{} // the next collection finds that nothing refers to it
	runtime.AddCleanup(next, (*heapGoal).afterCollection, h)
}

// gcPercent returns the GOGC with which the heap may grow to a goal, at least the default. The runtime lets it grow by so many percent of
// what is live in the heap and of the other roots (https://go.dev/doc/gc-guide).
func gcPercent(goal, live, roots uint64) int {
	if live >= goal {
		return defaultGCPercent
	}
	growth := (goal - live) * 100 / max(live+roots, 1)
	return int(min(max(growth, defaultGCPercent), mostGCPercent))
}

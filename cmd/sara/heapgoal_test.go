package main

import (
	"math"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"sara/cmd/sara/internal/clitest"
)

func TestGCPercent(t *testing.T) {
	const mib = 1 << 20
	for _, test := range []struct {
		name              string
		goal, live, roots uint64
		want              int
	}{
		{"nothing in use, as at the start", 64 * mib, 0, 0, mostGCPercent},
		{"little", 64 * mib, mib, mib, mostGCPercent},
		{"a quarter", 64 * mib, 16 * mib, 0, 300},
		{"a quarter, and as much on stacks", 64 * mib, 16 * mib, 16 * mib, 150},
		{"half", 64 * mib, 32 * mib, 0, 100},
		{"more than half", 64 * mib, 40 * mib, 0, 100},
		{"the goal", 64 * mib, 64 * mib, 0, 100},
		{"more than the goal", 64 * mib, 500 * mib, 0, 100},
		{"a goal below the smallest heap of the runtime", mib, 2 * mib, mib, 100},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := gcPercent(test.goal, test.live, test.roots); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
}

func TestHeapGoalFollowsTheHeap(t *testing.T) {
	set := make(chan int, 100)
	raiseHeapGoal("", math.MaxInt64, func(percent int) int { set <- percent; return 0 })
	if first := <-set; first <= defaultGCPercent {
		t.Errorf("the heap may grow by %d percent at first", first)
	}
	inUse := make([]byte, 2*leastHeapGoal)
	for percent := 0; percent != defaultGCPercent; {
		select {
		case percent = <-set:
		case <-t.Context().Done():
			t.Fatal("not the default, though much is in use")
		default:
			runtime.GC()
		}
	}
	runtime.KeepAlive(inUse)
	raiseHeapGoal("50", math.MaxInt64, func(percent int) int { t.Errorf("%d is set though GOGC is", percent); return 0 })
	raiseHeapGoal("", leastHeapGoal/16, func(percent int) int { t.Errorf("%d is set though the memory limit is small", percent); return 0 })
}

// testHeapGoal reads the goal of new processes, whose heaps are small.
func testHeapGoal(t *testing.T, binary string) {
	for gogc, large := range map[string]bool{"GOGC=": true, "GOGC=100": false} {
		_, _, admin := serving(t, binary, []string{gogc})
		metrics := clitest.WantStatus(t, http.StatusOK, admin+"/metrics", "").Body
		_, value, _ := strings.Cut(metrics, "\ngo_memstats_next_gc_bytes ")
		value, _, _ = strings.Cut(value, "\n")
		goal, err := strconv.ParseFloat(value, 64)
		if err != nil || (goal >= leastHeapGoal) != large {
			t.Errorf("%s: the heap may grow to %q bytes, %v", gogc, value, err)
		}
	}
}

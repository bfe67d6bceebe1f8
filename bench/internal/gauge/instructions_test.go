package gauge

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel's own clock of the threads can be counted on machines without counters, too.
func TestCounterCountsAllThreads(t *testing.T) {
	c, err := count(os.Getpid(), unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_TASK_CLOCK)
	if err != nil {
		t.Skip("the kernel does not let us count: ", err)
	}
	before, err := ReadProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const busy = 100 * time.Millisecond
	done := make(chan uint64)
	for range 2 {
		go func() { done <- burn(t, before.CPU()+busy) }()
	}
	if <-done+<-done == 0 {
		t.Error("nothing was done")
	}
	value, err := c.Value()
	if counted := time.Duration(value); err != nil || counted < busy/2 || counted > 100*busy {
		t.Errorf("%v of processor time in %v (%v)", counted, busy, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Value(); err == nil {
		t.Error("a counter that is closed counts")
	}
}

// burn works until this process has used so much processor time.
func burn(t *testing.T, until time.Duration) (sum uint64) {
	for {
		p, err := ReadProcess(os.Getpid())
		if err != nil {
			t.Error(err)
		}
		if err != nil || p.CPU() >= until {
			return sum
		}
		for range 100_000 {
			sum += rand.Uint64()
		}
	}
}

func TestInstructionsGrowWithTheWork(t *testing.T) {
	c, err := CountInstructions(os.Getpid())
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = c.Close() }()
	work := func(times int) int64 {
		before, err := c.Value()
		if err != nil {
			t.Fatal(err)
		}
		sum := uint64(0)
		for range times {
			sum += rand.Uint64()
		}
		after, err := c.Value()
		if err != nil || sum == 0 {
			t.Fatal(err)
		}
		return after - before
	}
	if few, many := work(1e5), work(1e6); many < 5*few {
		t.Errorf("%d instructions for some work, %d for ten times as much", few, many)
	}
}

func TestCounterOfNobody(t *testing.T) {
	if _, err := CountInstructions(1 << 30); err == nil {
		t.Error("a process that is not there is counted")
	}
}

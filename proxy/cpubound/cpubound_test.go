package cpubound

import (
	"context"
	"errors"
	"runtime"
	"testing"
)

func TestSlotsBoundWork(t *testing.T) {
	t.Parallel()
	s := New()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	taken := 0
	for s.Acquire(cancelled) == nil {
		taken++
	}
	if most := max(1, runtime.NumCPU()/2); taken < 1 || taken > most {
		t.Errorf("%d slots are taken, of %d at most", taken, most)
	}
	if err := s.Acquire(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("a slot too many: %v", err)
	}
	waiting := make(chan error)
	go func() { waiting <- s.Acquire(t.Context()) }()
	s.Release()
	if err := <-waiting; err != nil {
		t.Error(err)
	}
}

func TestNilSlotsBoundNothing(t *testing.T) {
	t.Parallel()
	var s *Slots
	for range 100 {
		if err := s.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s.Release()
}

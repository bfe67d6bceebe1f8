package bucket

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A faultyBucket is a bucket whose operations fail, or hang, as a test says.
type faultyBucket struct {
	Bucket
	mu    sync.Mutex // guards the following fields
	fault func(context.Context) error
	tried int
}

func (b *faultyBucket) set(fault func(context.Context) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fault = fault
}

func (b *faultyBucket) Get(ctx context.Context, name string) ([]byte, string, error) {
	b.mu.Lock()
	b.tried++
	fault := b.fault
	b.mu.Unlock()
	if fault != nil {
		return nil, "", fault(ctx)
	}
	return []byte(name), "1", nil
}

func (b *faultyBucket) List(ctx context.Context, _ string) ([]Entry, error) {
	_, _, err := b.Get(ctx, "")
	return nil, err
}

func (b *faultyBucket) Put(ctx context.Context, name string, _ []byte, _ string) (string, error) {
	_, revision, err := b.Get(ctx, name)
	return revision, err
}

func (b *faultyBucket) Delete(ctx context.Context, name, _ string) error {
	_, _, err := b.Get(ctx, name)
	return err
}

func watched(t *testing.T, b Bucket) (*Watched, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	w, err := NewWatched(b, WatchConfig{Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	return w, registry
}

func TestBreakerStopsAskingAStoreThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("503 Slow Down")
		b := &faultyBucket{fault: func(context.Context) error { return broken }}
		w, registry := watched(t, b)
		get := func() error {
			_, _, err := w.Get(t.Context(), "a")
			return err
		}
		for range failuresToOpen {
			if w.Away() != "" {
				t.Fatal("it is open too early")
			}
			if err := get(); !errors.Is(err, broken) {
				t.Fatal(err)
			}
		}
		for range 5 {
			if err := get(); !errors.Is(err, errUnavailable) {
				t.Error(err)
			}
		}
		if b.tried != failuresToOpen || w.Away() != broken.Error() {
			t.Errorf("tried %d times, away: %q", b.tried, w.Away())
		}
		time.Sleep(probePause)
		for range 5 {
			_ = get() // the first is the probe
		}
		if b.tried != failuresToOpen+1 {
			t.Errorf("%d probes", b.tried-failuresToOpen)
		}
		b.set(nil)
		time.Sleep(probePause)
		if err := get(); err != nil || w.Away() != "" {
			t.Errorf("after the store recovered: %v, away: %q", err, w.Away())
		}
		for outcome, want := range map[string]float64{outcomeError: 4, outcomeOK: 1, outcomeRefused: 9} {
			if got := counted(t, registry, "get", outcome); got != want {
				t.Errorf("%v operations with outcome %s, want %v", got, outcome, want)
			}
		}
	})
}

// counted returns how many operations ended with an outcome.
func counted(t *testing.T, registry *prometheus.Registry, operation, outcome string) (n float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := metric.GetLabel() // ordered by name
			if family.GetName() == "sara_object_store_operations_total" && labels[0].GetValue() == operation && labels[1].GetValue() == outcome {
				n += metric.GetCounter().GetValue()
			}
		}
	}
	return n
}

// Reads continue while writes fail, as on a full disk. A failed write does not count as the probe of a store whose reads failed.
func TestFailedWritesDoNotOpenTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &faultyBucket{}
		w, _ := watched(t, b)
		full := func(context.Context) error { return syscall.ENOSPC }
		write := func() {
			t.Helper()
			b.set(full)
			defer b.set(nil)
			if _, err := w.Put(t.Context(), "a", nil, ""); !errors.Is(err, syscall.ENOSPC) {
				t.Error(err)
			}
			if err := w.Delete(t.Context(), "a", "1"); !errors.Is(err, syscall.ENOSPC) {
				t.Error(err)
			}
		}
		for range failuresToOpen {
			write()
		}
		if _, _, err := w.Get(t.Context(), "a"); err != nil || w.Away() != "" {
			t.Errorf("after failed writes: %v, away: %q", err, w.Away())
		}
		b.set(func(context.Context) error { return errors.New("connection refused") })
		for range failuresToOpen {
			_, _, _ = w.Get(t.Context(), "a")
		}
		time.Sleep(probePause)
		write()
		if _, _, err := w.Get(t.Context(), "a"); err != nil || w.Away() != "" {
			t.Errorf("after the store recovered: %v, away: %q", err, w.Away())
		}
	})
}

// A frozen store delays each operation by at most the timeout. Canceled calls and missing objects do not count as failures.
func TestBreakerCountsTimeoutsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &faultyBucket{fault: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		w, _ := watched(t, b)
		for range 2 * failuresToOpen {
			hurried, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, _, err := w.Get(hurried, "a"); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			cancel()
		}
		if w.Away() != "" {
			t.Error("callers that left opened the breaker")
		}
		for _, call := range []struct {
			limit time.Duration
			run   func() error
		}{
			{30 * time.Second, func() error { _, err := w.Put(t.Context(), "a", nil, ""); return err }},
			{30 * time.Second, func() error { return w.Delete(t.Context(), "a", "1") }},
			{5 * time.Second, func() error { _, _, err := w.Get(t.Context(), "a"); return err }},
			{5 * time.Second, func() error { _, err := w.List(t.Context(), "a"); return err }},
			{5 * time.Second, func() error { _, _, err := w.Get(t.Context(), "a"); return err }},
		} {
			begun := time.Now()
			if err := call.run(); err == nil || time.Since(begun) != call.limit {
				t.Errorf("%v after %v, want %v", err, time.Since(begun), call.limit)
			}
		}
		if !strings.Contains(w.Away(), "does not answer within 5s") {
			t.Errorf("away: %q", w.Away())
		}
		time.Sleep(probePause)
		left, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, _, err := w.Get(left, "a"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		// The probe's caller has left: the next call is the probe, without another pause.
		b.set(func(context.Context) error { return ErrNotFound })
		if _, _, err := w.Get(t.Context(), "a"); !errors.Is(err, ErrNotFound) || w.Away() != "" {
			t.Errorf("%v, away: %q", err, w.Away())
		}
	})
}

// An outage, and its end, are noticed even if nothing uses the store.
func TestWatchProbesAnIdleStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &faultyBucket{}
		w, _ := watched(t, b)
		ctx, cancel := context.WithCancel(t.Context())
		go w.Watch(ctx)
		time.Sleep(time.Minute)
		synctest.Wait() // a probe may be due at this very moment
		if b.tried < 5 || b.tried > 7 {
			t.Errorf("%d probes in a minute", b.tried)
		}
		b.set(func(context.Context) error { return errors.New("connection refused") })
		time.Sleep(time.Minute)
		if w.Away() != "connection refused" {
			t.Errorf("away: %q", w.Away())
		}
		b.set(nil)
		time.Sleep(11 * time.Second)
		if w.Away() != "" {
			t.Errorf("away: %q", w.Away())
		}
		cancel()
		synctest.Wait()
	})
}

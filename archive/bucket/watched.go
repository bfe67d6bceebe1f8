package bucket

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/policy/breaker"
)

// errUnavailable means that the circuit breaker of the store is open: operations failed repeatedly, so this one was not tried.
var errUnavailable = errors.New("the object store failed repeatedly: its circuit breaker is open")

const (
	failuresToOpen = 3
	// probePause is the time between probes while the breaker is open: the time after which requests see a recovered store.
	probePause = 2 * time.Second

	// readTimeout bounds a read or a listing: a frozen store must not hold up requests until their own deadlines. No request waits for a
	// write.
	readTimeout  = 5 * time.Second
	writeTimeout = 6 * readTimeout

	// idle is how long Watch lets pass without an operation before it probes the store.
	idle = 10 * time.Second
)

// WatchConfig configures a Watched.
type WatchConfig struct {
	Registry *prometheus.Registry // nil: no metrics
	Log      *slog.Logger         // logs when the circuit breaker opens and closes; nil: no log
}

// A Watched is a Bucket that wraps another one: it counts, times and bounds the operations, and stops calling a store that
// fails. After three failed reads in a row its circuit breaker opens, and operations fail at once. Every two seconds one is let
// through as a probe, and its success closes the breaker. Failed writes do not count: archived data can still be read while the
// disk is full, or while the credentials do not allow writes.
type Watched struct {
	bucket  Bucket
	log     *slog.Logger
	breaker breaker.Breaker
	used    atomic.Bool // successfully since the last tick of Watch
	metrics *watchMetrics
}

var _ Bucket = (*Watched)(nil)

// NewWatched returns a Watched over a bucket.
func NewWatched(b Bucket, c WatchConfig) (*Watched, error) {
	w := &Watched{bucket: b, log: c.Log}
	w.breaker = breaker.Breaker{Threshold: failuresToOpen, Pause: probePause, Now: time.Now, OnChange: w.noteOutage}
	if w.log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	var err error
	w.metrics, err = newWatchMetrics(c.Registry, w)
	return w, err
}

// Away returns why the store is not in use now; empty if it is in use.
func (w *Watched) Away() string {
	if failure := w.breaker.Failure(); failure != nil {
		return failure.Error()
	}
	return ""
}

// noteOutage logs the beginning of an outage, or its end if there is no failure.
func (w *Watched) noteOutage(failure error) {
	if failure == nil {
		w.log.Info("the object store of the archive works again")
		return
	}
	w.log.Error("the object store of the archive fails: answers omit stored history", slog.Any("error", failure))
}

// Watch probes the store while nothing else uses it, until ctx ends, so that an outage shows before a request meets it.
func (w *Watched) Watch(ctx context.Context) {
	tick := time.NewTicker(idle)
	defer tick.Stop()
	for {
		if !w.used.Swap(false) {
			_, _ = w.List(ctx, probePrefix) // its outcome is counted
			w.used.Store(false)             // by anything else
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// probePrefix is the prefix of no object.
const probePrefix = "sara-probe/"

// Probe lists no objects, but proves that the store answers and that these credentials may list.
func Probe(ctx context.Context, b Bucket) error {
	_, err := b.List(ctx, probePrefix)
	return err
}

// Get implements Bucket.
func (w *Watched) Get(ctx context.Context, name string) (data []byte, revision string, err error) {
	err = w.do(ctx, "get", name, readTimeout, func(ctx context.Context) error {
		data, revision, err = w.bucket.Get(ctx, name)
		return err
	})
	return data, revision, err
}

// Put implements Bucket.
func (w *Watched) Put(ctx context.Context, name string, data []byte, revision string) (written string, err error) {
	err = w.do(ctx, putting, name, writeTimeout, func(ctx context.Context) error {
		written, err = w.bucket.Put(ctx, name, data, revision)
		return err
	})
	return written, err
}

// List implements Bucket.
func (w *Watched) List(ctx context.Context, prefix string) (entries []Entry, err error) {
	err = w.do(ctx, "list", prefix, readTimeout, func(ctx context.Context) error {
		entries, err = w.bucket.List(ctx, prefix)
		return err
	})
	return entries, err
}

// Delete implements Bucket.
func (w *Watched) Delete(ctx context.Context, name, revision string) error {
	return w.do(ctx, deleting, name, writeTimeout, func(ctx context.Context) error { return w.bucket.Delete(ctx, name, revision) })
}

// do runs one operation if the circuit breaker admits it.
func (w *Watched) do(ctx context.Context, operation, name string, timeout time.Duration, run func(context.Context) error) error {
	if w.breaker.Admit() > 0 {
		w.metrics.operations.WithLabelValues(operation, outcomeRefused).Inc()
		return fmt.Errorf("%s object %q: %w", operation, name, errUnavailable)
	}
	begun := time.Now()
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := run(within)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%s object %q: the object store does not answer within %v: %w", operation, name, timeout, context.DeadlineExceeded)
	}
	outcome := outcomeOf(ctx, err)
	w.metrics.operations.WithLabelValues(operation, outcome).Inc()
	w.metrics.seconds.WithLabelValues(operation).Observe(time.Since(begun).Seconds())
	switch outcome {
	case outcomeError, outcomeTimeout:
		w.metrics.failedAt.WithLabelValues(operation).SetToCurrentTime()
		if isWrite(operation) {
			w.breaker.Inconclusive()
			break
		}
		w.breaker.Failed(err)
	case outcomeCanceled:
		w.breaker.Inconclusive()
	default:
		w.breaker.Succeeded()
		w.used.Store(true)
	}
	return err
}

// The names of the writes.
const (
	putting  = "put"
	deleting = "delete"
)

func isWrite(operation string) bool { return operation == putting || operation == deleting }

// The outcomes of an operation.
const (
	outcomeOK       = "ok"
	outcomeNotFound = "not_found"
	outcomeChanged  = "changed"
	outcomeUnusable = "unusable"
	outcomeCanceled = "canceled" // by the caller or its deadline
	outcomeTimeout  = "timeout"
	outcomeError    = "error"
	outcomeRefused  = "refused" // by the circuit breaker
)

func outcomeOf(ctx context.Context, err error) string {
	switch {
	case err == nil:
		return outcomeOK
	case errors.Is(err, ErrNotFound):
		return outcomeNotFound
	case errors.Is(err, ErrChanged):
		return outcomeChanged
	case errors.Is(err, ErrUnusable):
		return outcomeUnusable
	case ctx.Err() != nil:
		return outcomeCanceled
	case errors.Is(err, context.DeadlineExceeded):
		return outcomeTimeout
	}
	return outcomeError
}

// watchMetrics are the metrics of a Watched.
type watchMetrics struct {
	operations *prometheus.CounterVec
	seconds    *prometheus.HistogramVec
	failedAt   *prometheus.GaugeVec // has no series for an operation that never failed
}

func newWatchMetrics(registry *prometheus.Registry, w *Watched) (*watchMetrics, error) {
	m := &watchMetrics{
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sara_object_store_operations_total",
			Help: "Operations on the objects of the archive, by operation and outcome: ok, not_found, changed (by another process, which is normal), " +
				"unusable (not an archive object), canceled, timeout, error, or refused by the open circuit breaker.",
		}, []string{"operation", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sara_object_store_duration_seconds", Help: "Duration of operations on the objects of the archive, excluding refused ones.",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}, []string{"operation"}),
		failedAt: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sara_object_store_failed_timestamp_seconds",
			Help: "When an operation on the objects of the archive last failed or took too long, by operation; absent if it never did.",
		}, []string{"operation"}),
	}
	for _, operation := range []string{"get", putting, "list", deleting} {
		m.seconds.WithLabelValues(operation)
		for _, outcome := range []string{outcomeOK, outcomeTimeout, outcomeError, outcomeRefused} {
			m.operations.WithLabelValues(operation, outcome)
		}
	}
	if registry == nil {
		return m, nil
	}
	open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sara_object_store_breaker_open", Help: "1 while the circuit breaker of the archive's object store is open.",
	}, func() float64 {
		if w.Away() != "" {
			return 1
		}
		return 0
	})
	return m, errors.Join(registry.Register(m.operations), registry.Register(m.seconds), registry.Register(m.failedAt), registry.Register(open))
}

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	"sara/bench/internal/loadgen"
	"sara/bench/internal/procstat"
	"sara/bench/internal/report"
	"sara/bench/internal/testbed"
	"sara/bench/trace"
)

// footprints measures the memory of a replica with the default settings: idle, at its bound, and in between.
func (w *world) footprints(ctx context.Context, note func(report.Footprint)) (err error) {
	replica, err := w.StartReplica(testbed.ReplicaConfig{})
	if err != nil {
		return err
	}
	defer func() {
		ended, stopErr := w.StopReplica(replica)
		err = errors.Join(err, ended, stopErr)
	}()
	states := []struct {
		name string
		load func(context.Context, *testbed.Replica) error
	}{
		{"idle", w.askOnce},
		{report.FillState, w.fillOnce},
		{"after the agency trace", w.replayTrace},
		{"with a full cache", w.fillCache},
	}
	for _, state := range states {
		w.heaviest.Store(0)
		if err := state.load(ctx, replica); err != nil {
			return err
		}
		f, err := footprint(ctx, replica)
		if err != nil {
			return err
		}
		f.State, f.Body = state.name, float64(w.heaviest.Load())
		note(f)
	}
	return nil
}

// footprint reads the memory of a replica.
func footprint(ctx context.Context, r *testbed.Replica) (f report.Footprint, err error) {
	metrics, err := procstat.ReadMetrics(ctx, http.DefaultClient, r.AdminURL+"/metrics")
	if err != nil {
		return f, err
	}
	peak, err := procstat.PeakResident(r.PID)
	f.Entries, f.Cache = metrics["sara_cache_memory_entries"], metrics["sara_cache_memory_bytes"]
	f.Heap, f.Resident, f.Peak = metrics["go_memstats_heap_inuse_bytes"], metrics["process_resident_memory_bytes"], float64(peak)
	return f, err
}

// askOnce opens all connections of the replica.
func (w *world) askOnce(ctx context.Context, r *testbed.Replica) error {
	return loadgen.Once(ctx, r.Address, w.hitRequests()[0])
}

func (w *world) fillOnce(ctx context.Context, r *testbed.Replica) error {
	w.weighing.Store(true)
	defer w.weighing.Store(false)
	return loadgen.Once(ctx, r.Address, w.wide()(0))
}

func (w *world) replayTrace(ctx context.Context, r *testbed.Replica) error {
	return w.send(ctx, r, w.agency(), w.trace.Requests)
}

func (w *world) send(ctx context.Context, r *testbed.Replica, source loadgen.Source, requests int) error {
	const connections = 16
	result, err := (loadgen.Load{Addresses: []string{r.Address}, Source: source, Connections: connections, Requests: int64(requests)}).Run(ctx)
	if err != nil {
		return err
	}
	return result.Unexpected(http.StatusOK)
}

// fillCache requests long tables of all accounts, a new one each time, until the cache stops growing.
func (w *world) fillCache(ctx context.Context, r *testbed.Replica) error {
	const (
		batch, least, limits = 1000, 300, 100
		orders               = 8
	)
	order := [orders]string{"-impressions", "impressions", "-ctr", "ctr", "-position", "position", "-key", "key"}
	var asked atomic.Int64
	long := func(int64) loadgen.Request {
		n := int(asked.Add(1))
		account, n := n%w.trace.Accounts, n/w.trace.Accounts
		back := n / limits / orders
		path := w.table(trace.Domain(account), "queries", back+hitDays-1, back, least+n%limits, "&order_by=", order[n/limits%orders])
		return w.request(account, 0, path)
	}
	for before := 0.0; ; {
		if err := w.send(ctx, r, long, batch); err != nil {
			return err
		}
		now, err := footprint(ctx, r)
		if err != nil || now.Cache < 1.01*before {
			return err
		}
		before = now.Cache
	}
}

// weigh stands in front of the upstream. While weighing is set, it remembers the size of the largest body, without compression.
func (w *world) weigh(upstream http.Handler) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if !w.weighing.Load() {
			upstream.ServeHTTP(out, r)
			return
		}
		recorder := httptest.NewRecorder()
		upstream.ServeHTTP(recorder, r)
		body := recorder.Body.Bytes()
		w.heaviest.Store(max(w.heaviest.Load(), plainSize(body)))
		maps.Copy(out.Header(), recorder.Header())
		out.WriteHeader(recorder.Code)
		_, _ = out.Write(body) // a client that has left is not measured
	})
}

// plainSize returns the length of a body without its compression.
func plainSize(body []byte) int64 {
	zipped, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return int64(len(body))
	}
	n, err := io.Copy(io.Discard, zipped)
	if err != nil {
		return int64(len(body))
	}
	return n
}

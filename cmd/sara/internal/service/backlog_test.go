package service

import (
	"bytes"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/cmd/sara/internal/settings"
)

// stalled is a log whose reader does not read until it is released.
type stalled struct {
	release chan struct{}
	lines   bytes.Buffer
}

func (s *stalled) Write(p []byte) (int, error) {
	<-s.release
	return s.lines.Write(p)
}

// batches keeps what each write has.
type batches struct {
	mu     sync.Mutex
	writes []string
}

func (b *batches) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writes = append(b.writes, string(p))
	return len(p), nil
}

// take returns the writes since the last call.
func (b *batches) take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	writes := b.writes
	b.writes = nil
	return writes
}

// A write for each request would be expensive, so their lines wait for others, but not for long, and not if another line is written.
func TestAccessLinesAreWrittenTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out batches
		backlog := OpenBacklog(&out, prometheus.NewRegistry())
		log := backlog.Logs(settings.Log{})
		request := func(line string) {
			if _, err := log.Access.Out.Write([]byte(line + "\n")); err != nil {
				t.Error(err)
			}
		}
		want := func(writes ...string) {
			t.Helper()
			synctest.Wait()
			if got := out.take(); !slices.Equal(got, writes) {
				t.Errorf("the writes are %.80q, want %.80q", got, writes)
			}
		}
		request("one")
		time.Sleep(accessDelay / 2)
		request("two")
		time.Sleep(accessDelay/2 - 1)
		want()
		time.Sleep(time.Nanosecond)
		want("one\ntwo\n")

		request("three")
		log.Warn("first")
		synctest.Wait()
		if got := out.take(); len(got) != 1 || !strings.HasPrefix(got[0], "three\n") || !strings.HasSuffix(got[0], "msg=first\n") {
			t.Errorf("the writes are %q", got)
		}

		long := strings.Repeat("x", accessFlush/2)
		request(long)
		want()
		request(long)
		want(long + "\n" + long + "\n")

		request("last")
		backlog.Close()
		want("last\n")
	})
}

// Neither requests nor a shutdown wait for a log that is not read: lines beyond the bound are dropped and counted.
func TestStalledLogDelaysNeitherRequestsNorShutdown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out, registry := &stalled{release: make(chan struct{})}, prometheus.NewRegistry()
		backlog := OpenBacklog(out, registry)
		log := backlog.Logs(settings.Log{})
		log.Warn("first")
		synctest.Wait() // its write blocks
		const lines = 6
		long := strings.Repeat("x", 1<<20)
		for range lines {
			log.Warn("request failed", slog.String("error", long))
		}
		const fit = 4 // in 4 MiB, the one that crosses the bound included
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		if dropped := families[0].GetMetric()[0].GetCounter().GetValue(); dropped != lines-fit {
			t.Errorf("%v lines are dropped, want %d", dropped, lines-fit)
		}
		backlog.Close()
		close(out.release)
		synctest.Wait()
		if written := bytes.Count(out.lines.Bytes(), []byte("\n")); written != 1+fit {
			t.Errorf("%d lines are written once the log is read, want %d", written, 1+fit)
		}
	})
}

// Access lines, of which there may be thousands a second, leave room for the lines that say what is wrong.
func TestAccessLinesLeaveRoomInTheBacklog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &stalled{release: make(chan struct{})}
		backlog := OpenBacklog(out, prometheus.NewRegistry())
		log := backlog.Logs(settings.Log{})
		log.Warn("first")
		synctest.Wait() // its write blocks
		requests := []byte(strings.Repeat("msg=request\n", 1<<12))
		for range 2 * backlogBound / len(requests) {
			if _, err := log.Access.Out.Write(requests); err != nil {
				t.Error(err)
			}
		}
		log.Error("the database is down")
		close(out.release)
		backlog.Close()
		written := out.lines.String()
		if requests := strings.Count(written, "msg=request"); requests < 200_000 || !strings.Contains(written, "the database is down") {
			t.Errorf("%d access lines are written, and of the others %q", requests, strings.ReplaceAll(written, "msg=request\n", ""))
		}
	})
}

func BenchmarkAccessLines(b *testing.B) {
	backlog := OpenBacklog(io.Discard, prometheus.NewRegistry())
	defer backlog.Close()
	access := backlog.Logs(settings.Log{}).Access.Out
	line := []byte(strings.Repeat("x", 300) + "\n")
	b.ReportAllocs()
	for b.Loop() {
		_, _ = access.Write(line)
	}
}

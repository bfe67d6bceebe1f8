package service

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

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

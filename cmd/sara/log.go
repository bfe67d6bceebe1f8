package main

import (
	"context"
	"io"
	"log/slog"
	"sync"

	"sara/cmd/sara/internal/settings"
	"sara/proxy"
)

// logs are where a service writes what happens, and what it was asked.
type logs struct {
	*slog.Logger
	access io.Writer // nil: the level leaves requests out
	format proxy.AccessFormat
	sample float64 // the share of the successes that are told of
}

// openLogs returns logs to w.
func openLogs(w io.Writer, s settings.Log) logs {
	shared := &inTurn{w: w}
	options := &slog.HandlerOptions{Level: s.LogLevel.Level}
	l := logs{Logger: slog.New(slog.NewTextHandler(shared, options)), format: proxy.AccessText, sample: s.AccessLogSample.Value}
	if s.LogFormat.JSON {
		l.Logger, l.format = slog.New(slog.NewJSONHandler(shared, options)), proxy.AccessJSON
	}
	if l.Enabled(context.Background(), slog.LevelInfo) {
		l.access = shared
	}
	return l
}

// inTurn lets one write at a time.
type inTurn struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (t *inTurn) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.w.Write(p)
}

package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"

	"sara/proxy"
)

// logs are where a service writes what happens, and what it was asked.
type logs struct {
	*slog.Logger
	access io.Writer // nil: the level leaves requests out
	format proxy.AccessFormat
	sample float64 // the share of the successes that are told of
}

// open returns logs to w.
func (s logSettings) open(w io.Writer) (logs, error) {
	if err := errors.Join(s.check()...); err != nil {
		return logs{}, err
	}
	level, err := s.level()
	if err != nil {
		return logs{}, err
	}
	sample, err := s.accessSample()
	if err != nil {
		return logs{}, err
	}
	shared := &inTurn{w: w}
	options := &slog.HandlerOptions{Level: level}
	l := logs{Logger: slog.New(slog.NewTextHandler(shared, options)), format: proxy.AccessText, sample: sample}
	if s.LogFormat == "json" {
		l.Logger, l.format = slog.New(slog.NewJSONHandler(shared, options)), proxy.AccessJSON
	}
	if l.Enabled(context.Background(), slog.LevelInfo) {
		l.access = shared
	}
	return l, nil
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

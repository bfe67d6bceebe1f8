package service

import (
	"context"
	"io"
	"log/slog"
	"sync"

	"sara/cmd/sara/internal/settings"
	"sara/proxy"
)

// Logs are the log of a service and its access log, which share one output.
type Logs struct {
	*slog.Logger
	Access io.Writer // nil if the level excludes requests
	Format proxy.AccessFormat
	Sample float64 // the fraction of successful requests to log
}

// OpenLogs returns logs to w.
func OpenLogs(w io.Writer, s settings.Log) Logs {
	shared := &serialWriter{out: w}
	options := &slog.HandlerOptions{Level: s.LogLevel.Level}
	l := Logs{Logger: slog.New(slog.NewTextHandler(shared, options)), Format: proxy.AccessText, Sample: s.AccessLogSample.Value}
	if s.LogFormat.JSON {
		l.Logger, l.Format = slog.New(slog.NewJSONHandler(shared, options)), proxy.AccessJSON
	}
	if l.Enabled(context.Background(), slog.LevelInfo) {
		l.Access = shared
	}
	return l
}

// serialWriter serializes writes.
type serialWriter struct {
	mu  sync.Mutex
	out io.Writer
}

// Write implements io.Writer.
func (w *serialWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

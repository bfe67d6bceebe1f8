package service

import (
	"context"
	"io"
	"log/slog"

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

// OpenLogs returns logs to w, which must be safe for concurrent use if the level includes requests.
func OpenLogs(w io.Writer, s settings.Log) Logs {
	options := &slog.HandlerOptions{Level: s.LogLevel.Level}
	l := Logs{Logger: slog.New(slog.NewTextHandler(w, options)), Format: proxy.AccessText, Sample: s.AccessLogSample.Value}
	if s.LogFormat.JSON {
		l.Logger, l.Format = slog.New(slog.NewJSONHandler(w, options)), proxy.AccessJSON
	}
	if l.Enabled(context.Background(), slog.LevelInfo) {
		l.Access = w
	}
	return l
}

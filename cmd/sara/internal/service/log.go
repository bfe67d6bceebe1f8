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
	Access proxy.AccessLogConfig // without an Out if the level excludes requests
}

// OpenLogs returns logs to w, which must be safe for concurrent use if the level includes requests.
func OpenLogs(w io.Writer, s settings.Log) Logs {
	options := &slog.HandlerOptions{Level: s.LogLevel.Level}
	l := Logs{Logger: slog.New(slog.NewTextHandler(w, options)), Access: proxy.AccessLogConfig{Sample: s.AccessLogSample.Value}}
	if s.LogFormat.JSON {
		l.Logger, l.Access.Format = slog.New(slog.NewJSONHandler(w, options)), proxy.AccessJSON
	}
	if l.Enabled(context.Background(), slog.LevelInfo) {
		l.Access.Out = w
	}
	return l
}

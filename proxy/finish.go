package proxy

import (
	"context"
	"errors"
	"log/slog"
)

// finish counts and logs a request that was answered, with err if that was an error.
func (s *Server) finish(c *call, err error) {
	took := s.config.Now().Sub(c.started)
	status := c.wire.Response.StatusCode()
	code := ""
	ctx := context.Background()
	if err != nil {
		f := failureOf(err)
		code = f.code
		s.report(ctx, c, f)
	}
	s.metrics.observe(c.route, status, code, took)
	if c.span != nil {
		c.endSpan(status, code)
	}
	s.access.write(c, status, code, took)
}

// report logs what a failure hides from the client. A refusal hides nothing: it is an answer, and no trouble of ours.
func (s *Server) report(ctx context.Context, c *call, f *failure) {
	if f.cause == nil {
		return
	}
	level := slog.LevelWarn
	if f.code == codeInternal {
		level = slog.LevelError
	}
	var bug *panicError
	if errors.As(f, &bug) {
		s.metrics.panics.Inc()
	}
	s.config.Log.LogAttrs(ctx, level, "request failed", slog.String("request_id", c.id), slog.Any("error", f))
}

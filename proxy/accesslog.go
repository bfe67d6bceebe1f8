package proxy

import (
	"context"
	"errors"
	"log/slog"
	"strings"
)

// finish counts and logs a request that was answered, with err if that was an error.
func (s *Server) finish(c *call, err error) {
	took := s.config.Now().Sub(c.started)
	status := c.wire.Response.StatusCode()
	operation := c.route.Operation
	if operation == "" {
		operation = c.route.Path
	}
	code := ""
	ctx := context.Background()
	if err != nil {
		f := failureOf(err)
		code = f.code
		s.report(ctx, c, f)
	}
	s.metrics.observe(operation, status, code, took)
	s.config.Log.LogAttrs(ctx, slog.LevelInfo, "request", s.accessAttributes(c, operation, code, took.Seconds())...)
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

// accessAttributes describes a request for the log. It quotes nothing that the client wrote: a path that leads nowhere or
// a filter may hold a key or what people searched for.
func (s *Server) accessAttributes(c *call, operation, code string, seconds float64) []slog.Attr {
	attributes := []slog.Attr{
		slog.String("request_id", c.id),
		slog.String("operation", operation),
		slog.Int("status", c.wire.Response.StatusCode()),
		slog.Float64("seconds", seconds),
		slog.Int("bytes", len(c.wire.Response.Body())),
		slog.String("client", s.clientAddress(c)),
	}
	if code != "" {
		attributes = append(attributes, slog.String("code", code))
	}
	if c.grant != nil {
		attributes = append(attributes, slog.String("key", c.grant.Key.ID), slog.String("account", c.grant.Key.AccountID))
	}
	if c.property != nil {
		attributes = append(attributes, slog.String("property", c.property.ID))
	}
	return attributes
}

// clientAddress is the address that the trusted proxy in front saw, or the connection's own peer without one. Of a list of
// addresses, on one line or on several, the last is the one that the proxy itself has added; the others are the client's
// word.
func (s *Server) clientAddress(c *call) string {
	if name := s.config.TrustedProxyHeader; name != "" {
		lines := c.wire.Request.Header.PeekAll(name)
		if len(lines) > 0 {
			value := string(lines[len(lines)-1])
			if last := strings.TrimSpace(value[strings.LastIndexByte(value, ',')+1:]); last != "" {
				return last
			}
		}
	}
	return c.wire.RemoteIP().String()
}

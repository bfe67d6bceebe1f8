package proxy

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/valyala/fasthttp"
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

// clientAddress is the address that the trusted proxy in front saw, or the connection's own peer without one. Of a list of
// addresses, on one line or on several, the last is the one that the proxy itself has added; the others are the client's
// word.
func (s *Server) clientAddress(wire *fasthttp.RequestCtx) string {
	if name := s.config.TrustedProxyHeader; name != "" {
		lines := wire.Request.Header.PeekAll(name)
		if len(lines) > 0 {
			value := string(lines[len(lines)-1])
			if last := strings.TrimSpace(value[strings.LastIndexByte(value, ',')+1:]); last != "" {
				return last
			}
		}
	}
	if c, ok := wire.Conn().(*connection); ok {
		return c.address
	}
	return wire.RemoteIP().String() // of a request that came over no connection, as that of a benchmark
}

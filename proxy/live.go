package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/valyala/fasthttp"

	"sara/policy"
	"sara/proxy/upstream"
	"sara/translate"
)

// How long clients are told to wait, by how soon the trouble may end.
const (
	outageRetry     = 15 * time.Second // the upstream is down or slow
	connectionRetry = time.Minute      // somebody has to connect the account again
	neverLiveRetry  = 24 * time.Hour   // the days are out of the upstream's reach
)

// checkLive makes sure that the upstream can answer for the days of the request, before anything is charged for it. What
// it cannot answer must be no answer: never an empty success, and never a shorter range.
func (s *Server) checkLive(ctx context.Context, c *call) error {
	span := c.ask.Span()
	switch {
	case c.property.Archived:
		return c.unavailable(neverLiveRetry, "the property is archived: it serves stored history only, and there is none", nil)
	case !c.window.Covers(span):
		return c.unavailable(neverLiveRetry, fmt.Sprintf("the answer needs the days from %s to %s; the upstream has them from %s on, "+
			"and earlier ones are not stored", span.Start, span.End, c.window.Live), nil)
	case s.refused.holds(c.property.ID, c.started):
		return c.unavailable(connectionRetry, "the connected account has no access to the property", nil)
	}
	if err := s.config.Upstream.Check(ctx, s.upstreamAccount(c)); err != nil {
		return s.upstreamFailure(ctx, c, err)
	}
	return nil
}

// unavailable is the failure of a question that has no answer for now (spec: Endpoint rules 3).
func (c *call) unavailable(retryAfter time.Duration, message string, cause error) *failure {
	f := &failure{code: codeUpstreamUnavailable, status: fasthttp.StatusServiceUnavailable,
		message: message, retryAfter: retryAfter, cause: cause}
	if len(c.ask.Filters) > 0 {
		f.code = codeFilteredUnavailable
		f.message = "filtered figures are only to be had live: " + message
	}
	return f
}

// upstreamAccount is whose eyes Search Console is seen with: the property's connection.
func (s *Server) upstreamAccount(c *call) upstream.Account {
	connection := c.property.Connection
	return upstream.Account{
		ID: connection.ID, Revision: connection.Revision,
		Credentials: func(ctx context.Context) ([]byte, error) {
			credentials, _, err := s.config.Store.Credentials(ctx, connection.ID)
			return credentials, err
		},
	}
}

// askUpstream asks Search Console one question through the property's connection, and remembers what it shows of that.
func (s *Server) askUpstream(ctx context.Context, c *call, q translate.Query) ([]byte, error) {
	body, err := s.config.Upstream.SearchAnalytics(ctx, s.upstreamAccount(c), q.Site, q.AppendBody(nil))
	if err != nil {
		return nil, s.upstreamFailure(ctx, c, err)
	}
	s.noteAccess(ctx, c, "")
	return body, nil
}

// upstreamFailure is what the client is told of a call that failed. Quota and permission both come as 403: the first ends
// by itself, the second is remembered, for the property or for its whole connection.
func (s *Server) upstreamFailure(ctx context.Context, c *call, err error) error {
	var refusal *upstream.Error
	if !errors.As(err, &refusal) {
		return storeError{err} // the credentials could not be read
	}
	switch refusal.Kind {
	case upstream.Quota:
		wait := max(refusal.RetryAfter, time.Second)
		return &failure{code: policy.CodeUpstreamQuota, status: fasthttp.StatusTooManyRequests, retryAfter: wait, cause: refusal,
			message: fmt.Sprintf("Search Console's own quota for this property is used up; try again in %.0f seconds", wait.Seconds())}
	case upstream.Forbidden:
		s.refused.note(c.property.ID, c.started.Add(connectionRetry))
		s.noteAccess(ctx, c, "The connected account has no access to the property in Search Console.")
		return c.unavailable(connectionRetry, "the connected account has no access to the property", refusal)
	case upstream.Revoked:
		s.noteHealth(ctx, c.property, false, "The connection to Search Console was revoked or has expired: connect the account again.")
		return c.unavailable(connectionRetry, "the property's connection to Search Console was revoked or has expired", refusal)
	case upstream.Misconfigured:
		s.noteHealth(ctx, c.property, false, "The connection to Search Console does not work: "+refusal.Message)
		return c.unavailable(connectionRetry, "the property's connection to Search Console does not work", refusal)
	case upstream.Rejected:
		return c.unavailable(neverLiveRetry, "Search Console refuses the question: "+refusal.Message, refusal)
	}
	return c.unavailable(max(refusal.RetryAfter, outageRetry), "Search Console does not answer right now", refusal)
}

// unreadable is the failure of an answer that Search Console did not mean to give.
func (s *Server) unreadable(c *call, err error) error {
	return c.unavailable(outageRetry, "Search Console gave an answer that makes no sense", err)
}

// noteAccess records that the upstream refuses this one property, or with an empty note that it answers. Either way it took
// the token, so the connection works.
func (s *Server) noteAccess(ctx context.Context, c *call, note string) {
	s.noteHealth(ctx, c.property, true, "")
	// The first note stands, whatever the others would say.
	if (c.property.AccessNote == "") == (note == "") {
		return
	}
	changed, err := s.config.Store.SetPropertyAccess(ctx, c.property.ID, note)
	s.logTransition(ctx, changed, err, "access to a property", slog.String("property", c.property.ID), slog.String("note", note))
}

// noteHealth records whether the connection works. Of many replicas that see it change, one makes the transition.
func (s *Server) noteHealth(ctx context.Context, p *policy.Property, healthy bool, note string) {
	if p.Connection.Healthy == healthy {
		return
	}
	changed, err := s.config.Store.SetConnectionHealth(ctx, p.Connection.ID, p.Connection.Revision, healthy, note)
	s.logTransition(ctx, changed, err, "health of a connection",
		slog.String("connection", p.Connection.ID), slog.Bool("healthy", healthy), slog.String("note", note))
}

// logTransition tells of a change once, and of a change that could not be recorded: the answer does not depend on it.
func (s *Server) logTransition(ctx context.Context, changed bool, err error, what string, attributes ...slog.Attr) {
	switch {
	case err != nil:
		attributes = append(attributes, slog.Any("error", err))
		s.config.Log.LogAttrs(ctx, slog.LevelError, "cannot record the "+what, attributes...)
	case changed:
		s.config.Log.LogAttrs(ctx, slog.LevelWarn, "changed: "+what, attributes...)
	}
}

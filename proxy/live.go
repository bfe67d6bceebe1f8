package proxy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"sara/policy"
	"sara/proxy/spans"
	"sara/proxy/upstream"
	"sara/translate"
)

// How long clients are told to wait, by how soon the trouble may end.
const (
	outageRetry     = 15 * time.Second // the upstream is down or slow
	connectionRetry = time.Minute      // somebody has to connect the account again
	neverLiveRetry  = 24 * time.Hour   // the days are out of the upstream's reach
)

// unavailable is the failure of a question that has no answer for now (spec: Endpoint rules 3).
func (c *call) unavailable(retryAfter time.Duration, message string, cause error) *apiError {
	f := &apiError{code: codeUpstreamUnavailable, status: fasthttp.StatusServiceUnavailable,
		message: message, retryAfter: retryAfter, cause: cause}
	if len(c.params.Filters) > 0 {
		f.code = codeFilteredUnavailable
		f.message = "filtered figures are only to be had live: " + message
	}
	return f
}

// fill asks the upstream one question, on the bill of the request that c is. It runs on a context of its own, and may
// outlive the request; it looks at nothing of c that ends with it.
func (s *Server) fill(ctx context.Context, c *call, q translate.Query, bill *bill) (rows *translate.Rows, err error) {
	defer recoverPanic(&err)
	if err := s.mayAsk(ctx, c, q.Site); err != nil {
		return nil, err
	}
	paying, span := spans.Start(ctx, "charge")
	err = bill.pay(paying)
	span.End()
	if err != nil {
		return nil, err
	}
	body, err := s.config.Upstream.SearchAnalytics(ctx, s.upstreamAccount(c), q.Site, q.AppendBody(nil))
	if err != nil {
		return nil, s.noteFailure(ctx, c, q.Site, err)
	}
	s.noteAccess(ctx, c, "")
	return readAnswer(body, q)
}

// readAnswer reads the upstream's rows, strictly: what is kept is served to many.
func readAnswer(body []byte, q translate.Query) (*translate.Rows, error) {
	rows, err := translate.ReadRows(body, q.Dimension)
	if err == nil && q.Dimension == translate.ByDate {
		_, err = translate.SeriesOf(rows, q.Range)
	}
	if err != nil {
		return nil, &upstream.Error{Kind: upstream.Unavailable, Message: "its answer makes no sense: " + err.Error()}
	}
	return rows, nil
}

// mayAsk refuses a call that would be in vain, before anything is charged for it.
func (s *Server) mayAsk(ctx context.Context, c *call, site string) error {
	if left, err := s.cache.Resting(ctx, site); err != nil {
		return resting(err, left)
	}
	if s.refused.holds(c.property.ID, s.config.Now()) {
		return &upstream.Error{Kind: upstream.Forbidden, Message: "it refused the account within the last minute"}
	}
	if err := s.config.Upstream.Check(ctx, s.upstreamAccount(c)); err != nil {
		return s.noteFailure(ctx, c, site, err)
	}
	return nil
}

// resting is a quota refusal of before, with what is left of its time.
func resting(err error, left time.Duration) error {
	var refusal *upstream.Error
	if !errors.As(err, &refusal) {
		return err
	}
	again := *refusal
	again.RetryAfter = left
	return &again
}

// A bill charges the upstream calls of one request to its account and its property. Its methods are safe for concurrent use.
type bill struct {
	gate       *policy.Gate
	grant      *policy.Grant
	propertyID string

	mu       sync.Mutex // guards what follows
	expected int        // calls to charge together with the first
	paid     int        // calls that are charged and not made yet
}

// pay charges for a call that is about to be made.
func (b *bill) pay(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.paid == 0 {
		calls := max(1, b.expected)
		if err := b.gate.ChargeLiveCalls(ctx, b.grant, b.propertyID, calls); err != nil {
			return err
		}
		b.expected, b.paid = 0, calls
	}
	b.paid--
	return nil
}

// settle gives back what was charged for calls that somebody else has made meanwhile.
func (b *bill) settle(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.paid > 0 {
		b.gate.RefundLiveCalls(ctx, b.grant, b.paid)
		b.paid = 0
	}
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

// noteFailure remembers what a failed call shows, and returns what it was. Quota and permission both come as 403: the
// first ends by itself, the second stands for the property or for its whole connection.
func (s *Server) noteFailure(ctx context.Context, c *call, site string, err error) error {
	var trouble *upstream.Error
	if !errors.As(err, &trouble) {
		return storeError{err} // the credentials could not be read
	}
	switch trouble.Kind {
	case upstream.Quota:
		s.cache.Rest(ctx, site, trouble, s.config.Now().Add(trouble.RetryAfter))
	case upstream.Forbidden:
		s.refused.note(c.property.ID, s.config.Now().Add(connectionRetry))
		s.noteAccess(ctx, c, "The connected account has no access to the property in Search Console.")
	case upstream.Revoked:
		s.noteHealth(ctx, c.property, false, "The connection to Search Console was revoked or has expired: connect the account again.")
	case upstream.Misconfigured:
		s.noteHealth(ctx, c.property, false, "The connection to Search Console does not work: "+trouble.Message)
	}
	return err
}

// explain is what the client is told when its question has no answer.
func (c *call) explain(err error) error {
	trouble := troubleOf(err)
	if trouble == nil {
		return err
	}
	switch trouble.Kind {
	case upstream.Quota:
		wait := max(trouble.RetryAfter, time.Second)
		return &apiError{code: policy.CodeUpstreamQuota, status: fasthttp.StatusTooManyRequests, retryAfter: wait, cause: trouble,
			limit:   c.grant.Plan.LiveCallsPerMinutePerProperty, // the upstream does not say how high its own is
			message: fmt.Sprintf("%s; try again in %.0f seconds", reasonOf(trouble), wait.Seconds())}
	case upstream.Forbidden, upstream.Revoked, upstream.Misconfigured:
		return c.unavailable(connectionRetry, reasonOf(trouble), trouble)
	case upstream.Rejected:
		return c.unavailable(neverLiveRetry, reasonOf(trouble), trouble)
	}
	return c.unavailable(max(trouble.RetryAfter, outageRetry), reasonOf(trouble), trouble)
}

// troubleOf returns what kept the upstream from answering, nil if it was something else. An upstream that did not answer
// within the time of the request is no exception.
func troubleOf(err error) *upstream.Error {
	var trouble *upstream.Error
	if !errors.As(err, &trouble) && errors.Is(err, context.DeadlineExceeded) {
		trouble = &upstream.Error{Kind: upstream.Interrupted, Message: "no answer in the time of the request"}
	}
	return trouble
}

// reasonOf says for people why there is no live answer.
func reasonOf(trouble *upstream.Error) string {
	switch trouble.Kind {
	case upstream.Quota:
		return "Search Console's own quota for this property is used up"
	case upstream.Forbidden:
		return "the connected account has no access to the property"
	case upstream.Revoked:
		return "the property's connection to Search Console was revoked or has expired"
	case upstream.Misconfigured:
		return "the property's connection to Search Console does not work"
	case upstream.Rejected:
		return "Search Console refuses the question: " + trouble.Message
	}
	return "Search Console does not answer right now"
}

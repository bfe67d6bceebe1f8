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

// Retry-After by failure.
const (
	outageRetry     = 15 * time.Second // the upstream is down or slow
	connectionRetry = time.Minute      // the account has to be connected again
	neverLiveRetry  = 24 * time.Hour   // the days are out of the upstream's reach
)

// unavailable is the failure of a request that has no answer now (spec: Endpoint rules 3).
func (c *call) unavailable(retryAfter time.Duration, message string, cause error) *apiError {
	f := &apiError{code: codeUpstreamUnavailable, status: fasthttp.StatusServiceUnavailable,
		message: message, retryAfter: retryAfter, cause: cause}
	if len(c.params.Filters) > 0 {
		f.code = codeFilteredUnavailable
		f.message = "filtered figures are only to be had live: " + message
	}
	return f
}

// fill asks the upstream for one fetch of the request that c is. It runs on a context of its own and may outlive the request,
// so it uses nothing of c that ends with it.
func (s *Server) fill(ctx context.Context, c *call, q translate.Query, calls *liveCallReservation) (rows *translate.Rows, err error) {
	defer recoverPanic(&err)
	rows, err = s.config.Upstream.Query(ctx, targetOf(c.property), q, calls.Take)
	if _, ok := errors.AsType[*upstream.CredentialsError](err); ok {
		return nil, storeError{err}
	}
	return rows, err
}

func targetOf(p *policy.Property) upstream.Target {
	return upstream.Target{PropertyID: p.ID, Site: p.Site, ConnectionID: p.Connection.ID, Revision: p.Connection.Revision,
		Healthy: p.Connection.Healthy, AccessNote: p.AccessNote}
}

// A liveCallReservation reserves the upstream calls of one request in the budgets of its account and its property. It is safe
// for concurrent use.
type liveCallReservation struct {
	gate       *policy.Gate
	grant      *policy.Grant
	propertyID string

	mu       sync.Mutex // guards the fields below
	expected int        // calls to reserve together with the first
	reserved int        // calls that are charged and not yet made
}

// Take charges for a call that is about to be made. The first call charges for all that are expected: a request that needs two
// calls must not spend one on half an answer.
func (r *liveCallReservation) Take(ctx context.Context) error {
	ctx, span := spans.Start(ctx, "charge")
	defer span.End()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reserved == 0 {
		calls := max(1, r.expected)
		if err := r.gate.ChargeLiveCalls(ctx, r.grant, r.propertyID, calls); err != nil {
			return err
		}
		r.expected, r.reserved = 0, calls
	}
	r.reserved--
	return nil
}

// Release refunds the calls that turned out not to be needed, because other requests filled the cache meanwhile.
func (r *liveCallReservation) Release(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reserved > 0 {
		r.gate.RefundLiveCalls(ctx, r.grant, r.reserved)
		r.reserved = 0
	}
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

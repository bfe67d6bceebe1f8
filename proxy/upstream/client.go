package upstream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"sara/proxy/spans"
	"sara/translate"
)

const (
	// callTimeout bounds one call including its retries. Customers' requests have a shorter deadline of their own.
	callTimeout = 90 * time.Second
	maxAttempts = 3
	// maxPause is the longest backoff. If the upstream asks for a longer one, the call fails instead.
	maxPause = 5 * time.Second
)

// Account names the credentials of a call.
type Account struct {
	ID string // of a connection, or of credentials that are not stored
	// Revision of the stored credentials. Tokens and remembered refusals belong to (ID, Revision), so new credentials
	// take effect at once.
	Revision int
	// Credentials returns Google's JSON; nil means those stored under ID. It is called once per token refresh, on a context
	// that may outlive the call; the bytes are neither kept nor changed.
	Credentials func(ctx context.Context) ([]byte, error)
}

// A client sends calls to Search Console, with access tokens, circuit breakers and retries.
type client struct {
	transport *transport
	tokens    *tokens
	analytics *circuits // search analytics and the list of sites, which customers wait for
	indexing  *circuits // sitemaps and URL inspections, which jobs call
	metrics   *metrics

	now            func() time.Time
	backoff        func(attempt int) time.Duration
	attemptTimeout time.Duration
}

// newClient takes a configuration whose defaults have been filled in.
func newClient(cfg Config) (*client, error) {
	transport, err := newTransport(cfg)
	if err != nil {
		return nil, err
	}
	metrics := newMetrics()
	analytics := newCircuits([...]string{"the property", "the connection", "the API"}, cfg.Now, metrics.analytics)
	indexing := newCircuits([...]string{"the indexing API for the property", "the indexing API for the connection", "the indexing API"},
		cfg.Now, metrics.indexing)
	if err := metrics.register(cfg.Registerer, analytics, indexing); err != nil {
		return nil, err
	}
	return &client{
		transport:      transport,
		tokens:         newTokens(cfg, metrics),
		analytics:      analytics,
		indexing:       indexing,
		metrics:        metrics,
		now:            cfg.Now,
		backoff:        cfg.Backoff,
		attemptTimeout: cfg.AttemptTimeout,
	}, nil
}

func (c *client) close() {
	c.tokens.close()
	c.transport.close()
}

// query makes one call of searchAnalytics.query, and returns what its read returned. charge is called once the call is admitted
// and has an access token, and its error ends the call; nil: no charge.
func (c *client) query(ctx context.Context, acct Account, q queryCall, charge func(context.Context) error) (*translate.Rows, error) {
	done, err := c.admit(ctx, c.analytics, acct, q.site, charge)
	if err != nil {
		return nil, err
	}
	var rows *translate.Rows
	ctx, span := spans.Start(ctx, "ask Search Console")
	defer span.End()
	err = c.call(ctx, acct, searchAnalyticsQuery, done, func(ctx context.Context, access string) (err error) {
		rows, err = c.tracedQuery(ctx, access, q)
		return err
	})
	if err != nil {
		span.Fail(outcomeName(outcome(err)))
		return nil, err
	}
	return rows, nil
}

// tracedQuery sends a query in a span that follows OpenTelemetry's HTTP conventions. The span does not name the site, and
// the trace is not propagated to Search Console.
func (c *client) tracedQuery(ctx context.Context, access string, q queryCall) (*translate.Rows, error) {
	ctx, span := spans.StartCall(ctx, "POST "+queryTemplate)
	defer span.End()
	span.Set("http.request.method", http.MethodPost)
	span.Set("url.template", queryTemplate)
	span.Set("server.address", c.transport.name)
	rows, err := c.transport.query(ctx, access, q)
	status := http.StatusOK
	if err != nil {
		span.Fail(outcomeName(outcome(err)))
		status = statusOf(err)
	}
	if status != 0 {
		span.SetInt("http.response.status_code", status)
	}
	return rows, err
}

// statusOf returns the HTTP status that an error was made from; 0 if there was no answer.
func statusOf(err error) int {
	if failure, ok := errors.AsType[*Error](err); ok {
		return failure.Status
	}
	return 0
}

// admit returns where to report the result of a call, or an error if the call must not be made: a circuit breaker refuses it or,
// for a charged call, there is no access token or the charge fails.
func (c *client) admit(ctx context.Context, breakers *circuits, acct Account, site string, charge func(context.Context) error) (
	done func(result), err error) {
	done, err = breakers.allow(circuitKey{acct.ID, site})
	if err != nil || charge == nil {
		return done, err
	}
	if err = c.ensureToken(ctx, acct); err == nil {
		err = charge(ctx)
	}
	if err != nil {
		done(inconclusive)
		return nil, err
	}
	return done, nil
}

// ensureToken makes sure that there is an access token.
func (c *client) ensureToken(ctx context.Context, acct Account) error {
	return c.retry(ctx, acct, func(context.Context, string) error { return nil })
}

// check fails if no property of the connection could send a call: a circuit breaker is open, or there is no access token.
func (c *client) check(ctx context.Context, acct Account) error {
	if err := c.analytics.check(circuitKey{connection: acct.ID}); err != nil {
		return err
	}
	return c.ensureToken(ctx, acct)
}

// A sendFunc sends one request with an access token. It returns an *Error or, if its context ended, the context's error.
type sendFunc func(ctx context.Context, access string) error

// A method is an API method, and the label of the metrics.
type method uint8

const (
	searchAnalyticsQuery method = iota
	sitesList
	sitemapsList
	urlInspection
)

const methods = int(urlInspection) + 1

func (m method) String() string {
	switch m {
	case sitesList:
		return "sites"
	case sitemapsList:
		return "sitemaps"
	case urlInspection:
		return "url_inspection"
	default:
		return "search_analytics"
	}
}

// call sends a request with retries, counts it, and reports to the circuit breakers that admitted it.
func (c *client) call(ctx context.Context, acct Account, m method, done func(result), send sendFunc) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	started := c.now()
	last := inconclusive // of the last attempt that reached Search Console; token endpoints have their own breakers
	err := c.retry(ctx, acct, func(ctx context.Context, access string) error {
		if err := ctx.Err(); err != nil {
			return err // the token or the charge took all the time: that shows nothing about Search Console
		}
		err := send(ctx, access)
		last = resultOf(err)
		return err
	})
	if errors.Is(err, context.Canceled) {
		last = inconclusive
	}
	done(last)
	c.metrics.call(m, err, c.now().Sub(started))
	return err
}

// retry makes attempts until one succeeds, fails for good, or is the last.
func (c *client) retry(ctx context.Context, acct Account, send sendFunc) error {
	for n := 1; ; n++ {
		spans.Event(ctx, "attempt", n)
		err := c.attempt(ctx, acct, send)
		if err == nil {
			return nil
		}
		failure, ok := errors.AsType[*Error](err)
		if !ok || !failure.transient || n == maxAttempts {
			return err
		}
		if err := c.pause(ctx, n, failure); err != nil {
			return err
		}
		c.metrics.retries.Inc()
	}
}

// pause waits before the attempt after the n-th. If that attempt could not begin before the deadline, it returns the failure at once.
func (c *client) pause(ctx context.Context, n int, failure *Error) error {
	wait := max(c.backoff(n), failure.RetryAfter)
	if n == 1 && failure.dropped {
		wait = 0 // most likely a pooled connection that the upstream had already closed
	}
	if deadline, ok := ctx.Deadline(); wait > maxPause || (ok && time.Until(deadline) <= wait) {
		return failure
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return interrupted(ctx.Err())
	}
}

// attempt bounds one authorized request, and distinguishes its own timeout from the end of the caller's context.
func (c *client) attempt(parent context.Context, acct Account, send sendFunc) error {
	ctx, cancel := context.WithTimeout(parent, c.attemptTimeout)
	defer cancel()
	err := c.authorized(ctx, acct, send)
	// By identity: a deadline somewhere inside acct.Credentials is not this one.
	if err != context.DeadlineExceeded && err != context.Canceled {
		return err
	}
	if cause := parent.Err(); cause != nil {
		return interrupted(cause)
	}
	// The sockets' clock may notice the caller's deadline a moment before the context does.
	if deadline, ok := parent.Deadline(); ok && !time.Now().Before(deadline) {
		return interrupted(context.DeadlineExceeded)
	}
	// The network may have lost the connection, and with it all that are idle: the next attempt must not wait on one of them.
	c.transport.host.CloseIdleConnections()
	c.tokens.httpClient.CloseIdleConnections()
	return unreachable(fmt.Sprintf("no answer within %v", c.attemptTimeout))
}

// authorized sends with the access token in memory, and once more with a fresh one if the upstream answers 401.
func (c *client) authorized(ctx context.Context, acct Account, send sendFunc) error {
	access, err := c.tokens.get(ctx, acct)
	if err != nil {
		return err
	}
	if err = send(ctx, access); !isUnauthorized(err) {
		return err
	}
	c.tokens.drop(acct, access)
	if access, err = c.tokens.get(ctx, acct); err != nil {
		return err
	}
	if err = send(ctx, access); isUnauthorized(err) {
		c.tokens.refuse(acct, access, err)
	}
	return err
}

func isUnauthorized(err error) bool {
	failure, ok := errors.AsType[*Error](err)
	return ok && failure.Kind == Revoked
}

// exponentialBackoff is exponential backoff with jitter: 200 ms, 400 ms, …, minus a random part of up to one half, so that
// callers that failed together do not retry together.
func exponentialBackoff(attempt int) time.Duration {
	full := min(200*time.Millisecond<<min(attempt-1, 10), maxPause)
	return full/2 + rand.N(full/2)
}

package upstream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/proxy/spans"
)

const (
	// DefaultBaseURL is where Google serves the Search Console API.
	DefaultBaseURL = "https://searchconsole.googleapis.com"
	// DefaultTokenURL is Google's token endpoint.
	DefaultTokenURL = "https://oauth2.googleapis.com/token"

	defaultAttemptTimeout = 20 * time.Second
	maxAttempts           = 3
	// maxPause is the longest wait between two attempts; an upstream that asks for more is left alone.
	maxPause = 5 * time.Second
)

// Config sets up a Client. The zero value speaks to Google.
type Config struct {
	// BaseURL of the Search Console API: scheme, host and an optional path prefix. Empty means DefaultBaseURL.
	BaseURL string
	// TokenURL refreshes authorized_user credentials; service accounts use their own token_uri. Empty means DefaultTokenURL.
	TokenURL string
	// Now tells when tokens expire; nil means time.Now. Deadlines of contexts are real time whatever Now says.
	Now func() time.Time
	// Backoff is the pause after the given attempt, counted from 1; nil means exponential from 200 ms, jittered.
	Backoff func(attempt int) time.Duration
	// AttemptTimeout bounds one attempt with the token it may have to fetch, within the caller's deadline. 0 means 20 s.
	AttemptTimeout time.Duration
	// Registerer receives the metrics; nil keeps them to the Client.
	Registerer prometheus.Registerer
}

// Account is whose eyes a call uses: one stored upstream connection.
type Account struct {
	ID string
	// Revision of the stored credentials. Tokens and remembered refusals belong to (ID, Revision), so reconnecting under a
	// new revision is in force at once.
	Revision int
	// Credentials returns Google's JSON, decrypted. It is called once per token refresh, on a context that outlives no
	// refresh but may outlive the call; the bytes are not kept and not changed.
	Credentials func(ctx context.Context) ([]byte, error)
}

// Client calls Search Console. Make one per process with New.
type Client struct {
	wire    *wire
	tokens  *tokens
	console *breaker // of Search Console, for what customers wait for
	// indexing is of sitemaps and URL inspections: long runs in the background, whose failures in a row, maybe of one
	// address after the other, must not keep customers from a service that works.
	indexing *breaker
	metrics  *metrics

	now            func() time.Time
	backoff        func(attempt int) time.Duration
	attemptTimeout time.Duration
}

// New returns a Client that has sent nothing yet. It refuses a base URL that is not absolute http or https, and a
// Registerer that already holds the metrics of another Client.
func New(cfg Config) (*Client, error) {
	if cfg.BaseURL == "" {
		cfg.BaseURL = DefaultBaseURL
	}
	if cfg.TokenURL == "" {
		cfg.TokenURL = DefaultTokenURL
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Backoff == nil {
		cfg.Backoff = exponential
	}
	if cfg.AttemptTimeout <= 0 {
		cfg.AttemptTimeout = defaultAttemptTimeout
	}
	wire, err := newWire(cfg.BaseURL, cfg.AttemptTimeout, cfg.Now)
	if err != nil {
		return nil, err
	}
	metrics, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, err
	}
	return &Client{
		wire:           wire,
		tokens:         newTokens(cfg.TokenURL, cfg.Now, metrics),
		console:        newBreaker("it", failuresInARow, cfg.Now, metrics.console),
		indexing:       newBreaker("its indexing API", failuresInARow, cfg.Now, metrics.indexing),
		metrics:        metrics,
		now:            cfg.Now,
		backoff:        cfg.Backoff,
		attemptTimeout: cfg.AttemptTimeout,
	}, nil
}

// Close ends the token refreshes under way and waits for everything the Client started; an exchange that a caller gave up
// on may take the rest of its attempt. Call it when no call is running any more.
func (c *Client) Close() {
	c.tokens.close()
	c.wire.close()
}

// SearchAnalytics asks one searchAnalytics.query about site, a property as Search Console writes it, such as
// "sc-domain:example.com" or "https://www.example.com/". The body is the JSON request; it is not changed and not read
// after the return. The result is the whole body of the 200 answer, valid JSON of at most 32 MiB that the caller owns.
func (c *Client) SearchAnalytics(ctx context.Context, acct Account, site string, body []byte) ([]byte, error) {
	var reply []byte
	ctx, span := spans.Start(ctx, "ask Search Console")
	defer span.End()
	err := c.call(ctx, acct, searchAnalyticsQuery, func(ctx context.Context, access string) (err error) {
		reply, err = c.tracedQuery(ctx, access, site, body)
		return err
	})
	if err != nil {
		span.Fail(outcomeName(outcome(err)))
		return nil, err
	}
	return reply, nil
}

// tracedQuery is a query of the wire with a span as the conventions have it. Search Console is not told the trace, which is
// none of its business, and the trace not the site.
func (c *Client) tracedQuery(ctx context.Context, access, site string, body []byte) ([]byte, error) {
	ctx, span := spans.StartCall(ctx, "POST "+queryTemplate)
	defer span.End()
	span.Set("http.request.method", http.MethodPost)
	span.Set("url.template", queryTemplate)
	span.Set("server.address", c.wire.name)
	reply, err := c.wire.query(ctx, access, site, body)
	status := http.StatusOK
	if err != nil {
		span.Fail(outcomeName(outcome(err)))
		status = statusOf(err)
	}
	if status != 0 {
		span.SetInt("http.response.status_code", status)
	}
	return reply, err
}

// statusOf returns the status of the answer that an error was made of, 0 if there was none.
func statusOf(err error) int {
	if failure, ok := errors.AsType[*Error](err); ok {
		return failure.Status
	}
	return 0
}

// Check is nil when the account has or can get an access token, and Search Console is not being left alone: what it
// refuses would not be sent, and need not be paid for. It does not ask Search Console, and is not counted as a call; while
// the token is good it costs next to nothing. The call after a Check may still be refused, when others failed meanwhile.
func (c *Client) Check(ctx context.Context, acct Account) error {
	if err := c.console.check(); err != nil {
		return err
	}
	return c.retry(ctx, acct, func(context.Context, string) error { return nil })
}

// exchange sends one request with an access token. It returns an *Error or, when its context ended, the context's error.
type exchange func(ctx context.Context, access string) error

// A method is a call of the upstream, as metrics tell them apart.
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

// breakerOf returns the breaker that a method goes through.
func (c *Client) breakerOf(m method) *breaker {
	if m == sitemapsList || m == urlInspection {
		return c.indexing
	}
	return c.console
}

// call runs an exchange under the retry rules and counts it, unless the upstream is being left alone.
func (c *Client) call(ctx context.Context, acct Account, m method, send exchange) error {
	permit, err := c.breakerOf(m).acquire()
	if err != nil {
		return err
	}
	started := c.now()
	last := silent // what the last exchange, if any, says of Search Console; the rest is the token endpoint's
	err = c.retry(ctx, acct, func(ctx context.Context, access string) error {
		err := send(ctx, access)
		last = judge(err)
		return err
	})
	if errors.Is(err, context.Canceled) {
		last = silent
	}
	permit.record(last)
	c.metrics.call(m, err, c.now().Sub(started))
	return err
}

func (c *Client) retry(ctx context.Context, acct Account, send exchange) error {
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

// pause waits before the attempt after the n-th. It returns the failure when another attempt could not begin before the
// deadline, and does so at once.
func (c *Client) pause(ctx context.Context, n int, failure *Error) error {
	wait := max(c.backoff(n), failure.RetryAfter)
	if n == 1 && failure.dropped {
		wait = 0 // most likely a pooled connection that the upstream had closed meanwhile, so nothing is wrong there
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

// attempt bounds one authorized exchange and tells its own timeout from the end of the caller's context.
func (c *Client) attempt(parent context.Context, acct Account, send exchange) error {
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
	return unreachable(fmt.Sprintf("no answer within %v", c.attemptTimeout))
}

// authorized sends with the cached access token, and once more with a fresh one when the upstream answers 401.
func (c *Client) authorized(ctx context.Context, acct Account, send exchange) error {
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

// exponential is 200 ms, 400 ms, … each cut by a random part of up to one half, so that callers who failed together do
// not come back together.
func exponential(attempt int) time.Duration {
	full := min(200*time.Millisecond<<min(attempt-1, 10), maxPause)
	return full/2 + rand.N(full/2)
}

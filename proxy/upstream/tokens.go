package upstream

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"sara/policy/breaker"
	"sara/proxy/spans"
)

const (
	// scope is the only OAuth scope that reading requires.
	scope = "https://www.googleapis.com/auth/webmasters.readonly"
	// refreshTimeout bounds one refresh, regardless of its callers' deadlines.
	refreshTimeout = 10 * time.Second
	// deadMemory is how long dead credentials are refused from memory, and so the longest time that repaired ones stay
	// refused.
	deadMemory = 10 * time.Second
	// maxConnections bounds the tokens in memory; an evicted one costs a refresh.
	maxConnections = 10_000
	// defaultLifetime is Google's, used for an endpoint that does not state one.
	defaultLifetime = time.Hour
	// pingAfter is how long an HTTP/2 connection may be silent before it is pinged, and pingTimeout how long the answer may take. HTTP/2
	// keeps a connection whose requests time out: without pings, one that the network has lost would be used until the operating system
	// gives it up, after a quarter of an hour.
	pingAfter   = 10 * time.Second
	pingTimeout = 5 * time.Second
	// earlyExpiry is how early a token is replaced, so that it cannot expire on the way to the upstream.
	earlyExpiry = time.Minute
)

// tokens holds the access tokens, one per connection. Refreshes are coalesced (singleflight): one goroutine refreshes a token
// on its own context, and callers wait for it. A caller that leaves does not affect the others.
type tokens struct {
	url         string
	connections Connections
	now         func() time.Time
	httpClient  *http.Client // the generated client uses it too

	metrics *metrics

	ctx       context.Context // ends the refreshes on close
	cancel    context.CancelFunc
	refreshes sync.WaitGroup

	mu      sync.Mutex
	entries map[connection]*entry // guarded by mu

	// breakers are the circuit breakers of the token endpoints, by URL: Google's, and the configured one. guarded by mu.
	breakers map[string]*breaker.Breaker
}

// connection names one set of credentials.
type connection struct {
	id       string
	revision int
}

// entry is the state of a connection: a token, or a remembered refusal, or neither. All fields are guarded by tokens.mu.
type entry struct {
	access  string
	expires time.Time

	refusal error
	until   time.Time // end of the refusal

	refresh *refresh // in flight, else nil
}

// refresh is one request for a token; access and err are set before done closes.
type refresh struct {
	done   chan struct{}
	access string
	err    error
}

func newTokens(cfg Config, metrics *metrics) *tokens {
	ctx, cancel := context.WithCancel(context.Background())
	return &tokens{
		url:         cfg.TokenURL,
		connections: cfg.Connections,
		now:         cfg.Now,
		httpClient: &http.Client{
			Transport: &http.Transport{
				DialContext:         guardedDial(cfg),
				TLSHandshakeTimeout: refreshTimeout,
				IdleConnTimeout:     maxIdle,
				ForceAttemptHTTP2:   true,
				HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
			},
			// A redirect would send the credentials to another host.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		metrics:  metrics,
		ctx:      ctx,
		cancel:   cancel,
		entries:  make(map[connection]*entry),
		breakers: make(map[string]*breaker.Breaker),
	}
}

// through returns a client that sends through transport, and like httpClient follows no redirect, which would get the same secrets.
func (t *tokens) through(transport http.RoundTripper) *http.Client {
	return &http.Client{Transport: transport, CheckRedirect: t.httpClient.CheckRedirect}
}

func (t *tokens) close() {
	t.cancel()
	t.refreshes.Wait()
	t.httpClient.CloseIdleConnections()
}

// retain erases what is known about all connections except these. A refresh in flight ends without leaving a token.
func (t *tokens) retain(ids []string) {
	exists := make(map[string]bool, len(ids))
	for _, id := range ids {
		exists[id] = true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.entries, func(c connection, _ *entry) bool { return !exists[c.id] })
}

// get returns a valid access token, an *Error, a *CredentialsError, or ctx's own error.
func (t *tokens) get(ctx context.Context, acct Account) (string, error) {
	access, r, err := t.lookUp(acct)
	if r == nil {
		return access, err
	}
	_, span := spans.StartCall(ctx, "wait for an access token")
	defer span.End()
	select {
	case <-r.done:
		return r.access, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// lookUp answers from memory, or returns the refresh to wait for, which it starts unless one is already in flight.
func (t *tokens) lookUp(acct Account) (access string, r *refresh, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entry(acct)
	switch now := t.now(); {
	case e.access != "" && now.Before(e.expires):
		return e.access, nil, nil
	case e.refusal != nil && now.Before(e.until):
		return "", nil, e.refusal
	case e.refresh == nil:
		r := &refresh{done: make(chan struct{})}
		e.refresh = r
		t.refreshes.Go(func() { t.runRefresh(acct, e, r) })
	}
	return "", e.refresh, nil
}

// drop forgets an access token that the upstream refused, unless a newer one has replaced it.
func (t *tokens) drop(acct Account, access string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.entry(acct); e.access == access {
		e.access = ""
	}
}

// refuse drops a fresh access token that the upstream also refused, and remembers the refusal.
func (t *tokens) refuse(acct Account, access string, refusal error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.entry(acct); e.access == access {
		e.access, e.refusal, e.until = "", refusal, t.now().Add(deadMemory)
	}
}

// entry finds or makes the entry of acct; t.mu must be held. At the bound it evicts an arbitrary entry: tracking use would cost
// every call more than the occasional extra refresh.
func (t *tokens) entry(acct Account) *entry {
	key := connection{acct.ID, acct.Revision}
	e := t.entries[key]
	if e != nil {
		return e
	}
	if len(t.entries) >= maxConnections {
		for other := range t.entries {
			delete(t.entries, other)
			break
		}
	}
	e = &entry{}
	t.entries[key] = e
	return e
}

// runRefresh performs a refresh, and publishes the result to e and to the callers that wait for r.
func (t *tokens) runRefresh(acct Account, e *entry, r *refresh) {
	ctx, cancel := context.WithTimeout(t.ctx, refreshTimeout)
	defer cancel()
	token, err := t.request(ctx, acct)
	t.metrics.tokenRefresh(err)

	t.mu.Lock()
	defer t.mu.Unlock()
	e.refresh, e.access, e.refusal = nil, "", nil
	if err == nil {
		e.access, e.expires = token.AccessToken, t.now().Add(usable(token))
	}
	if failure, ok := errors.AsType[*Error](err); ok && (failure.refused || failure.Kind != Unavailable) {
		e.refusal, e.until = err, t.now().Add(deadMemory)
	}
	r.access, r.err = e.access, err
	close(r.done)
}

// usable returns how long a fresh token may be used. The library states its expiry by the real clock.
func usable(token *oauth2.Token) time.Duration {
	lifetime := defaultLifetime
	if !token.Expiry.IsZero() {
		lifetime = time.Until(token.Expiry)
	}
	return lifetime - min(earlyExpiry, lifetime/10)
}

package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/jwt"

	"sara/proxy/spans"
)

const (
	// scope is all that reading needs.
	scope = "https://www.googleapis.com/auth/webmasters.readonly"
	// refreshTimeout bounds one refresh, whoever waits for it.
	refreshTimeout = 10 * time.Second
	// refusalMemory is how long a dead connection is answered from memory, and so the longest a cured one stays refused.
	refusalMemory = 10 * time.Second
	// maxConnections bounds the tokens in memory; a forgotten one costs a refresh.
	maxConnections = 10_000
	// defaultLifetime is Google's, for an endpoint that does not say.
	defaultLifetime = time.Hour
	// earlyExpiry replaces a token before it dies on the way to the upstream.
	earlyExpiry = time.Minute
)

// tokens hands out access tokens, one per connection, and refreshes each of them by one goroutine at a time. A refresh runs
// on its own context: callers wait for it as long as they like and leave without disturbing the others.
type tokens struct {
	url    string
	now    func() time.Time
	client *http.Client // also carries the cold path

	metrics *metrics

	ctx       context.Context // ends the refreshes on close
	cancel    context.CancelFunc
	refreshes sync.WaitGroup

	mu      sync.Mutex
	entries map[connection]*entry // guarded by mu

	// breakers has one for each token endpoint that credentials name. guarded by mu. They go by the whole URL: a wrong path
	// in somebody's key file must not shut others out.
	breakers map[string]*breaker
}

// connection names one set of credentials.
type connection struct {
	id       string
	revision int
}

// entry is what is known of a connection: a token, or a refusal, or neither. All fields are guarded by tokens.mu.
type entry struct {
	access  string
	expires time.Time

	refusal error
	until   time.Time // of the refusal

	refresh *refresh // under way, else nil
}

// refresh is one request for a token; access and err are set before done closes.
type refresh struct {
	done   chan struct{}
	access string
	err    error
}

func newTokens(url string, now func() time.Time, metrics *metrics) *tokens {
	ctx, cancel := context.WithCancel(context.Background())
	return &tokens{
		url: url,
		now: now,
		client: &http.Client{
			Transport: &http.Transport{
				TLSHandshakeTimeout: refreshTimeout,
				IdleConnTimeout:     maxIdle,
				ForceAttemptHTTP2:   true,
			},
			// A redirect would carry the credentials to somebody else.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		metrics:  metrics,
		ctx:      ctx,
		cancel:   cancel,
		entries:  make(map[connection]*entry),
		breakers: make(map[string]*breaker),
	}
}

func (t *tokens) close() {
	t.cancel()
	t.refreshes.Wait()
	t.client.CloseIdleConnections()
}

// get returns a valid access token, an *Error, the error of acct.Credentials, or ctx's own error.
func (t *tokens) get(ctx context.Context, acct Account) (string, error) {
	access, r, err := t.known(acct)
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

// known answers from memory, or else with the refresh to wait for, which it starts when none is under way.
func (t *tokens) known(acct Account) (access string, r *refresh, err error) {
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
		t.refreshes.Go(func() { t.run(acct, e, r) })
	}
	return "", e.refresh, nil
}

// drop forgets an access token that the upstream refused, unless a newer one has taken its place.
func (t *tokens) drop(acct Account, access string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.entry(acct); e.access == access {
		e.access = ""
	}
}

// refuse drops the access token and remembers the refusal, because a fresh token did not help either.
func (t *tokens) refuse(acct Account, access string, refusal error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.entry(acct); e.access == access {
		e.access, e.refusal, e.until = "", refusal, t.now().Add(refusalMemory)
	}
}

// entry finds or makes the entry of acct; t.mu must be held. At the bound an arbitrary entry goes: keeping track of use
// would cost every call more than the rare extra refresh does.
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

// run performs a refresh and publishes its result to e and to everybody who waits for r.
func (t *tokens) run(acct Account, e *entry, r *refresh) {
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
	if failure, ok := errors.AsType[*Error](err); ok && failure.Kind != Unavailable {
		e.refusal, e.until = err, t.now().Add(refusalMemory)
	}
	r.access, r.err = e.access, err
	close(r.done)
}

// usable is how long from now a token that has just come may be used. The library counts its expiry on the real clock.
func usable(token *oauth2.Token) time.Duration {
	lifetime := defaultLifetime
	if !token.Expiry.IsZero() {
		lifetime = time.Until(token.Expiry)
	}
	return lifetime - min(earlyExpiry, lifetime/10)
}

// breaker finds or makes the breaker of the endpoint that serves the credentials. A failed call has asked it maxAttempts
// times, and here each time counts.
func (t *tokens) breaker(file credentials) *breaker {
	endpoint := t.url
	if file.kind == ServiceAccount {
		endpoint = file.tokenURI
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.breakers[endpoint]
	if b == nil {
		b = newBreaker("the token endpoint", failuresInARow*maxAttempts, t.now, t.metrics.token)
		t.breakers[endpoint] = b
	}
	return b
}

// request asks the token endpoint once, unless it is being left alone, with credentials that are gone when it returns.
func (t *tokens) request(ctx context.Context, acct Account) (*oauth2.Token, error) {
	data, err := acct.Credentials(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the credentials of connection %s: %w", acct.ID, err)
	}
	file, err := parseCredentials(data)
	if err != nil {
		return nil, &Error{Kind: Misconfigured, Message: err.Error()}
	}
	permit, err := t.breaker(file).acquire()
	if err != nil {
		return nil, err
	}
	token, err := t.send(ctx, file)
	permit.record(judge(err))
	return token, err
}

// send returns a token or an *Error.
func (t *tokens) send(ctx context.Context, file credentials) (*oauth2.Token, error) {
	token, err := t.source(ctx, file).Token()
	secrets := []string{file.clientSecret, file.refreshToken, file.privateKey}
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return nil, classifyToken(answer{
			status:     refused.Response.StatusCode,
			retryAfter: refused.Response.Header.Get("Retry-After"),
			body:       refused.Body,
		}, t.now(), secrets...)
	}
	if err != nil {
		return nil, unreachable("asking for an access token: "+err.Error(), secrets...)
	}
	if token.AccessToken == "" {
		return nil, unreachable("the token endpoint answered without an access token")
	}
	return token, nil
}

func (t *tokens) source(ctx context.Context, file credentials) oauth2.TokenSource {
	client := &http.Client{Transport: bound{ctx, t.client.Transport}, CheckRedirect: t.client.CheckRedirect}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, client)
	if file.kind == ServiceAccount {
		return (&jwt.Config{
			Email:        file.clientEmail,
			PrivateKey:   []byte(file.privateKey),
			PrivateKeyID: file.privateKeyID,
			Scopes:       []string{scope},
			TokenURL:     file.tokenURI,
		}).TokenSource(ctx)
	}
	return (&oauth2.Config{
		ClientID:     file.clientID,
		ClientSecret: file.clientSecret,
		Endpoint:     oauth2.Endpoint{TokenURL: t.url, AuthStyle: oauth2.AuthStyleInParams},
	}).TokenSource(ctx, &oauth2.Token{RefreshToken: file.refreshToken})
}

// bound sends requests under ctx, which the signed-assertion flow of the library does not pass on by itself.
type bound struct {
	ctx  context.Context
	next http.RoundTripper
}

func (b bound) RoundTrip(req *http.Request) (*http.Response, error) {
	return b.next.RoundTrip(req.WithContext(b.ctx))
}

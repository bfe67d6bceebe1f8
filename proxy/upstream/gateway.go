package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/policy/keyring"
	"sara/policy/redisconn"
	"sara/proxy/cpubound"
	"sara/translate"
)

const (
	// DefaultBaseURL is where Google serves the Search Console API.
	DefaultBaseURL = "https://searchconsole.googleapis.com"
	// DefaultTokenURL is Google's token endpoint.
	DefaultTokenURL = "https://oauth2.googleapis.com/token"

	defaultAttemptTimeout = 20 * time.Second
	// maxClockAhead is how far this machine's clock may be ahead of Search Console's for jobs. A day more makes no difference to what is final.
	maxClockAhead = 24 * time.Hour
	// forbiddenMemory is how long a Forbidden property stays in the negative cache.
	forbiddenMemory = time.Minute
)

// Connections is the store of connections and properties; *sqlstore.Store is one.
type Connections interface {
	// Credentials returns Google's JSON, decrypted. The bytes are neither kept nor changed.
	Credentials(ctx context.Context, connectionID string) ([]byte, error)
	// SetConnectionHealth and SetPropertyAccess record why something does not work, or with an empty note that it does; changed is false
	// if that was already recorded.
	SetConnectionHealth(ctx context.Context, connectionID string, revision int, note string) (changed bool, err error)
	SetPropertyAccess(ctx context.Context, propertyID, note string) (changed bool, err error)
}

// Config configures a Gateway. All fields but Connections may be zero.
type Config struct {
	// BaseURL of the Search Console API: scheme, host and an optional path prefix. Empty means DefaultBaseURL.
	BaseURL string
	// TokenURL refreshes authorized_user credentials. Service accounts use their own token_uri, which must be this one or Google's.
	// Empty means DefaultTokenURL.
	TokenURL string
	// Connections is closed by the caller.
	Connections Connections
	// Redis shares cooldowns between replicas; nil keeps them in this process. The caller closes it.
	Redis redisconn.Client
	// Keyring seals the cooldowns in Redis; nil: they are not shared.
	Keyring *keyring.Keyring
	// RedisPatience bounds how long an unresponsive Redis may delay a request; 0 means a tenth of a second.
	RedisPatience time.Duration
	// RedisErrors counts the Redis steps that failed or timed out; nil: they are not counted.
	RedisErrors prometheus.Counter
	// Now decides when tokens, cooldowns and cached refusals expire; nil means time.Now. Deadlines of contexts are real time.
	Now func() time.Time
	// Backoff is the pause after the given attempt, counted from 1; nil means exponential from 200 ms, with jitter.
	Backoff func(attempt int) time.Duration
	// AttemptTimeout bounds one attempt, including a token refresh, within the caller's deadline. 0 means 20 s.
	AttemptTimeout time.Duration
	// Slots bounds how many bodies are parsed at a time; nil: unbounded.
	Slots *cpubound.Slots
	// Log receives changes of health; nil discards them.
	Log *slog.Logger
	// Registerer receives the metrics; nil: they are not exported.
	Registerer prometheus.Registerer
}

// A Target is the property that a call is about, with its last recorded health.
type Target struct {
	PropertyID   string
	Site         string // as Search Console writes it: "sc-domain:example.com" or "https://www.example.com/"
	ConnectionID string
	Revision     int    // of the connection's credentials
	Healthy      bool   // the connection
	AccessNote   string // why the property cannot be read; empty if it can

	// Cooldown is the value of CooldownKey in Redis, if the caller has just read it; empty: none.
	Cooldown     []byte
	CooldownRead bool
}

// A reading is a property as read with certain credentials. A target that is not stored has no property ID.
type reading struct {
	property, site string
	connection     connection
}

func (t Target) reading() reading {
	return reading{t.PropertyID, t.Site, connection{t.ConnectionID, t.Revision}}
}

func (t Target) account() Account { return Account{ID: t.ConnectionID, Revision: t.Revision} }

// Gateway calls Search Console. Make one per process with New.
type Gateway struct {
	client    *client
	cooldowns *cooldowns
	health    *recorder
	forbidden expiringMap[reading, struct{}] // negative cache
	rows      translate.RowsReader
	now       func() time.Time
}

// New returns a Gateway that has sent nothing yet. It refuses a base URL that is not absolute http or https, and a
// Registerer that already holds the metrics of another Gateway.
func New(cfg Config) (*Gateway, error) {
	if cfg.Connections == nil {
		return nil, errors.New("BUG: the configuration of the gateway is not complete")
	}
	cfg = cfg.withDefaults()
	client, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	return &Gateway{
		client:    client,
		cooldowns: newCooldowns(cfg),
		health:    &recorder{store: cfg.Connections, log: cfg.Log, now: cfg.Now},
		now:       cfg.Now,
	}, nil
}

func (cfg Config) withDefaults() Config {
	cfg.BaseURL = cmp.Or(cfg.BaseURL, DefaultBaseURL)
	cfg.TokenURL = cmp.Or(cfg.TokenURL, DefaultTokenURL)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Backoff == nil {
		cfg.Backoff = exponentialBackoff
	}
	if cfg.AttemptTimeout <= 0 {
		cfg.AttemptTimeout = defaultAttemptTimeout
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return cfg
}

// Close ends token refreshes in flight and waits for everything the Gateway started; an exchange whose caller left may take
// the rest of its attempt. Call it when no more calls are running.
func (g *Gateway) Close() { g.client.close() }

// Retain erases the access tokens of all connections except these, because the others have been removed.
func (g *Gateway) Retain(connections []string) { g.client.tokens.retain(connections) }

// Query asks Search Console for the rows of one searchAnalytics.query, free of charge. The package comment lists the steps. It is
// Misconfigured if this machine's clock is days ahead: jobs would archive days to come as days without traffic, for good.
func (g *Gateway) Query(ctx context.Context, t Target, q translate.Query) (*translate.Rows, error) {
	rows, err := g.ChargedQuery(ctx, t, q, nil)
	if err != nil {
		return nil, err
	}
	if ahead := g.client.transport.clockAhead(); ahead > maxClockAhead {
		return nil, &Error{Kind: Misconfigured, Message: fmt.Sprintf("the clock of this machine is %d hours ahead of Search Console's", int(ahead.Hours()))}
	}
	return rows, nil
}

// ChargedQuery is Query with a hook that is called once the call is known to be worth charging for. Its error ends the call.
func (g *Gateway) ChargedQuery(ctx context.Context, t Target, q translate.Query, charge func(context.Context) error) (*translate.Rows, error) {
	if err := g.refusal(ctx, t); err != nil {
		return nil, err
	}
	rows, err := g.client.query(ctx, t.account(), queryCall{site: t.Site, question: q.Body(), most: q.MaxBody(), read: readerOf(&g.rows, q)}, charge)
	if err != nil {
		return nil, g.queryFailed(ctx, t, err)
	}
	g.health.readable(ctx, t)
	return rows, nil
}

// refusal answers from the cooldown and the negative cache; nil lets the query pass.
func (g *Gateway) refusal(ctx context.Context, t Target) error {
	if left, cooling := g.cooldowns.left(ctx, t); cooling != nil {
		refusal := *cooling
		refusal.RetryAfter = left
		return &refusal
	}
	if _, _, ok := g.forbidden.get(t.reading(), g.now()); ok {
		return &Error{Kind: Forbidden, Message: "it refused the account within the last minute"}
	}
	return nil
}

// queryFailed records what the failure of a query shows, and returns it.
func (g *Gateway) queryFailed(ctx context.Context, t Target, err error) error {
	failure, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	switch failure.Kind {
	case Quota:
		g.cooldowns.start(ctx, t.Site, failure)
	case Forbidden:
		now := g.now()
		g.forbidden.put(t.reading(), struct{}{}, now.Add(forbiddenMemory), now)
		g.health.forbidden(ctx, t)
	default:
		g.health.connectionFailure(ctx, t, failure)
	}
	return err
}

// readerOf returns the read of a queryCall.
func readerOf(reader *translate.RowsReader, q translate.Query) func(io.Reader) (*translate.Rows, error) {
	return func(body io.Reader) (*translate.Rows, error) { return readRows(reader, body, q) }
}

// readRows reads the answer to a query strictly. A body that is not JSON may have been cut off, so another attempt may
// help; faulty rows in a complete body will not change.
func readRows(reader *translate.RowsReader, body io.Reader, q translate.Query) (*translate.Rows, error) {
	rows, err := reader.Read(body, q.Dimension)
	if err == nil {
		err = q.Check(rows)
	}
	switch {
	case errors.Is(err, translate.ErrSyntax):
		return nil, badReply("a body that is not JSON")
	case err != nil:
		return nil, &Error{Kind: Unavailable, Status: http.StatusOK, Message: "malformed answer: " + err.Error()}
	}
	return rows, nil
}

// CooldownKey returns the key of a site's cooldown in Redis; "" if cooldowns are not shared.
func (g *Gateway) CooldownKey(site string) string {
	if g.cooldowns.redis == nil {
		return ""
	}
	return cooldownKey(site)
}

// Sitemaps lists the submitted sitemaps of a property in the upstream's order; none is an empty list. Sitemaps that an index
// names are missing unless they were submitted too. The account may be a restricted user.
func (g *Gateway) Sitemaps(ctx context.Context, t Target) ([]Sitemap, error) {
	sitemaps, err := g.client.sitemaps(ctx, t.account(), t.Site)
	if failure, ok := errors.AsType[*Error](err); ok {
		g.health.connectionFailure(ctx, t, failure)
	}
	return sitemaps, err
}

// Inspect asks urlInspection about one URL of a property; it is Forbidden unless the account is a full user or an owner of the
// property. It looks up the indexed version, without fetching the page, and still takes some seconds. Every attempt, including
// retries, counts against the upstream's quota for the site. The hook is called once the call is admitted, and its error ends the
// call; nil means that it is not counted.
func (g *Gateway) Inspect(ctx context.Context, t Target, url string, charge func(context.Context) error) (Inspection, error) {
	inspection, err := g.client.inspect(ctx, t.account(), t.Site, url, charge)
	if failure, ok := errors.AsType[*Error](err); ok {
		g.health.connectionFailure(ctx, t, failure)
	}
	if err == nil {
		g.health.readable(ctx, t)
	}
	return inspection, err
}

// Sites lists every property that the account can see, in the upstream's order and unfiltered; none is an empty list.
func (g *Gateway) Sites(ctx context.Context, acct Account) ([]Site, error) {
	return g.client.sites(ctx, acct)
}

// Check returns nil if the account has or can get an access token, and no circuit breaker refuses all of its properties. It makes
// no call to Search Console; while the token is valid it costs almost nothing.
func (g *Gateway) Check(ctx context.Context, acct Account) error { return g.client.check(ctx, acct) }

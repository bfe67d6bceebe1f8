package proxy

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"sara/archive/sqlstore"
	"sara/policy"
	"sara/proxy/cache"
	"sara/proxy/docs"
	"sara/proxy/spans"
	"sara/proxy/upstream"
	"sara/translate"
)

// Config is what a Server is made of. Members are required unless said otherwise.
type Config struct {
	Store    *sqlstore.Store   // stays the caller's to close
	Upstream *upstream.Gateway // stays the caller's to close
	History  History           // nil: there is no archive
	Plans    policy.Plans
	Budget   policy.Budget // stays the caller's to close

	// CacheBytes bounds the memory of the response cache, and Redis is where replicas share it; nil for one that is alone. It
	// stays the caller's to close, after Shutdown.
	CacheBytes int64
	Redis      redis.UniversalClient

	// RedisPatience is what a Redis that does not answer may add to a request; 0: a tenth of a second.
	RedisPatience time.Duration

	// Degraded reports whether the service runs with less than it should, such as budgets without Redis; nil for never.
	Degraded func() bool

	KeyPrefix string // keys are <KeyPrefix>_live_<secret>
	BaseURL   string // the address by which clients reach the server, without a trailing slash
	DocsURL   string // docs_url of every error; empty: the reference that the server itself shows

	// TrustedProxyHeader names the request header in which a proxy in front puts the client's address; empty: the
	// connection's own peer is the client.
	TrustedProxyHeader string

	// Access is where a line for each request goes, in whole lines and up to a fifth of a second late; nil: nowhere.
	Access       io.Writer
	AccessFormat AccessFormat

	// AccessSample is the share of the successes, of 0 to 1, whose lines are written: which ones is in their requests' ids. Errors
	// are all written.
	AccessSample float64

	// Traces makes the spans of requests and of what they wait for; nil: there are none. It stays the caller's to shut down, after
	// Shutdown. Propagator reads from a request's headers which trace it belongs to; nil: whatever a client says of it is ignored.
	Traces     trace.TracerProvider
	Propagator propagation.TextMapPropagator

	Version  string // of the build, for the metrics
	Log      *slog.Logger
	Registry *prometheus.Registry
	Now      func() time.Time
}

// check refuses a configuration that could not serve, naming what is wrong.
func (c *Config) check() error {
	base, err := url.Parse(c.BaseURL)
	switch {
	case err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https":
		return fmt.Errorf("base URL %q is not of the form https://api.example.com", c.BaseURL)
	case strings.HasSuffix(c.BaseURL, "/") || base.RawQuery != "" || base.Fragment != "":
		return fmt.Errorf("base URL %q must end in neither a slash, a query nor a fragment", c.BaseURL)
	case !isKeyPrefix(c.KeyPrefix):
		return fmt.Errorf("key prefix %q is not 1 to 20 lower-case letters and digits", c.KeyPrefix)
	case c.Store == nil || c.Upstream == nil || c.Plans == nil || c.Budget == nil || c.Log == nil || c.Registry == nil || c.Now == nil || c.CacheBytes <= 0:
		return errors.New("BUG: the configuration of the server is not complete")
	case !(c.AccessSample >= 0 && c.AccessSample <= 1):
		return fmt.Errorf("the share %v of the access log is not of 0 to 1", c.AccessSample)
	}
	return nil
}

func isKeyPrefix(s string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyz0123456789"
	return len(s) >= 1 && len(s) <= 20 && strings.Trim(s, allowed) == ""
}

// New returns a server that is ready to serve.
func New(c Config) (*Server, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("configure the server: %w", err)
	}
	if c.DocsURL == "" {
		c.DocsURL = c.BaseURL + docs.Path
	}
	calendar, err := translate.NewCalendar()
	if err != nil {
		return nil, err
	}
	gate, err := policy.NewGate(policy.Config{
		Directory: directory{c.Store}, Plans: c.Plans, Budget: c.Budget, KeyPrefix: c.KeyPrefix, Now: c.Now,
	})
	if err != nil {
		return nil, err
	}
	responses, err := cache.New(cache.Config{
		Bytes: c.CacheBytes, Redis: c.Redis, RedisPatience: c.RedisPatience, Errors: errorCodec{}, FillTimeout: fillTimeout,
		Now: c.Now, Log: c.Log, Registry: c.Registry,
	})
	if err != nil {
		return nil, err
	}
	s := &Server{config: c, calendar: calendar, gate: gate, memo: newMemo(), cache: responses, metrics: newMetrics(c.Registry, c.Version), started: c.Now().UTC()}
	s.forwardedBy = string(fasthttp.AppendNormalizedHeaderKey(nil, c.TrustedProxyHeader))
	if c.Traces != nil {
		s.tracer = c.Traces.Tracer(spans.Scope)
	}
	routes := s.routes()
	document, err := OpenAPI(c.BaseURL)
	if err != nil {
		return nil, err
	}
	s.document = cache.NewAnswer(document, c.Now())
	if s.pages, err = newPages(&s.config); err != nil {
		return nil, err
	}
	s.edge = s.newEdge(routes)
	s.access = newAccessLog(c.Access, c.AccessFormat, c.AccessSample, c.Registry)
	return s, nil
}

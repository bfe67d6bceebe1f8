package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/archive/sqlstore"
	"sara/policy"
	"sara/policy/keyring"
	"sara/proxy/cache"
	"sara/proxy/cpubound"
	"sara/proxy/docs"
	"sara/proxy/redisrows"
	"sara/proxy/upstream"
	"sara/translate"
)

// Config configures a Server. Fields are required unless noted otherwise. The caller closes what it passes, after Shutdown.
type Config struct {
	Store    *sqlstore.Store
	Upstream *upstream.Gateway
	History  History
	Plans    policy.Plans
	Budget   policy.Budget

	Cache    CacheConfig
	Capacity Capacity

	// Profiles serves the profiles of the Go runtime on the admin listener. They show addresses and texts from memory.
	Profiles bool

	// HedgeDelay is the longest time that an unfiltered request waits for the upstream before stored figures answer it, if there
	// are any; 0: 2.5 s.
	HedgeDelay time.Duration

	Health HealthConfig

	// Anomalies are the events that the notes of affected answers name; nil: translate.KnownAnomalies.
	Anomalies translate.Anomalies

	KeyPrefix string // keys are <KeyPrefix>_live_<secret>
	BaseURL   string // at which clients reach the server: http or https, a host and perhaps a path, without a trailing slash
	DocsURL   string // docs_url of every error; empty: the server's own API reference

	// Prefill is what the API reference shows filled in: the key of a demo, which is not secret.
	Prefill docs.Prefill

	// TrustedProxyHeader names the header in which a trusted proxy sends the client's address; empty: the peer of the
	// connection is the client.
	TrustedProxyHeader string

	// CORSOrigins are the origins whose pages may call the API from a browser, each as browsers write it, or AnyOrigin alone; empty: none.
	CORSOrigins []string

	AccessLog AccessLogConfig
	Tracing   TracingConfig

	Version  string // of the build, for the metrics
	Log      *slog.Logger
	Registry *prometheus.Registry
	Now      func() time.Time
}

// CacheConfig configures the cache of upstream rows and answers. Only Bytes is required.
type CacheConfig struct {
	Bytes   int64            // bounds its memory
	Rows    *redisrows.Store // shares the rows between replicas; nil: there is one replica
	Keyring *keyring.Keyring // seals the rows that replicas share; nil: each replica has its own

	// RedisPatience bounds the delay that an unresponsive Redis adds to a request; 0: 100 ms.
	RedisPatience time.Duration
}

// check returns an error that names what is wrong with the configuration.
func (c *Config) check() error {
	if c.Store == nil || c.Upstream == nil || c.History == nil || c.Plans == nil || c.Budget == nil || c.Log == nil || c.Registry == nil ||
		c.Now == nil || c.BaseURL == "" || c.Cache.Bytes <= 0 {
		return errors.New("BUG: the configuration of the server is not complete")
	}
	if err := c.AccessLog.check(); err != nil {
		return err
	}
	if err := policy.CheckKeyPrefix(c.KeyPrefix); err != nil {
		return fmt.Errorf("key prefix: %w", err)
	}
	return nil
}

// setDefaults sets what may be left out.
func (c *Config) setDefaults() {
	c.DocsURL = cmp.Or(c.DocsURL, c.BaseURL+docs.Path)
	if c.Capacity.Slots == nil {
		c.Capacity.Slots = cpubound.New()
	}
	if c.Anomalies == nil {
		c.Anomalies = translate.KnownAnomalies()
	}
}

// New returns a server that is ready to serve.
func New(c Config) (*Server, error) { return newServer(c, newReference) }

// newServer is New with a function that builds the API reference, or returns one that is already built.
func newServer(c Config, referenceFor func(*Config) (*reference, error)) (*Server, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("configure the server: %w", err)
	}
	c.setDefaults()
	fills, err := newFills(&c)
	if err != nil {
		return nil, err
	}
	s := &Server{
		config: c, fills: fills, largeWork: newLargeWork(c.Capacity.Slots),
		gate: policy.NewGate(policy.Config{
			Directory: directory{c.Store}, Plans: c.Plans, Budget: c.Budget, KeyPrefix: c.KeyPrefix, Now: c.Now,
		}),
		open: newConnections(&c), sendings: newSendings(c.Capacity.sendings(), c.Registry),
		mergers: sync.Pool{New: func() any { return new(translate.Merger) }},
		heads:   sync.Pool{New: func() any { return new(make([]byte, 0, usualHead)) }},
		hedge:   newHedge(c.HedgeDelay, c.Registry), tables: newTableSizes(), published: newPublications(),
		sharing: newSharing(c.CORSOrigins),
		headers: newHeaderReader(&c), errors: newErrorAnswers(c.DocsURL),
	}
	metrics := newMetrics(c.Registry, c.Version)
	s.telemetry = telemetry{now: c.Now, metrics: metrics, tracing: newTracing(c.Tracing, c.BaseURL, s.gate), causes: causeLog{c.Log, metrics.panics}}
	if s.calendar, err = translate.NewCalendar(); err != nil {
		return nil, err
	}
	s.memo = newMemo(s.gate, s.calendar, c.AccessLog.Format)
	if s.portfolios, err = c.Capacity.newPortfolioBudget(); err != nil {
		return nil, err
	}
	if s.reference, err = referenceFor(&s.config); err != nil {
		return nil, err
	}
	if s.health, err = newHealth(&c, s.gate); err != nil {
		return nil, err
	}
	s.admin = newAdmin(&c, s.health)
	if s.cache, err = newCache(&c); err != nil { // which would have to be closed if anything failed after it
		return nil, err
	}
	s.edge = s.newEdge(s.routes())
	s.telemetry.access = newAccessLog(c.AccessLog)
	return s, nil
}

func newCache(c *Config) (*cache.Cache, error) {
	return cache.New(cache.Config{
		Bytes: c.Cache.Bytes, Rows: c.Cache.Rows, Keyring: c.Cache.Keyring, RedisPatience: c.Cache.RedisPatience, Errors: errorCodec{},
		FillTimeout: fillTimeout, Slots: c.Capacity.Slots, Now: c.Now, Log: c.Log, Registry: c.Registry,
	})
}

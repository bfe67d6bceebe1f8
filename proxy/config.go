package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/archive/sqlstore"
	"sara/policy"
	"sara/proxy/cpubound"
	"sara/proxy/docs"
	"sara/translate"
)

// Config configures a Server. Fields are required unless noted otherwise. The caller closes what it passes, after Shutdown.
type Config struct {
	// Who may ask for what.
	Store     *sqlstore.Store
	Plans     policy.Plans
	Budget    policy.Budget
	KeyPrefix string // keys are <KeyPrefix>_live_<secret>

	// What requests are answered with.
	Reports  ReportsConfig
	Cache    CacheConfig
	Capacity Capacity // optional

	BaseURL string // at which clients reach the server: http or https, a host and perhaps a path, without a trailing slash
	DocsURL string // docs_url of every error; empty: the server's own API reference

	// Prefill is what the API reference shows filled in: the key of a demo, which is not secret.
	Prefill docs.Prefill

	// TrustedProxyHeader names the header in which a trusted proxy sends the client's address; empty: the peer of the
	// connection is the client.
	TrustedProxyHeader string

	// CORSOrigins are the origins whose pages may call the API from a browser, each as browsers write it, or AnyOrigin alone; empty: none.
	CORSOrigins []string

	// What operators see: the zero values of these four show the least.
	Health    HealthConfig
	AccessLog AccessLogConfig
	Tracing   TracingConfig
	Profiles  bool // the admin listener serves those of the Go runtime, which show addresses and texts from memory

	Version  string // of the build, for the metrics
	Log      *slog.Logger
	Registry *prometheus.Registry
	Now      func() time.Time
}

// check returns an error that names what is wrong with the configuration.
func (c *Config) check() error {
	if c.Store == nil || c.Reports.Upstream == nil || c.Reports.History == nil || c.Plans == nil || c.Budget == nil || c.Log == nil ||
		c.Registry == nil || c.Now == nil || c.BaseURL == "" || c.Cache.Bytes <= 0 {
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
	if c.Reports.Anomalies == nil {
		c.Reports.Anomalies = translate.KnownAnomalies()
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
	s := &Server{
		now: c.Now,
		gate: policy.NewGate(policy.Config{
			Directory: directory{c.Store}, Plans: c.Plans, Budget: c.Budget, KeyPrefix: c.KeyPrefix, Now: c.Now,
		}),
		open: newConnections(&c), sendings: newSendings(c.Capacity.sendings(), c.Registry),
		sharing: newSharing(c.CORSOrigins),
		headers: newHeaderReader(&c), errors: newErrorAnswers(c.DocsURL),
	}
	s.telemetry = newTelemetry(&c, s.gate)
	var err error
	if s.calendar, err = translate.NewCalendar(); err != nil {
		return nil, err
	}
	s.memo = newMemo(s.gate, s.calendar, c.AccessLog.Format)
	if s.reference, err = referenceFor(&c); err != nil {
		return nil, err
	}
	if s.health, err = newHealth(&c, s.gate); err != nil {
		return nil, err
	}
	s.admin = newAdmin(&c, s.health)
	portfolios, err := c.Capacity.newPortfolioBudget()
	if err != nil {
		return nil, err
	}
	if s.reports, err = newReports(&c, s.gate); err != nil { // which would have to be closed if anything failed after it
		return nil, err
	}
	s.portfolios = &portfolioServer{s.reports, c.Store, portfolios, s.telemetry.causes}
	s.properties = &propertyServer{c.Store, c.Reports.History, s.reports, s.calendar}
	s.agents = newMCPEndpoint(s, &c)
	s.edge = s.newEdge(table())
	return s, nil
}

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
	Process

	// Who may ask for what.
	Store     *sqlstore.Store
	Admission AdmissionConfig

	// What requests are answered with.
	Reports  ReportsConfig
	Cache    CacheConfig
	Capacity Capacity // optional

	// How clients reach the server.
	Public PublicConfig

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
}

// Process is what the parts of a Server use of the process that runs it. All fields but Version are required.
type Process struct {
	Version  string // of the build
	Log      *slog.Logger
	Registry *prometheus.Registry
	Now      func() time.Time
}

// AdmissionConfig says which keys there are, and how much they may ask for. Every field is required.
type AdmissionConfig struct {
	Plans     policy.Plans
	Budget    policy.Budget
	KeyPrefix string // keys are <KeyPrefix>_live_<secret>
}

func newGate(c AdmissionConfig, store *sqlstore.Store, now func() time.Time) *policy.Gate {
	return policy.NewGate(policy.Config{Directory: directory{store}, Plans: c.Plans, Budget: c.Budget, KeyPrefix: c.KeyPrefix, Now: now})
}

// check returns an error that names what is wrong with the configuration.
func (c *Config) check() error {
	if c.Store == nil || c.Reports.Upstream == nil || c.Reports.History == nil || c.Admission.Plans == nil || c.Admission.Budget == nil ||
		c.Log == nil || c.Registry == nil || c.Now == nil || c.Public.BaseURL == "" || c.Cache.Bytes <= 0 {
		return errors.New("BUG: the configuration of the server is not complete")
	}
	if err := c.AccessLog.check(); err != nil {
		return err
	}
	if err := policy.CheckKeyPrefix(c.Admission.KeyPrefix); err != nil {
		return fmt.Errorf("key prefix: %w", err)
	}
	return nil
}

// setDefaults sets what may be left out.
func (c *Config) setDefaults() {
	c.Public.DocsURL = cmp.Or(c.Public.DocsURL, c.Public.BaseURL+docs.Path)
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
func newServer(c Config, referenceFor func(PublicConfig, time.Time) (*reference, error)) (*Server, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("configure the server: %w", err)
	}
	c.setDefaults()
	s := &Server{
		now: c.Now, gate: newGate(c.Admission, c.Store, c.Now),
		headers: newHeaderReader(c.TrustedProxyHeader, c.Now, c.Log), errors: newErrorAnswers(c.Public.DocsURL), sharing: newSharing(c.CORSOrigins),
		network: network{open: c.Capacity.newConnections(c.TrustedProxyHeader != "", c.Process)}, sendings: newSendings(c.Capacity.sendings(), c.Registry),
	}
	s.telemetry = newTelemetry(c.AccessLog, newTracing(c.Tracing, c.Public.BaseURL, s.gate), c.Process)
	var err error
	if s.calendar, err = translate.NewCalendar(); err != nil {
		return nil, err
	}
	s.memo = newMemo(s.gate, s.calendar, c.AccessLog.Format)
	if s.reference, err = referenceFor(c.Public, c.Now()); err != nil {
		return nil, err
	}
	if s.health, err = newHealth(c.Health, c.Store, c.Cache.Rows, s.gate, c.Process); err != nil {
		return nil, err
	}
	s.admin = newAdmin(s.health, c.Registry, c.Profiles)
	portfolios, err := c.Capacity.newPortfolioBudget()
	if err != nil {
		return nil, err
	}
	// Nothing may fail after it: it would have to be closed.
	if s.reports, err = newReports(c.Reports, c.Cache, c.Capacity, c.Store, s.gate, c.Process); err != nil {
		return nil, err
	}
	s.portfolios = &portfolioServer{s.reports, c.Store, portfolios, s.telemetry.causes}
	s.properties = &propertyServer{c.Store, c.Reports.History, s.reports, s.calendar}
	s.agents = newMCPEndpoint(s, c.Public.BaseURL, c.Version)
	s.edge = s.newEdge(table())
	return s, nil
}

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

package inspector

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"sara/archive"
	"sara/archive/sqlstore"
	"sara/proxy/jobs/schedule"
	"sara/proxy/jobs/sitemap"
	"sara/proxy/upstream"
	"sara/translate"
)

// Config configures an Inspector. The first eight members are required; the others have defaults.
type Config struct {
	Store    Store
	History  History
	Gateway  Gateway
	Sitemaps Sitemaps
	Quota    Quota
	Leases   schedule.Leases
	Holder   string // the name of this process, unique among those that share the Leases
	// Current returns a property as it is now; exists is false if it was removed. A run may take hours, during which properties may be
	// removed, archived, or move to another connection.
	Current func(ctx context.Context, id string) (p Property, exists bool, err error)

	schedule.RunConfig

	// Inspections per minute. A site also has a burst of a nineteenth of PerSite, but at most 30. The default and its burst add up
	// to the upstream's limit.
	PerSite int // 0: DefaultPerSite

	Parallel            int           // properties at a time; 0: DefaultParallel
	ParallelInspections int           // of one property at a time; 0: DefaultParallelInspections
	Wait                time.Duration // for the lease of a property; 0: DefaultWait
}

// Defaults of a Config.
const (
	DefaultPerSite             = 570
	DefaultParallel            = 8
	DefaultParallelInspections = 8
	DefaultWait                = schedule.LeaseTTL + 5*time.Second // long enough for the lease of a dead holder to expire
)

const (
	// The largest burst of a site, and a burst as a fraction of the site's limit.
	maxBurst      = 30
	burstFraction = 19
	// After maxRejections consecutive rejections, nothing of the property can be inspected.
	maxRejections = 5
	// minSitemapURLs are read from a property's sitemaps even if its plan inspects fewer: a sitemap has up to 50,000, and
	// the ones with the most clicks may be anywhere in it.
	minSitemapURLs = 50_000
	// leasePoll is how often acquiring the lease of a property is retried while another process holds it.
	leasePoll = time.Second
	// callGrace is how long a call in flight may continue after the run was canceled.
	callGrace = 10 * time.Second
	// saveTimeout bounds the staging of one result.
	saveTimeout = 10 * time.Second
)

// A Property is a property to inspect.
type Property struct {
	upstream.Target
	MaxURLs  int  // that its plan inspects; 0: none
	Archived bool // no longer inspected
	State    sqlstore.IndexState
}

func (p Property) isInspected() bool { return !p.Archived && p.MaxURLs > 0 }

// Store keeps the URLs and their results; *sqlstore.Store documents the methods.
type Store interface {
	SaveIndexRun(ctx context.Context, s sqlstore.IndexState) error
	SaveDiscovery(ctx context.Context, propertyID string, d sqlstore.Discovery) error
	TrackedURLs(ctx context.Context, propertyID string) ([]sqlstore.TrackedURL, error)
	StageInspection(ctx context.Context, propertyID string, i sqlstore.Inspection) error
	PublishInspections(ctx context.Context, propertyID string, day translate.Date, at time.Time) (published int, err error)
}

var _ Store = (*sqlstore.Store)(nil)

// Gateway calls the upstream. It is safe for concurrent use.
type Gateway interface {
	// Sitemaps returns the sitemaps submitted for a property, without those that only an index file names.
	Sitemaps(ctx context.Context, t upstream.Target) ([]upstream.Sitemap, error)
	// Query returns search analytics rows of a property.
	Query(ctx context.Context, t upstream.Target, q translate.Query) (*translate.Rows, error)
	// Inspect returns the index status of a URL of the property. It calls charge before the call upstream, unless it refuses to make
	// the call, and returns the error of charge unchanged.
	Inspect(ctx context.Context, t upstream.Target, url string, charge func(context.Context) error) (upstream.Inspection, error)
}

// Sitemaps reads sitemap files.
type Sitemaps interface {
	Read(ctx context.Context, scope sitemap.Scope, paths []string, maxURLs int) (sitemap.Found, error)
}

var _ Sitemaps = (*sitemap.Reader)(nil)

// History is the archive, which supplies the pages with traffic.
type History interface {
	Read(ctx context.Context, property string, by translate.Dimension, r translate.DateRange, first int) (archive.Result, error)
}

var _ History = (*archive.History)(nil)

// Quota counts inspections for all processes that share the upstream's quota of a site.
type Quota interface {
	// Take takes one inspection of a site on a day of the upstream. If it is not granted, wait is how long until it may be;
	// 0 means that the day's quota is used up.
	Take(ctx context.Context, site string, day translate.Date) (granted bool, wait time.Duration, err error)
}

// Inspector keeps the inspections of properties up to date.
type Inspector struct {
	config   Config
	calendar translate.Calendar
	limiter  schedule.Limiter
	runs     atomic.Int64
}

// New returns an Inspector.
func New(c Config) (*Inspector, error) {
	if c.Store == nil || c.History == nil || c.Gateway == nil || c.Sitemaps == nil || c.Quota == nil || c.Leases == nil || c.Holder == "" ||
		c.Current == nil {
		return nil, errors.New("BUG: the configuration of the inspector is not complete")
	}
	calendar, err := translate.NewCalendar()
	if err != nil {
		return nil, err
	}
	c.RunConfig = c.RunConfig.WithDefaults()
	c.PerSite = cmp.Or(c.PerSite, DefaultPerSite)
	c.Parallel = cmp.Or(c.Parallel, DefaultParallel)
	c.ParallelInspections = cmp.Or(c.ParallelInspections, DefaultParallelInspections)
	c.Wait = cmp.Or(c.Wait, DefaultWait)
	return &Inspector{config: c, calendar: calendar}, nil
}

// Daily returns the job that inspects every property once per upstream day. Properties of one site share its quota, so
// those without results come first, then those with the oldest. The caller sets its Report.
func (i *Inspector) Daily(properties func(ctx context.Context) ([]Property, error)) *schedule.Job[Property, Result] {
	return &schedule.Job[Property, Result]{
		Name:       "inspect",
		Leases:     i.config.Leases,
		Holder:     i.config.Holder,
		Now:        i.config.Now,
		Properties: properties,
		Status: func(p Property) schedule.Status {
			return schedule.Status{ID: p.PropertyID, Credentials: schedule.CredentialsOf(p.Target), Enabled: p.isInspected(),
				DoneAt: p.State.InspectedAt, CooldownUntil: p.State.CooldownUntil}
		},
		Covers: func(done, now time.Time) bool { return i.calendar.Day(done) >= i.calendar.Day(now) },
		Order:  func(a, b Property) int { return refreshedAt(a).Compare(refreshedAt(b)) },
		Work: func(ctx context.Context, due []Property) ([]Result, error) {
			return i.Inspect(ctx, due, Options{})
		},
		Outcome: func(r Result) (Property, error) { return r.Property, r.Err },
	}
}

// refreshedAt returns when results of a property were last published; zero if never.
func refreshedAt(p Property) time.Time {
	if at := p.State.RefreshedAt; at != nil {
		return *at
	}
	return time.Time{}
}

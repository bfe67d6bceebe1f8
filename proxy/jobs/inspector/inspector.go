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
	"sara/translate"
)

// Config is what an Inspector works with. What is zero has a default, but for the first six.
type Config struct {
	Store    Store
	Source   Source
	Sitemaps Sitemaps
	Quota    Quota
	Leases   schedule.Leases
	Holder   string // tells this process from the others that share the Leases

	History  History          // nil: there is no archive, and URLs are found by sitemaps only
	Progress Progress         // nil: nobody watches
	Busy     func() bool      // reports whether customers need the machine now; nil: never
	Now      func() time.Time // which day it is, and the times in the Store; nil: time.Now

	// Inspections a minute. With the burst of a site, which is a nineteenth of it and 30 at most, the default is what the
	// upstream allows.
	PerSite int // 0: DefaultPerSite
	Total   int // 0: DefaultTotal

	Parallel            int           // properties at a time; 0: DefaultParallel
	ParallelInspections int           // of one property at a time; 0: DefaultParallelInspections
	Wait                time.Duration // for a property that another process has; 0: DefaultWait
	RetryPause          time.Duration // before a question is asked again, doubled each time; 0: DefaultRetryPause
	BusyLimit           time.Duration // for which one inspection gives way at most; 0: DefaultBusyLimit
}

// Defaults of a Config.
const (
	DefaultPerSite             = 570
	DefaultTotal               = 10_000
	DefaultParallel            = 8
	DefaultParallelInspections = 8
	DefaultWait                = schedule.LeaseTime + 5*time.Second // so that one that was killed is in nobody's way
	DefaultRetryPause          = time.Minute
	DefaultBusyLimit           = 30 * time.Second
)

const (
	// burst of a site, and the share of its limit that a burst takes.
	longestBurst = 30
	burstShare   = 19
	// patience is how often one question is asked that is not answered.
	patience = 4
	// refusals in a row are taken to mean that nothing of the property can be inspected.
	refusals = 5
	// trafficDays are those whose clicks make a page important.
	trafficDays = 28
	// leastRead is how many URLs of the sitemaps of a property are read, however few its plan inspects: a sitemap has up to
	// 50,000, and the important ones may be anywhere.
	leastRead = 50_000
	// waitPause is how often it is looked whether another process still has a property.
	waitPause = time.Second
	// askLimit is for how long a question that is under way is waited for when the run is over already.
	askLimit = 10 * time.Second
	// saveLimit bounds the time of putting an answer aside when the run is over already.
	saveLimit = 10 * time.Second
)

// A Property is what is inspected.
type Property struct {
	ID         string
	Site       string // as the upstream calls it; several properties may be of one site
	Connection string // the id of what it is read through
	MaxURLs    int    // that its plan inspects; 0: none
	Archived   bool   // not inspected any more
	State      sqlstore.IndexState
}

// Store keeps the URLs and their results; *sqlstore.Store says what its methods do.
type Store interface {
	IndexState(ctx context.Context, propertyID string) (sqlstore.IndexState, error)
	SaveIndexRun(ctx context.Context, s sqlstore.IndexState) error
	SaveDiscovery(ctx context.Context, propertyID string, d sqlstore.Discovery) error
	TrackedURLs(ctx context.Context, propertyID string) ([]sqlstore.TrackedURL, error)
	StageInspection(ctx context.Context, propertyID string, i sqlstore.Inspection) error
	PublishInspections(ctx context.Context, propertyID string, day translate.Date, at time.Time) (published int, err error)
}

var _ Store = (*sqlstore.Store)(nil)

// Source asks the upstream. It is safe for concurrent use, and bounds the time of a question itself. An error that is no
// *schedule.Refusal counts as schedule.Unavailable.
type Source interface {
	// Sitemaps returns the sitemaps that the upstream knows of a property, without those that an index names.
	Sitemaps(ctx context.Context, p Property) ([]Sitemap, error)
	// Inspect returns what the upstream's index holds of an address of the property.
	Inspect(ctx context.Context, p Property, address string) (Inspection, error)
}

// A Sitemap is a sitemap that the upstream knows.
type Sitemap struct {
	Path             string
	LastDownloaded   time.Time // zero: never
	IsPending        bool
	Warnings, Errors int64
}

// An Inspection is the upstream's answer about one address.
type Inspection struct {
	CoverageState string // its label in English
	Verdict       string
	LastCrawl     time.Time // zero: never
}

// Sitemaps reads sitemap files.
type Sitemaps interface {
	Read(ctx context.Context, scope sitemap.Scope, paths []string, maxURLs int) (sitemap.Found, error)
}

var _ Sitemaps = (*sitemap.Reader)(nil)

// History is the archive, of which the pages with traffic are read.
type History interface {
	Read(ctx context.Context, property string, by translate.Dimension, r translate.DateRange) (archive.Result, error)
}

var _ History = (*archive.History)(nil)

// Quota counts the inspections of everybody who shares the upstream's quota of a site.
type Quota interface {
	// Take takes one inspection of a site on a day of the upstream. If it is not granted, it may be after wait; when wait is
	// 0, the day is used up.
	Take(ctx context.Context, site string, day translate.Date) (granted bool, wait time.Duration, err error)
}

// Progress is told what happens. Its methods are called by several goroutines at once.
type Progress interface {
	Discovered(p Property, urls int, capped bool, problems []SitemapProblem) // so many URLs are known and kept
	Started(p Property, urls int)                                            // so many URLs are to be inspected in this run
	Inspected(p Property, url string)                                        // one of them is
	UnknownLabel(p Property, label string)                                   // a coverage label that no bucket is known for
	Paused(p Property, until time.Time, err error)                           // something is tried again then
	Ended(p Property, err error)                                             // nil: what was asked for is done, as far as the day allows
}

type unwatched struct{}

func (unwatched) Discovered(Property, int, bool, []SitemapProblem) {}
func (unwatched) Started(Property, int)                            {}
func (unwatched) Inspected(Property, string)                       {}
func (unwatched) UnknownLabel(Property, string)                    {}
func (unwatched) Paused(Property, time.Time, error)                {}
func (unwatched) Ended(Property, error)                            {}

// Inspector keeps the inspections of properties up to date.
type Inspector struct {
	config   Config
	calendar translate.Calendar
	pace     schedule.Pace
	runs     atomic.Int64
}

// New returns an Inspector.
func New(c Config) (*Inspector, error) {
	if c.Store == nil || c.Source == nil || c.Sitemaps == nil || c.Quota == nil || c.Leases == nil || c.Holder == "" {
		return nil, errors.New("BUG: the configuration of the inspector is not complete")
	}
	calendar, err := translate.NewCalendar()
	if err != nil {
		return nil, err
	}
	if c.Progress == nil {
		c.Progress = unwatched{}
	}
	if c.Busy == nil {
		c.Busy = func() bool { return false }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.PerSite = cmp.Or(c.PerSite, DefaultPerSite)
	c.Total = cmp.Or(c.Total, DefaultTotal)
	c.Parallel = cmp.Or(c.Parallel, DefaultParallel)
	c.ParallelInspections = cmp.Or(c.ParallelInspections, DefaultParallelInspections)
	c.Wait = cmp.Or(c.Wait, DefaultWait)
	c.RetryPause = cmp.Or(c.RetryPause, DefaultRetryPause)
	c.BusyLimit = cmp.Or(c.BusyLimit, DefaultBusyLimit)
	return &Inspector{config: c, calendar: calendar}, nil
}

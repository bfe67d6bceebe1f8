package collector

import (
	"cmp"
	"context"
	"errors"
	"time"

	"sara/archive"
	"sara/archive/sqlstore"
	"sara/proxy/jobs/schedule"
	"sara/proxy/upstream"
	"sara/translate"
)

// Config configures a Collector. The first four members are required; the others have defaults.
type Config struct {
	History History
	Gateway Gateway
	Store   Store
	// Current returns a property as it is now; exists is false if it was removed. A run may take hours, during which properties may be
	// removed, move to another connection, or get a plan that keeps more.
	Current func(ctx context.Context, id string) (p Property, exists bool, err error)

	schedule.RunConfig

	// Calls per minute. The upstream allows 1,200 per site and per user, which is a connection; customers need some of them.
	PerSite       int // 0: DefaultPerSite
	PerConnection int // 0: DefaultPerConnection

	Parallel  int // properties at a time; 0: DefaultParallel
	FlushDays int // days of a property to buffer before they are written; 0: DefaultFlushDays
}

// Defaults of a Config.
const (
	DefaultPerSite       = 300
	DefaultPerConnection = 600
	DefaultParallel      = 16
	DefaultFlushDays     = 10
)

const (
	// GraceDays is how many days beyond a plan's retention are kept.
	GraceDays = 30
	// ProvisionalDays is how many of the last published days may still change although the upstream calls them final.
	ProvisionalDays = 2
	// settledDays is how many days before the anchor a day is final even if it has no figures, or no later one has. It exceeds the longest lag,
	// in case the upstream is later than ever, or fills a gap, or the clock is ahead: zeros of days that are not published must not stay.
	settledDays = 2 * translate.LongestLag
	// maxCooldown is the longest cooldown that a run waits for. The upstream's load quota recovers within a quarter of an hour; its daily
	// quota is left to the next day's run.
	maxCooldown = 20 * time.Minute
)

// Provisional returns the first day whose figures may still change at an anchor, however late the upstream publishes. Figures of
// unknown age, such as imported ones, are not final from that day on.
func Provisional(anchor translate.Date) translate.Date {
	return anchor - translate.LongestLag - ProvisionalDays + 1
}

// A Property is a property to collect.
type Property struct {
	upstream.Target
	RetentionMonths int  // of its plan; 0: the plan keeps nothing, so it is neither collected nor pruned
	Archived        bool // no longer collected, but still pruned
	State           sqlstore.ArchiveState
}

// History is the archive to fill. It is safe for concurrent use.
type History interface {
	Days(ctx context.Context, property string) (archive.Inventory, error)
	Merge(ctx context.Context, property string, days []archive.Day) error
	Prune(ctx context.Context, property string, before translate.Date) error
}

var _ History = (*archive.History)(nil)

// Gateway queries the upstream. It is safe for concurrent use.
type Gateway interface {
	// Query returns the rows of a property, of which those of a series are days of its range.
	Query(ctx context.Context, t upstream.Target, q translate.Query) (*translate.Rows, error)
}

// Store records the state of each property's archive, for people and the API. The archive itself is authoritative.
type Store interface {
	SaveArchiveState(ctx context.Context, s sqlstore.ArchiveState) error
	// NewestArchivedDay returns the last day of all recorded states; nil if there is none.
	NewestArchivedDay(ctx context.Context) (*translate.Date, error)
}

var _ Store = (*sqlstore.Store)(nil)

// Collector fills an archive.
type Collector struct {
	config   Config
	calendar translate.Calendar
}

// New returns a Collector.
func New(c Config) (*Collector, error) {
	if c.History == nil || c.Gateway == nil || c.Store == nil || c.Current == nil {
		return nil, errors.New("BUG: the configuration of the collector is not complete")
	}
	calendar, err := translate.NewCalendar()
	if err != nil {
		return nil, err
	}
	c.RunConfig = c.RunConfig.WithDefaults()
	c.PerSite = cmp.Or(c.PerSite, DefaultPerSite)
	c.PerConnection = cmp.Or(c.PerConnection, DefaultPerConnection)
	c.Parallel = cmp.Or(c.Parallel, DefaultParallel)
	c.FlushDays = cmp.Or(c.FlushDays, DefaultFlushDays)
	return &Collector{config: c, calendar: calendar}, nil
}

// Daily returns the job that collects every property once a day: those that were not completed since the anchor moved. The
// caller sets its Leases, Holder and Report.
func (c *Collector) Daily(properties func(ctx context.Context) ([]Property, error)) *schedule.Job[Property, Result] {
	return &schedule.Job[Property, Result]{
		Name:       "collect",
		Now:        c.config.Now,
		Properties: properties,
		Status: func(p Property) schedule.Status {
			return schedule.Status{ID: p.PropertyID, Credentials: schedule.CredentialsOf(p.Target), Enabled: p.RetentionMonths > 0,
				DoneAt: p.State.CollectedAt, CooldownUntil: p.State.CooldownUntil}
		},
		Covers: func(done, now time.Time) bool { return c.calendar.Anchor(done) >= c.calendar.Anchor(now) },
		Work: func(ctx context.Context, due []Property) ([]Result, error) {
			return c.Collect(ctx, due, Span{})
		},
		Outcome: func(r Result) (Property, error) { return r.Property, r.Err },
	}
}

package collector

import (
	"cmp"
	"context"
	"errors"
	"time"

	"sara/archive"
	"sara/translate"
)

// Config is what a Collector works with. What is zero has a default, but for the first three.
type Config struct {
	History History
	Source  Source
	Ledger  Ledger

	Rests    Rests            // nil: nobody shares what the upstream refused
	Progress Progress         // nil: nobody watches
	Busy     func() bool      // reports whether customers need the machine now; nil: never
	Now      func() time.Time // which day it is, and the times in the Ledger; nil: time.Now

	// Calls a minute. The upstream allows 1,200 for a site and for a user, which a connection is; customers need some, too.
	PerSite       int // 0: DefaultPerSite
	PerConnection int // 0: DefaultPerConnection
	Total         int // 0: DefaultTotal

	Parallel   int           // properties at a time; 0: DefaultParallel
	FlushDays  int           // days of a property that are held before they are written; 0: DefaultFlushDays
	GraceDays  int           // for which days past the retention of the plan are kept; 0: DefaultGraceDays
	RetryPause time.Duration // before a property is tried again, doubled each time; 0: DefaultRetryPause
	BusyLimit  time.Duration // for which one call gives way at most; 0: DefaultBusyLimit
}

// Defaults of a Config.
const (
	DefaultPerSite       = 300
	DefaultPerConnection = 600
	DefaultTotal         = 10_000
	DefaultParallel      = 16
	DefaultFlushDays     = 10
	DefaultGraceDays     = 30
	DefaultRetryPause    = time.Minute
	DefaultBusyLimit     = 30 * time.Second
)

const (
	// provisionalDays up to the anchor may still change, although the upstream calls them final.
	provisionalDays = 2
	// patience is how many tries of a property in a row may come to nothing.
	patience = 4
	// longestRest is the longest that a run waits for a site. The upstream's load quota takes a quarter of an hour; its
	// quota of a day is a matter for the next day.
	longestRest = 20 * time.Minute
)

// A Property is what is collected.
type Property struct {
	ID              string
	Site            string // as the upstream calls it; several properties may be of one site
	Connection      string // the id of what it is read through
	RetentionMonths int    // of its plan; 0: its plan keeps nothing, and it is neither collected nor pruned
	Archived        bool   // not collected any more, but pruned
	State           State  // as the Ledger has it
}

// A State is what the Ledger keeps of a property. It is for people: the truth is in the archive.
type State struct {
	PropertyID  string
	First, Last *translate.Date // first and last archived day; nil while nothing is archived
	CollectedAt *time.Time      // when the last run began that collected all there was; nil for never
	RestsUntil  *time.Time      // until when the upstream does not want its site to be asked; nil when it does not mind
	Failures    int             // attempts that have failed since the last that did not
	Note        string          // why the last attempt failed, for people; empty if it did not
}

// History is the archive to fill. It is safe for concurrent use.
type History interface {
	Days(ctx context.Context, property string) (archive.Inventory, error)
	Merge(ctx context.Context, property string, days []archive.Day) error
	Prune(ctx context.Context, property string, before translate.Date) error
}

var _ History = (*archive.History)(nil)

// Ledger remembers how the archive of each property stands.
type Ledger interface {
	SaveState(ctx context.Context, s State) error
}

// Rests is what everybody who asks the upstream knows of sites that are to be left alone.
type Rests interface {
	// Resting returns for how long a site rests still, and the error it rests with; 0 and nil when it may be asked.
	Resting(ctx context.Context, site string) (time.Duration, error)
	// Rest remembers until when a site is not to be asked.
	Rest(ctx context.Context, site string, err error, until time.Time)
}

// Progress is told what happens. Its methods are called by several goroutines at once.
type Progress interface {
	Started(p Property, days int)                  // there are so many days to collect, or after a pause that many left
	Collected(p Property, day translate.Date)      // one of them is done, though perhaps not written yet
	Paused(p Property, until time.Time, err error) // it is tried again then
	Pruned(p Property, before translate.Date)      // days before that have been forgotten
	Ended(p Property, err error)                   // nil: everything there was to collect is archived
}

type unwatched struct{}

func (unwatched) Started(Property, int)              {}
func (unwatched) Collected(Property, translate.Date) {}
func (unwatched) Paused(Property, time.Time, error)  {}
func (unwatched) Pruned(Property, translate.Date)    {}
func (unwatched) Ended(Property, error)              {}

// Collector fills an archive.
type Collector struct {
	config   Config
	calendar translate.Calendar
}

// New returns a Collector.
func New(c Config) (*Collector, error) {
	if c.History == nil || c.Source == nil || c.Ledger == nil {
		return nil, errors.New("BUG: the configuration of the collector is not complete")
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
	c.PerConnection = cmp.Or(c.PerConnection, DefaultPerConnection)
	c.Total = cmp.Or(c.Total, DefaultTotal)
	c.Parallel = cmp.Or(c.Parallel, DefaultParallel)
	c.FlushDays = cmp.Or(c.FlushDays, DefaultFlushDays)
	c.GraceDays = cmp.Or(c.GraceDays, DefaultGraceDays)
	c.RetryPause = cmp.Or(c.RetryPause, DefaultRetryPause)
	c.BusyLimit = cmp.Or(c.BusyLimit, DefaultBusyLimit)
	return &Collector{config: c, calendar: calendar}, nil
}

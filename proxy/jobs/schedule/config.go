package schedule

import (
	"cmp"
	"context"
	"time"
)

// RunConfig is the common configuration of both jobs. Its zero fields have defaults.
type RunConfig struct {
	Progress   Progress         // nil: not observed
	Busy       func() bool      // reports whether the server is busy with customers' requests; nil: never
	Now        func() time.Time // decides the day and the stored times; nil: time.Now
	Total      int              // calls per minute, for all sites together; 0: DefaultTotal
	RetryPause time.Duration    // before the first retry, doubled after each one; 0: DefaultRetryPause
}

// Defaults of a RunConfig.
const (
	DefaultTotal      = 10_000
	DefaultRetryPause = time.Minute
)

// BusyLimit is how long one call yields to customers, at most.
const BusyLimit = 30 * time.Second

// WithDefaults returns the configuration with its defaults filled in.
func (c RunConfig) WithDefaults() RunConfig {
	if c.Progress == nil {
		c.Progress = NoProgress{}
	}
	if c.Busy == nil {
		c.Busy = func() bool { return false }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Total = cmp.Or(c.Total, DefaultTotal)
	c.RetryPause = cmp.Or(c.RetryPause, DefaultRetryPause)
	return c
}

// Pace waits while the server is busy, but no longer than BusyLimit, and then until the limits and Total allow one more call: calls that have
// waited for the server together are spaced like others.
func (c *RunConfig) Pace(ctx context.Context, limiter *Limiter, limits ...Limit) error {
	if err := yieldToTraffic(ctx, c.Busy, BusyLimit); err != nil {
		return err
	}
	return limiter.Wait(ctx, append(limits, Limit{Name: "all", PerMinute: c.Total})...)
}

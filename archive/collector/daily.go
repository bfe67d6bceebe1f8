package collector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Leases are what processes take turns by.
type Leases interface {
	// AcquireLease takes the lease for a time unless another holds it, and reports whether the holder has it.
	AcquireLease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error)
	// RenewLease lets the holder keep it for another ttl, and reports whether it held it still.
	RenewLease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error)
	// ReleaseLease gives it back.
	ReleaseLease(ctx context.Context, name, holder string) error
}

// Daily collects every property once a day, on one of the replicas that share the Leases. All members but Jitter and Every
// are required.
type Daily struct {
	Collector  *Collector
	Properties func(ctx context.Context) ([]Property, error) // all there are, with their States
	Leases     Leases
	Holder     string        // tells this replica from the others
	Jitter     time.Duration // for how long this replica lets a new day rest before it collects it
	Every      time.Duration // how often it looks for work; 0: DefaultEvery
	// Report is told what became of the properties that were collected, or why none could be.
	Report func(ctx context.Context, results []Result, err error)
}

// DefaultEvery is how often Daily looks for work. That costs one or two queries to the store.
const DefaultEvery = 10 * time.Minute

const (
	leaseName = "collect"
	leaseTTL  = time.Minute
	// How long a property is left alone that could not be collected, by whether that may have passed by then. It is known
	// to this process only: another replica finds out for itself.
	shortLeave = time.Hour
	longLeave  = 12 * time.Hour
)

// errLeaseLost ends the work of a replica that cannot show any more that it is its turn.
var errLeaseLost = errors.New("the lease of the collector is lost: another replica may be at work")

// Run collects what is due, looks again every so often, and returns when ctx has ended and all work with it.
func (d *Daily) Run(ctx context.Context) {
	every := d.Every
	if every == 0 {
		every = DefaultEvery
	}
	left := make(map[string]time.Time)
	for {
		results, err := d.round(ctx, left)
		if ctx.Err() != nil {
			return
		}
		if len(results) > 0 || err != nil {
			d.Report(ctx, results, err)
		}
		if pause(ctx, every) != nil {
			return
		}
	}
}

// round collects what is due if it is this replica's turn. left is until when properties are left alone.
func (d *Daily) round(ctx context.Context, left map[string]time.Time) (results []Result, err error) {
	due, err := d.due(ctx, left)
	if err != nil || len(due) == 0 {
		return nil, err
	}
	err = d.hold(ctx, func(ctx context.Context) error {
		// Another replica may have collected them while this one waited for its turn.
		due, err := d.due(ctx, left)
		if err != nil || len(due) == 0 {
			return err
		}
		results, err = d.Collector.Collect(ctx, due, Span{})
		return err
	})
	if err != nil { // the properties are not to blame
		return results, err
	}
	now := d.Collector.config.Now()
	for _, r := range results {
		switch {
		case r.Err == nil:
			delete(left, r.Property.ID)
		case mayPass(r.Err):
			left[r.Property.ID] = now.Add(shortLeave)
		default:
			left[r.Property.ID] = now.Add(longLeave)
		}
	}
	return results, nil
}

func mayPass(err error) bool {
	class := classOf(err)
	return class == Unavailable || class == Quota
}

// due returns the properties that were not completed since the anchor moved. The anchor counts as moved once the replica's
// jitter has passed, so that the replicas do not all come at midnight; one that was never collected does not wait.
func (d *Daily) due(ctx context.Context, left map[string]time.Time) ([]Property, error) {
	properties, err := d.Properties(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for properties to collect: %w", err)
	}
	c := d.Collector
	now := c.config.Now()
	anchor := c.calendar.Anchor(now.Add(-d.Jitter))
	var due []Property
	for _, p := range properties {
		done := p.State.CollectedAt
		rests := p.State.RestsUntil
		switch {
		case p.RetentionMonths <= 0:
		case done != nil && c.calendar.Anchor(*done) >= anchor:
		case rests != nil && rests.After(now), left[p.ID].After(now):
		default:
			due = append(due, p)
		}
	}
	return due, nil
}

// hold runs do while this replica holds the lease, and not at all when another does. The context of do ends when the lease
// is lost.
func (d *Daily) hold(ctx context.Context, do func(ctx context.Context) error) error {
	got, err := d.Leases.AcquireLease(ctx, leaseName, d.Holder, leaseTTL)
	if err != nil || !got {
		return err
	}
	held, lose := context.WithCancelCause(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() { d.renew(held, lose) })
	err = do(held)
	lose(nil)
	renewing.Wait()
	releasing, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseTTL/6)
	defer cancel()
	return errors.Join(err, d.Leases.ReleaseLease(releasing, leaseName, d.Holder))
}

// renew keeps the lease until ctx ends, and ends it by lose when it cannot.
func (d *Daily) renew(ctx context.Context, lose context.CancelCauseFunc) {
	renewed := time.Now()
	for pause(ctx, leaseTTL/6) == nil {
		asked := time.Now()
		bounded, cancel := context.WithTimeout(ctx, leaseTTL/6)
		held, err := d.Leases.RenewLease(bounded, leaseName, d.Holder, leaseTTL)
		cancel()
		switch {
		case err == nil && held:
			renewed = asked
		case err == nil, time.Since(renewed) >= leaseTTL/2:
			lose(errors.Join(errLeaseLost, err))
			return
		}
	}
}

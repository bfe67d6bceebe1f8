package collector

import (
	"context"
	"fmt"
	"time"

	"sara/proxy/jobs/schedule"
)

// Daily collects every property once a day, on one of the replicas that share the Leases. All members but Jitter and Every
// are required.
type Daily struct {
	Collector  *Collector
	Properties func(ctx context.Context) ([]Property, error) // all there are, with their States
	Leases     schedule.Leases
	Holder     string        // tells this replica from the others
	Jitter     time.Duration // for how long this replica lets a new day rest before it collects it
	Every      time.Duration // how often it looks for work; 0: schedule.DefaultEvery
	// Report is told what became of the properties that were collected, or why none could be.
	Report func(ctx context.Context, results []Result, err error)
}

// Run collects what is due, looks again every so often, and returns when ctx has ended and all work with it.
func (d *Daily) Run(ctx context.Context) {
	job := schedule.Job[Property, Result]{
		Leases: d.Leases, Lease: "collect", Holder: d.Holder, Every: d.Every, Now: d.Collector.config.Now,
		Due: d.due,
		ID:  func(p Property) string { return p.ID },
		Work: func(ctx context.Context, due []Property) ([]Result, error) {
			return d.Collector.Collect(ctx, due, Span{})
		},
		Ended:  func(r Result) (string, error) { return r.Property.ID, r.Err },
		Report: d.Report,
	}
	job.Run(ctx)
}

// due returns the properties that were not completed since the anchor moved. The anchor counts as moved once the replica's
// jitter has passed, so that the replicas do not all come at midnight; one that was never collected does not wait.
func (d *Daily) due(ctx context.Context) ([]Property, error) {
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
		case rests != nil && rests.After(now):
		default:
			due = append(due, p)
		}
	}
	return due, nil
}

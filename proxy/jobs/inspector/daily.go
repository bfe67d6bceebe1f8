package inspector

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sara/proxy/jobs/schedule"
)

// Daily inspects every property once a day, on one of the replicas that share the Leases of the Inspector. All members but
// Jitter and Every are required.
type Daily struct {
	Inspector  *Inspector
	Properties func(ctx context.Context) ([]Property, error) // all there are, with their States
	Jitter     time.Duration                                 // for how long this replica lets a new day rest before it begins
	Every      time.Duration                                 // how often it looks for work; 0: schedule.DefaultEvery
	// Report is told what became of the properties that were inspected, or why none could be.
	Report func(ctx context.Context, results []Result, err error)
}

// Run inspects what is due, looks again every so often, and returns when ctx has ended and all work with it.
func (d *Daily) Run(ctx context.Context) {
	config := d.Inspector.config
	job := schedule.Job[Property, Result]{
		Leases: config.Leases, Lease: "inspect", Holder: config.Holder, Every: d.Every, Now: config.Now,
		Due: d.due,
		ID:  func(p Property) string { return p.ID },
		Work: func(ctx context.Context, due []Property) ([]Result, error) {
			return d.Inspector.Inspect(ctx, due, Options{})
		},
		Ended:  func(r Result) (string, error) { return r.Property.ID, r.Err },
		Report: d.Report,
	}
	job.Run(ctx)
}

// due returns the properties of which not all was inspected since the upstream's day began: first those without results and
// then those with the oldest, because properties of one site share its quota. The day counts as begun once the replica's jitter
// has passed, so that the replicas do not all come at midnight; a property that was never inspected does not wait.
func (d *Daily) due(ctx context.Context) ([]Property, error) {
	properties, err := d.Properties(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for properties to inspect: %w", err)
	}
	calendar, now := d.Inspector.calendar, d.Inspector.config.Now()
	today := calendar.Day(now.Add(-d.Jitter))
	var due []Property
	for _, p := range properties {
		done, rests := p.State.InspectedAt, p.State.RestsUntil
		switch {
		case p.Archived, p.MaxURLs <= 0:
		case done != nil && calendar.Day(*done) >= today:
		case rests != nil && rests.After(now):
		default:
			due = append(due, p)
		}
	}
	slices.SortStableFunc(due, func(a, b Property) int { return refreshed(a).Compare(refreshed(b)) })
	return due, nil
}

// refreshed returns when results of a property were last published; zero for never.
func refreshed(p Property) time.Time {
	if at := p.State.RefreshedAt; at != nil {
		return *at
	}
	return time.Time{}
}

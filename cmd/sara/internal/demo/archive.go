package demo

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"sara/archive"
	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/jobs"
	"sara/proxy/jobs/collector"
	"sara/proxy/upstream/gscsim"
	"sara/translate"
)

// Months are the lengths of the archived history: main and gaps look collected up to today, the others up to the end of last month.
type Months struct {
	Main, Gaps, Others int
	Without            translate.DateRange // days that are not archived, so that a test need not wait for them
}

func usualMonths() Months { return Months{Main: 36, Gaps: 24, Others: 24} }

// A Past fills the archive of a demo world with the days that the collector would have archived.
type Past struct {
	simulator *gscsim.Server // the simulated Search Console with a longer retention
	history   *archive.History
	Anchor    translate.Date // the last day of the past
	months    Months
	now       func() time.Time
}

// seedPast archives a world's past, index coverage included.
func seedPast(ctx context.Context, users *Users, world *World, source *jobs.Source, history *archive.History, m Months, now func() time.Time) error {
	p, err := newPast(users, history, m, now)
	if err != nil {
		return err
	}
	if err := p.fill(ctx, world, source.Store); err != nil {
		return fmt.Errorf("seed the archive of the demo world: %w", err)
	}
	if err := p.index(ctx, world, source, history); err != nil {
		return fmt.Errorf("seed the index coverage of the demo world: %w", err)
	}
	return nil
}

// NewPast returns the past of the users' sites, to be archived in history.
func NewPast(users *Users, history *archive.History, now func() time.Time) (*Past, error) {
	return newPast(users, history, usualMonths(), now)
}

func newPast(users *Users, history *archive.History, m Months, now func() time.Time) (*Past, error) {
	calendar, err := translate.NewCalendar()
	if err != nil {
		return nil, err
	}
	config := users.Simulation(now)
	config.RetentionMonths = m.Main + 1
	return &Past{simulator: gscsim.New(config), history: history, Anchor: calendar.Anchor(now()), months: m, now: now}, nil
}

// archived returns the spans of the archived days of a demo property, oldest first; none if it has no archive.
func (p *Past) archived(property string) (spans []translate.DateRange) {
	for _, days := range p.usuallyArchived(property) {
		before := translate.DateRange{Start: days.Start, End: min(days.End, p.months.Without.Start-1)}
		after := translate.DateRange{Start: max(days.Start, p.months.Without.End+1), End: days.End}
		for _, part := range []translate.DateRange{before, after} {
			if part.Start <= part.End {
				spans = append(spans, part)
			}
		}
	}
	return spans
}

func (p *Past) usuallyArchived(property string) []translate.DateRange {
	lastMonth := p.Anchor - translate.Date(p.Anchor.Time().Day())
	switch property {
	case "main":
		return []translate.DateRange{{Start: translate.NewWindow(p.Anchor, p.months.Main).Earliest, End: p.Anchor}}
	case "archived", "disconnected":
		return []translate.DateRange{{Start: (lastMonth + 1).AddMonths(-p.months.Others), End: lastMonth}}
	case "gaps":
		// The hole is a week before the live window, so that live figures do not fill it.
		window := translate.NewWindow(p.Anchor, p.months.Gaps)
		hole := translate.DateRange{Start: window.UpstreamStart - 7, End: window.UpstreamStart - 5}
		return []translate.DateRange{{Start: window.Earliest, End: hole.Start - 1}, {Start: max(window.Earliest, hole.End+1), End: p.Anchor}}
	}
	return nil
}

// fill archives the past of a world, and records in the database which days are archived.
func (p *Past) fill(ctx context.Context, world *World, store *sqlstore.Store) error {
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(2 * runtime.GOMAXPROCS(0)) // some of them wait for the disk
	for name, property := range world.Properties {
		for _, days := range p.archived(name) {
			for _, part := range days.ByMonth() {
				group.Go(func() error { return p.Archive(within, property, part) })
			}
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for name, property := range world.Properties {
		if len(p.archived(name)) == 0 {
			continue
		}
		if err := p.recordDays(ctx, store, property.ID); err != nil {
			return err
		}
	}
	return nil
}

// recordDays records the archived days of a property, like a run that found nothing more to collect.
func (p *Past) recordDays(ctx context.Context, store *sqlstore.Store, property string) error {
	state := sqlstore.ArchiveState{PropertyID: property}
	if err := collector.Cover(ctx, p.history, &state); err != nil {
		return err
	}
	if now := p.now(); state.Last != nil && *state.Last >= p.Anchor {
		state.CollectedAt = &now
	}
	return store.SaveArchiveState(ctx, state)
}

// Archive sends the collector's queries about days of a property, and archives the answers as it does.
func (p *Past) Archive(ctx context.Context, property Property, days translate.DateRange) error {
	var requests [][]byte
	var archived []archive.Day
	for day := days.Start; day <= days.End; day++ {
		for _, by := range archive.Dimensions() {
			question := translate.DayQuery(property.GSCProperty, by, day, archive.TopRows)
			if by == translate.ByDate {
				question = translate.SeriesQuery(property.GSCProperty, translate.DateRange{Start: day, End: day}, nil)
			}
			requests = append(requests, question.Body())
			archived = append(archived, archive.Day{Date: day, Dimension: by, Final: day <= p.Anchor-collector.ProvisionalDays})
		}
	}
	answers, err := p.simulator.Answers(ctx, property.GSCProperty, requests...)
	if err != nil {
		return err
	}
	for i, answer := range answers {
		if archived[i].Rows, err = translate.ReadRows(bytes.NewReader(answer), archived[i].Dimension); err != nil {
			return fmt.Errorf("%s on %s: %w", property.GSCProperty, archived[i].Date, err)
		}
	}
	return p.history.Merge(ctx, property.ID, archived)
}

package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"sara/archive"
	"sara/archive/sqlstore"
	"sara/proxy/upstream/gscsim"
	"sara/translate"
)

// The archive of the demo: main looks collected up to today, the others up to the end of last month.
const (
	mainMonths  = 36
	otherMonths = 24
)

// A historian fills the archive of a demo world with what the collector would have archived.
type historian struct {
	past    *gscsim.Server // the simulated Search Console with a longer retention
	history *archive.History
	anchor  translate.Date
	now     func() time.Time
}

// seedPast archives a world's past, index coverage included.
func seedPast(ctx context.Context, cast *cast, world *demoWorld, source *searchConsole, history *archive.History, now func() time.Time) error {
	h, err := newHistorian(cast, history, now)
	if err != nil {
		return err
	}
	if err := h.fill(ctx, world, source.store); err != nil {
		return fmt.Errorf("seed the archive of the demo world: %w", err)
	}
	if err := h.index(ctx, world, source, history); err != nil {
		return fmt.Errorf("seed the index coverage of the demo world: %w", err)
	}
	return nil
}

func newHistorian(cast *cast, history *archive.History, now func() time.Time) (*historian, error) {
	calendar, err := translate.NewCalendar()
	if err != nil {
		return nil, err
	}
	config := cast.simulation(now)
	config.RetentionMonths = mainMonths + 1
	return &historian{past: gscsim.New(config), history: history, anchor: calendar.Anchor(now()), now: now}, nil
}

// archived returns the archived days of a demo property; ok is false if it has none.
func (h *historian) archived(property string) (translate.DateRange, bool) {
	lastMonth := h.anchor - translate.Date(h.anchor.Time().Day())
	switch property {
	case "main":
		return translate.DateRange{Start: translate.NewWindow(h.anchor, mainMonths).Earliest, End: h.anchor}, true
	case "archived", "disconnected":
		return translate.DateRange{Start: (lastMonth + 1).AddMonths(-otherMonths), End: lastMonth}, true
	}
	return translate.DateRange{}, false
}

// fill archives the past of a world, and records in the database which days are archived.
func (h *historian) fill(ctx context.Context, world *demoWorld, store *sqlstore.Store) error {
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(2 * runtime.GOMAXPROCS(0)) // some of them wait for the disk
	for name, property := range world.Properties {
		days, ok := h.archived(name)
		for first := days.Start; ok && first <= days.End; {
			year, month, _ := first.Time().Date()
			next := translate.NewDate(year, month+1, 1)
			part := translate.DateRange{Start: first, End: min(next-1, days.End)}
			group.Go(func() error { return h.archive(within, property, part) })
			first = next
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for name, property := range world.Properties {
		if _, ok := h.archived(name); !ok {
			continue
		}
		if err := h.note(ctx, store, property.ID); err != nil {
			return err
		}
	}
	return nil
}

// note records the archived days of a property like a run that found nothing more to collect.
func (h *historian) note(ctx context.Context, store *sqlstore.Store, property string) error {
	state, err := noteArchivedDays(ctx, store, h.history, property)
	if err != nil || state.Last == nil || *state.Last < h.anchor {
		return err
	}
	now := h.now()
	state.CollectedAt = &now
	return store.SaveArchiveState(ctx, state)
}

// archive sends the collector's queries about days of a property, and archives the answers as it does.
func (h *historian) archive(ctx context.Context, property demoProperty, days translate.DateRange) error {
	var requests [][]byte
	var archived []archive.Day
	for day := days.Start; day <= days.End; day++ {
		for _, by := range archive.Dimensions() {
			question := translate.DayQuery(property.GSCProperty, by, day, archive.TopRows)
			if by == translate.ByDate {
				question = translate.SeriesQuery(property.GSCProperty, translate.DateRange{Start: day, End: day}, nil)
			}
			requests = append(requests, question.Body())
			archived = append(archived, archive.Day{Date: day, Dimension: by, Final: day <= h.anchor-(dailyDays-1)})
		}
	}
	answers, err := h.past.Answers(ctx, property.GSCProperty, requests...)
	if err != nil {
		return err
	}
	for i, answer := range answers {
		if archived[i].Rows, err = translate.ReadRows(answer, archived[i].Dimension); err != nil {
			return fmt.Errorf("%s on %s: %w", property.GSCProperty, archived[i].Date, err)
		}
	}
	return h.history.Merge(ctx, property.ID, archived)
}

package demo

import (
	"context"
	"time"

	"github.com/google/uuid"

	"sara/archive"
	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/jobs"
	"sara/proxy/jobs/inspector"
	"sara/proxy/jobs/schedule"
	"sara/proxy/jobs/sitemap"
	"sara/translate"
)

// The demo's main property looks inspected every day, with a trend of a year; the others look just connected.
const trendDays = 365

// index discovers and inspects the URLs of the main property, and adds the past that its trend shows.
func (p *Past) index(ctx context.Context, world *World, source *jobs.Source, history *archive.History) error {
	main := world.Properties["main"]
	properties, err := source.Inspectable(ctx)
	if err != nil {
		return err
	}
	for _, property := range properties {
		if property.PropertyID == main.ID {
			if err := p.inspect(ctx, property, source, history); err != nil {
				return err
			}
		}
	}
	return p.indexPast(ctx, main, source.Store)
}

// indexPast adds a row to the trend for each of the last days except today.
func (p *Past) indexPast(ctx context.Context, property Property, store *sqlstore.Store) error {
	tracked, err := store.TrackedURLs(ctx, property.ID)
	if err != nil {
		return err
	}
	known := make(map[string]bool, len(tracked))
	for _, u := range tracked {
		known[u.URL] = true
	}
	calendar, err := translate.NewCalendar()
	if err != nil {
		return err
	}
	today := calendar.Day(p.now())
	for day := today - trendDays + 1; day < today; day++ {
		if err := store.SaveIndexDay(ctx, property.ID, p.indexDay(property.GSCProperty, known, day, calendar.Start(day))); err != nil {
			return err
		}
	}
	return nil
}

// inspect runs the inspector once, unthrottled, and reads sitemaps from the simulated web, because the demo's hosts do not exist.
func (p *Past) inspect(ctx context.Context, property inspector.Property, source *jobs.Source, history *archive.History) error {
	const perMinute = 1_000_000
	sitemaps, err := sitemap.New(sitemap.Config{Transport: p.simulator.Web()})
	if err != nil {
		return err
	}
	work, err := inspector.New(inspector.Config{Store: source.Store, Current: source.CurrentInspectable, Gateway: source.Gateway, Sitemaps: sitemaps,
		Quota: jobs.InspectionQuota(source.Store, nil), Leases: source.Store, Holder: uuid.NewString(), History: history,
		RunConfig: schedule.RunConfig{Now: p.now, Total: perMinute}, PerSite: perMinute})
	if err != nil {
		return err
	}
	results, err := work.Inspect(ctx, []inspector.Property{property}, inspector.Options{})
	if err == nil {
		err = results[0].Err
	}
	return err
}

// indexDay returns the counts that inspections of the known URLs would have found on a day.
func (p *Past) indexDay(site string, known map[string]bool, day translate.Date, at time.Time) sqlstore.IndexDay {
	counts := make(map[translate.Bucket]int)
	for _, page := range p.simulator.Coverage(site, at) {
		if known[page.URL] {
			bucket, _ := translate.BucketOf(page.CoverageState)
			counts[bucket]++
		}
	}
	return sqlstore.IndexDay{Date: day, URLs: len(known), Indexed: counts[translate.BucketIndexed], NotIndexed: counts[translate.BucketNotIndexed],
		Error: counts[translate.BucketError], Unknown: counts[translate.BucketUnknown]}
}

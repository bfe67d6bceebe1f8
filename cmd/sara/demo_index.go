package main

import (
	"context"
	"time"

	"github.com/google/uuid"

	"sara/archive"
	"sara/archive/sqlstore"
	"sara/proxy/jobs/inspector"
	"sara/proxy/jobs/schedule"
	"sara/proxy/jobs/sitemap"
	"sara/translate"
)

// The demo's main property looks inspected every day, with a trend of a year; the others look just connected.
const trendDays = 365

// index discovers and inspects the URLs of the main property, and adds the past that its trend shows.
func (h *historian) index(ctx context.Context, world *demoWorld, source *searchConsole, history *archive.History) error {
	main := world.Properties["main"]
	properties, err := source.inspectable(ctx)
	if err != nil {
		return err
	}
	for _, p := range properties {
		if p.PropertyID == main.ID {
			if err := h.inspect(ctx, p, source, history); err != nil {
				return err
			}
		}
	}
	return h.indexPast(ctx, main, source.store)
}

// indexPast adds a row to the trend for each of the last days but today.
func (h *historian) indexPast(ctx context.Context, property demoProperty, store *sqlstore.Store) error {
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
	today := calendar.Day(h.now())
	for day := today - trendDays + 1; day < today; day++ {
		if err := store.SaveIndexDay(ctx, property.ID, h.indexDay(property.GSCProperty, known, day, calendar.Start(day))); err != nil {
			return err
		}
	}
	return nil
}

// inspect runs the inspector once, unthrottled, and reads sitemaps from the simulated web, because the demo's hosts do not exist.
func (h *historian) inspect(ctx context.Context, p inspector.Property, source *searchConsole, history *archive.History) error {
	const perMinute = 1_000_000
	sitemaps, err := sitemap.New(sitemap.Config{Transport: h.past.Web()})
	if err != nil {
		return err
	}
	work, err := inspector.New(inspector.Config{Store: source.store, Gateway: source.gateway, Sitemaps: sitemaps, Quota: storedQuota{source.store},
		Leases: source.store, Holder: uuid.NewString(), History: history,
		RunConfig: schedule.RunConfig{Now: h.now, Total: perMinute}, PerSite: perMinute})
	if err != nil {
		return err
	}
	results, err := work.Inspect(ctx, []inspector.Property{p}, inspector.Options{})
	if err == nil {
		err = results[0].Err
	}
	return err
}

// indexDay returns the counts that inspections of the known URLs would have found on a day.
func (h *historian) indexDay(site string, known map[string]bool, day translate.Date, at time.Time) sqlstore.IndexDay {
	counts := make(map[translate.Bucket]int)
	for _, page := range h.past.Coverage(site, at) {
		if known[page.URL] {
			bucket, _ := translate.BucketOf(page.CoverageState)
			counts[bucket]++
		}
	}
	return sqlstore.IndexDay{Date: day, URLs: len(known), Indexed: counts[translate.BucketIndexed], NotIndexed: counts[translate.BucketNotIndexed],
		Error: counts[translate.BucketError], Unknown: counts[translate.BucketUnknown]}
}

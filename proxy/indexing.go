package proxy

import (
	"context"
	"fmt"
	"time"

	"sara/archive/sqlstore"
	"sara/proxy/openapi"
	"sara/translate"
)

// indexing is the data of /indexing. Before the status is ready its counts are 0, and a note says that nothing is known yet.
type indexing struct {
	Status          string        `json:"status"`
	DiscoverySource *string       `json:"discovery_source"`
	URLCount        int           `json:"url_count"`
	URLsCapped      bool          `json:"urls_capped"`
	LastRefreshedAt *string       `json:"last_refreshed_at"`
	Totals          indexTotals   `json:"totals"`
	Breakdown       []coverageRow `json:"breakdown"`
	Sitemaps        []sitemapRow  `json:"sitemaps"`
	Trend           []trendRow    `json:"trend"`
}

type indexTotals struct {
	TotalURLs     int `json:"total_urls"`
	InspectedURLs int `json:"inspected_urls"`
	Indexed       int `json:"indexed"`
	NotIndexed    int `json:"not_indexed"`
}

type coverageRow struct {
	CoverageState string `json:"coverage_state"`
	Bucket        string `json:"bucket"`
	Count         int    `json:"count"`
}

type sitemapRow struct {
	Path           string  `json:"path"`
	TotalURLs      int     `json:"total_urls"`
	InspectedURLs  int     `json:"inspected_urls"`
	Indexed        int     `json:"indexed"`
	NotIndexed     int     `json:"not_indexed"`
	LastDownloaded *string `json:"last_downloaded"`
	IsPending      *bool   `json:"is_pending"`
	Warnings       *int64  `json:"warnings"`
	Errors         *int64  `json:"errors"`
}

type trendRow struct {
	Date       string `json:"date"`
	TotalURLs  int    `json:"total_urls"`
	Indexed    int    `json:"indexed"`
	NotIndexed int    `json:"not_indexed"`
	Error      int    `json:"error"`
	Unknown    int    `json:"unknown"`
}

type urlRow struct {
	URL             string  `json:"url"`
	CoverageState   string  `json:"coverage_state"`
	Bucket          string  `json:"bucket"`
	Verdict         string  `json:"verdict"`
	LastCrawlTime   *string `json:"last_crawl_time"`
	LastInspectedAt string  `json:"last_inspected_at"`
}

type indexMeta struct {
	PropertyID string           `json:"property_id"`
	Source     translate.Source `json:"source"`
	Cache      string           `json:"cache"`
	Notes      []string         `json:"notes"`
}

type urlsMeta struct {
	indexMeta
	pageMeta
}

// serveIndexing answers /v1/properties/{id}/indexing.
func (s *propertyServer) serveIndexing(ctx context.Context, c *call) (reply, error) {
	var from *translate.Date
	if c.params.IncludeTrend {
		first := s.calendar.Day(c.started) - translate.Date(c.params.TrendDays) + 1
		from = &first
	}
	summary, err := s.store.IndexSummary(ctx, c.property.ID, from)
	if err != nil {
		return reply{}, storeError{err}
	}
	data := indexingOf(&summary)
	if c.params.IncludeTrend {
		data.Trend = convertAll(summary.Trend, rowOfDay)
	}
	return envelope(data, c.indexMeta(&summary.State, data.Totals.InspectedURLs, summary.Sitemaps)), nil
}

// serveIndexedURLs answers /v1/properties/{id}/indexing/urls.
func (s *propertyServer) serveIndexedURLs(ctx context.Context, c *call) (reply, error) {
	page, err := s.store.IndexedURLs(ctx, c.property.ID, sqlstore.IndexQuery{
		Bucket: c.params.Bucket, CoverageState: c.params.CoverageState, SitemapPath: c.params.SitemapPath, Contains: c.params.Contains,
		Order: c.params.Order, Limit: c.params.Limit, Offset: c.params.Offset,
	})
	if err != nil {
		return reply{}, storeError{err}
	}
	meta := urlsMeta{c.indexMeta(&page.State, page.Inspected, nil),
		pageMeta{RowCount: len(page.Rows), Limit: c.params.Limit, Offset: c.params.Offset, Total: page.Total}}
	return envelope(rows[urlRow]{convertAll(page.Rows, rowOfURL)}, meta), nil
}

// collectionStatus returns the state of a collection; inspected is the number of its URLs with a result.
func collectionStatus(state *sqlstore.IndexState, inspected int) string {
	switch {
	case state.DiscoveredAt == nil:
		return openapi.PendingDiscovery
	case state.RefreshedAt == nil || inspected == 0 && state.URLs > 0:
		return openapi.PendingInspection
	}
	return openapi.IndexReady
}

// indexingOf returns the data without the trend.
func indexingOf(summary *sqlstore.IndexSummary) (data indexing) {
	state := &summary.State
	totals := indexTotals{TotalURLs: state.URLs}
	for _, c := range summary.Coverage {
		totals.InspectedURLs += c.Count
		switch c.Bucket {
		case translate.BucketIndexed:
			totals.Indexed += c.Count
		case translate.BucketNotIndexed, translate.BucketError:
			totals.NotIndexed += c.Count
		}
	}
	data = indexing{Status: collectionStatus(state, totals.InspectedURLs), DiscoverySource: optional(state.Source),
		URLCount: state.URLs, URLsCapped: state.Capped, Totals: totals,
		Breakdown: convertAll(summary.Coverage, rowOfCoverage), Sitemaps: convertAll(summary.Sitemaps, rowOfSitemap)}
	if data.Status == openapi.IndexReady {
		data.LastRefreshedAt = instantOf(state.RefreshedAt)
	}
	return data
}

// indexMeta returns the meta of a collection, with notes about gaps in its figures. sitemaps may be nil.
func (c *call) indexMeta(state *sqlstore.IndexState, inspected int, sitemaps []sqlstore.SitemapRollup) indexMeta {
	notes := []string{}
	status := collectionStatus(state, inspected)
	if note := inspectionNote(status, state.URLs, inspected); note != "" {
		notes = append(notes, note)
	}
	if status != openapi.IndexReady && state.Note != "" {
		notes = append(notes, "The last attempt failed: "+state.Note+".")
	}
	if state.Capped {
		notes = append(notes, fmt.Sprintf("There are more URLs than the plan inspects: these are the %d with the most search traffic.", state.URLs))
	}
	notes = append(notes, sitemapNotes(sitemaps)...)
	return indexMeta{PropertyID: c.property.ID, Source: translate.SourceArchive, Cache: cacheBypass, Notes: notes}
}

// inspectionNote returns the note on URLs without a result; empty if all have one.
func inspectionNote(status string, urls, inspected int) string {
	switch left := urls - inspected; {
	case status == openapi.PendingDiscovery:
		return "The URLs of the property have not been discovered yet: what is indexed is unknown."
	case status == openapi.PendingInspection && urls == 1:
		return "The discovered URL has not been inspected yet: what is indexed is unknown."
	case status == openapi.PendingInspection:
		return fmt.Sprintf("None of the %d discovered URLs has been inspected yet: what is indexed is unknown.", urls)
	case left == 1:
		return fmt.Sprintf("1 of %d URLs has not been inspected yet: it is in no bucket, and not listed.", urls)
	case left > 1:
		return fmt.Sprintf("%d of %d URLs have not been inspected yet: they are in no bucket, and not listed.", left, urls)
	}
	return ""
}

// sitemapNotes returns the notes on sitemaps that were not read, of which only the first few are named.
func sitemapNotes(sitemaps []sqlstore.SitemapRollup) (notes []string) {
	const most = 5
	unread := 0
	for _, m := range sitemaps {
		if m.Problem == "" {
			continue
		}
		if unread++; unread <= most {
			notes = append(notes, fmt.Sprintf("The sitemap %s was not read, or only in part: %s.", m.Path, m.Problem))
		}
	}
	if unread > most {
		notes = append(notes, "The same applies to "+countOf(unread-most, "more sitemap", "more sitemaps")+".")
	}
	return notes
}

func rowOfCoverage(c sqlstore.CoverageCount) coverageRow {
	return coverageRow{CoverageState: c.CoverageState, Bucket: c.Bucket.String(), Count: c.Count}
}

func rowOfSitemap(m sqlstore.SitemapRollup) sitemapRow {
	return sitemapRow{Path: m.Path, TotalURLs: m.URLs, InspectedURLs: m.Inspected, Indexed: m.Indexed, NotIndexed: m.NotIndexed,
		LastDownloaded: instantOf(m.LastDownloaded), IsPending: m.IsPending, Warnings: m.Warnings, Errors: m.Errors}
}

func rowOfDay(d sqlstore.IndexDay) trendRow {
	return trendRow{Date: d.Date.String(), TotalURLs: d.URLs, Indexed: d.Indexed, NotIndexed: d.NotIndexed, Error: d.Error, Unknown: d.Unknown}
}

func rowOfURL(u sqlstore.Inspection) urlRow {
	return urlRow{URL: u.URL, CoverageState: u.CoverageState, Bucket: u.Bucket.String(), Verdict: u.Verdict, LastCrawlTime: instantOf(u.LastCrawl),
		LastInspectedAt: timestamp(u.At)}
}

// instantOf formats a time; nil, which JSON writes as null, stays nil.
func instantOf(t *time.Time) *string {
	if t == nil {
		return nil
	}
	return optional(timestamp(*t))
}

package main

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"sara/translate"
)

// indexSummary is the answer of /indexing.
type indexSummary struct {
	Data struct {
		Status          string  `json:"status"`
		DiscoverySource *string `json:"discovery_source"`
		URLCount        *int    `json:"url_count"`
		URLsCapped      *bool   `json:"urls_capped"`
		LastRefreshedAt *string `json:"last_refreshed_at"`
		Totals          struct {
			TotalURLs     *int `json:"total_urls"`
			InspectedURLs *int `json:"inspected_urls"`
			Indexed       *int `json:"indexed"`
			NotIndexed    *int `json:"not_indexed"`
		} `json:"totals"`
		Breakdown []struct {
			CoverageState string `json:"coverage_state"`
			Bucket        string `json:"bucket"`
			Count         int    `json:"count"`
		} `json:"breakdown"`
		Sitemaps []struct {
			Path          string `json:"path"`
			TotalURLs     int    `json:"total_urls"`
			InspectedURLs int    `json:"inspected_urls"`
			Indexed       *int   `json:"indexed"`
			NotIndexed    *int   `json:"not_indexed"`
		} `json:"sitemaps"`
		Trend []indexTrendRow `json:"trend"`
	} `json:"data"`
	Meta struct {
		Source string   `json:"source"`
		Notes  []string `json:"notes"`
	} `json:"meta"`
}

type indexTrendRow struct {
	Date       string `json:"date"`
	TotalURLs  int    `json:"total_urls"`
	Indexed    int    `json:"indexed"`
	NotIndexed int    `json:"not_indexed"`
	Error      int    `json:"error"`
	Unknown    int    `json:"unknown"`
}

// indexedURLs is the answer of /indexing/urls.
type indexedURLs struct {
	Data struct {
		Rows []struct {
			URL             string  `json:"url"`
			CoverageState   string  `json:"coverage_state"`
			Verdict         string  `json:"verdict"`
			LastCrawlTime   *string `json:"last_crawl_time"`
			LastInspectedAt string  `json:"last_inspected_at"`
		} `json:"rows"`
	} `json:"data"`
	Meta struct {
		Source string `json:"source"`
		Total  int    `json:"total"`
	} `json:"meta"`
}

// coverageAPI requests the coverage of one property.
type coverageAPI struct {
	t             *testing.T
	property, key string // the property's address
}

func (a coverageAPI) ask(into any, path string) {
	a.t.Helper()
	answer := wantStatus(a.t, http.StatusOK, a.property+path, a.key)
	if err := json.Unmarshal([]byte(answer.body), into); err != nil {
		a.t.Fatalf("%s%s: %v\n%.300s", a.property, path, err, answer.body)
	}
}

func (a coverageAPI) summary(parameters string) (s indexSummary) {
	a.t.Helper()
	a.ask(&s, "/indexing"+parameters)
	return s
}

func (a coverageAPI) urls(name, value string) (u indexedURLs) {
	a.t.Helper()
	a.ask(&u, "/indexing/urls?limit=500&"+url.Values{name: {value}}.Encode())
	return u
}

// value returns *p, -1 for null.
func value(p *int) int {
	if p == nil {
		return -1
	}
	return *p
}

// wantAgreement checks that all figures of a property that is ready agree, and returns how many URLs are in each bucket.
func (a coverageAPI) wantAgreement(s indexSummary) (buckets map[string]int) {
	a.t.Helper()
	data := s.Data
	if data.Status != "ready" || s.Meta.Source != "stored" || data.LastRefreshedAt == nil || data.DiscoverySource == nil {
		a.t.Fatalf("%s is not ready: %+v", a.property, s)
	}
	inspected := 0
	buckets = make(map[string]int)
	for _, row := range data.Breakdown {
		buckets[row.Bucket] += row.Count
		inspected += row.Count
	}
	totals := []int{value(data.Totals.InspectedURLs), value(data.Totals.Indexed), value(data.Totals.NotIndexed), value(data.Totals.TotalURLs)}
	if want := []int{inspected, buckets["indexed"], buckets["not_indexed"] + buckets["error"], value(data.URLCount)}; !slices.Equal(totals, want) {
		a.t.Errorf("totals are %v, want %v", totals, want)
	}
	for _, bucket := range translate.Buckets() {
		if listed := a.urls("bucket", bucket.String()); listed.Meta.Total != buckets[bucket.String()] || listed.Meta.Source != "stored" {
			a.t.Errorf("%d URLs are %s, and %d are listed", buckets[bucket.String()], bucket, listed.Meta.Total)
		}
	}
	if len(data.Trend) == 0 || data.Trend[len(data.Trend)-1] != (indexTrendRow{Date: a.day(*data.LastRefreshedAt), TotalURLs: totals[3],
		Indexed: buckets["indexed"], NotIndexed: buckets["not_indexed"], Error: buckets["error"], Unknown: buckets["unknown"]}) {
		a.t.Errorf("the trend ends with %+v, and the buckets are %v of %d", data.Trend[max(0, len(data.Trend)-1):], buckets, totals[3])
	}
	a.wantRollups(s)
	return buckets
}

// day is the Pacific day of an instant.
func (a coverageAPI) day(instant string) string {
	a.t.Helper()
	at, err := time.Parse(time.RFC3339, instant)
	if err != nil {
		a.t.Fatal(err)
	}
	calendar, err := translate.NewCalendar()
	if err != nil {
		a.t.Fatal(err)
	}
	return calendar.Day(at).String()
}

func (a coverageAPI) wantRollups(s indexSummary) {
	a.t.Helper()
	bucketOf := make(map[string]string)
	for _, row := range s.Data.Breakdown {
		bucketOf[row.CoverageState] = row.Bucket
	}
	for _, m := range s.Data.Sitemaps {
		counts := make(map[string]int)
		listed := a.urls("sitemap_path", m.Path)
		for _, row := range listed.Data.Rows {
			counts[bucketOf[row.CoverageState]]++
		}
		if listed.Meta.Total == 0 || len(listed.Data.Rows) != listed.Meta.Total || m.InspectedURLs != listed.Meta.Total ||
			value(m.Indexed) != counts["indexed"] || value(m.NotIndexed) != counts["not_indexed"]+counts["error"] || m.TotalURLs < m.InspectedURLs {
			a.t.Errorf("the rollup of %s is %d, %d, %d, %d, and %d URLs are listed: %v", m.Path, m.TotalURLs, m.InspectedURLs,
				value(m.Indexed), value(m.NotIndexed), listed.Meta.Total, counts)
		}
	}
}

package clitest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"sara/translate"
)

// IndexSummary is the answer of /indexing.
type IndexSummary struct {
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
		Trend []IndexTrendRow `json:"trend"`
	} `json:"data"`
	Meta struct {
		Source string   `json:"source"`
		Notes  []string `json:"notes"`
	} `json:"meta"`
}

// IndexTrendRow is a day of the trend of /indexing.
type IndexTrendRow struct {
	Date       string `json:"date"`
	TotalURLs  int    `json:"total_urls"`
	Indexed    int    `json:"indexed"`
	NotIndexed int    `json:"not_indexed"`
	Error      int    `json:"error"`
	Unknown    int    `json:"unknown"`
}

// IndexedURLs is the answer of /indexing/urls.
type IndexedURLs struct {
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

// CoverageAPI requests the coverage of one property.
type CoverageAPI struct {
	T             *testing.T
	Property, Key string // the address of the property, and an API key
}

func (a CoverageAPI) ask(into any, path string) {
	a.T.Helper()
	answer := WantStatus(a.T, http.StatusOK, a.Property+path, a.Key)
	if err := json.Unmarshal([]byte(answer.Body), into); err != nil {
		a.T.Fatalf("%s%s: %v\n%.300s", a.Property, path, err, answer.Body)
	}
}

// Summary asks for the summary.
func (a CoverageAPI) Summary(parameters string) (s IndexSummary) {
	a.T.Helper()
	a.ask(&s, "/indexing"+parameters)
	return s
}

// URLs asks for the first page of URLs, with a parameter.
func (a CoverageAPI) URLs(name, value string) (u IndexedURLs) {
	a.T.Helper()
	a.ask(&u, "/indexing/urls?limit=500&"+url.Values{name: {value}}.Encode())
	return u
}

// Value returns *p, -1 for null.
func Value(p *int) int {
	if p == nil {
		return -1
	}
	return *p
}

// WantAgreement checks that all figures of a property that is ready agree, and returns how many URLs are in each bucket.
func (a CoverageAPI) WantAgreement(s IndexSummary) (buckets map[string]int) {
	a.T.Helper()
	data := s.Data
	if data.Status != "ready" || s.Meta.Source != "stored" || data.LastRefreshedAt == nil || data.DiscoverySource == nil {
		a.T.Fatalf("%s is not ready: %+v", a.Property, s)
	}
	inspected := 0
	buckets = make(map[string]int)
	for _, row := range data.Breakdown {
		buckets[row.Bucket] += row.Count
		inspected += row.Count
	}
	totals := []int{Value(data.Totals.InspectedURLs), Value(data.Totals.Indexed), Value(data.Totals.NotIndexed), Value(data.Totals.TotalURLs)}
	if want := []int{inspected, buckets["indexed"], buckets["not_indexed"] + buckets["error"], Value(data.URLCount)}; !slices.Equal(totals, want) {
		a.T.Errorf("totals are %v, want %v", totals, want)
	}
	for _, bucket := range translate.Buckets() {
		if listed := a.URLs("bucket", bucket.String()); listed.Meta.Total != buckets[bucket.String()] || listed.Meta.Source != "stored" {
			a.T.Errorf("%d URLs are %s, and %d are listed", buckets[bucket.String()], bucket, listed.Meta.Total)
		}
	}
	if len(data.Trend) == 0 || data.Trend[len(data.Trend)-1] != (IndexTrendRow{Date: a.day(*data.LastRefreshedAt), TotalURLs: totals[3],
		Indexed: buckets["indexed"], NotIndexed: buckets["not_indexed"], Error: buckets["error"], Unknown: buckets["unknown"]}) {
		a.T.Errorf("the trend ends with %+v, and the buckets are %v of %d", data.Trend[max(0, len(data.Trend)-1):], buckets, totals[3])
	}
	a.wantRollups(s)
	return buckets
}

// day is the Pacific day of an instant.
func (a CoverageAPI) day(instant string) string {
	a.T.Helper()
	at, err := time.Parse(time.RFC3339, instant)
	if err != nil {
		a.T.Fatal(err)
	}
	calendar, err := translate.NewCalendar()
	if err != nil {
		a.T.Fatal(err)
	}
	return calendar.Day(at).String()
}

func (a CoverageAPI) wantRollups(s IndexSummary) {
	a.T.Helper()
	bucketOf := make(map[string]string)
	for _, row := range s.Data.Breakdown {
		bucketOf[row.CoverageState] = row.Bucket
	}
	for _, m := range s.Data.Sitemaps {
		counts := make(map[string]int)
		listed := a.URLs("sitemap_path", m.Path)
		for _, row := range listed.Data.Rows {
			counts[bucketOf[row.CoverageState]]++
		}
		if listed.Meta.Total == 0 || len(listed.Data.Rows) != listed.Meta.Total || m.InspectedURLs != listed.Meta.Total ||
			Value(m.Indexed) != counts["indexed"] || Value(m.NotIndexed) != counts["not_indexed"]+counts["error"] || m.TotalURLs < m.InspectedURLs {
			a.T.Errorf("the rollup of %s is %d, %d, %d, %d, and %d URLs are listed: %v", m.Path, m.TotalURLs, m.InspectedURLs,
				Value(m.Indexed), Value(m.NotIndexed), listed.Meta.Total, counts)
		}
	}
}

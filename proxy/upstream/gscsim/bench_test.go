package gscsim_test

import (
	"testing"

	searchconsole "google.golang.org/api/searchconsole/v1"

	"sara/proxy/upstream/gscsim"
)

// BenchmarkQuery measures whole calls through Google's client, decoding included.
func BenchmarkQuery(b *testing.B) {
	config := testConfig()
	config.Quotas.SearchPerMinute = -1
	config.Users[0].Sites = append(config.Users[0].Sites, gscsim.Site{URL: "sc-domain:large.example", Queries: 60000, Pages: 5000})
	s := start(b, config)
	for _, c := range []struct {
		name, site, from string
		dimensions       []string
	}{
		{"date/16 months", domainSite, "2025-04-15", []string{"date"}},
		{"query/28 days", domainSite, "2026-07-18", []string{"query"}},
		{"query,page/28 days", domainSite, "2026-07-18", []string{"query", "page"}},
		{"query/28 days/60,000 queries", "sc-domain:large.example", "2026-07-18", []string{"query"}},
		{"query,page/28 days/60,000 queries", "sc-domain:large.example", "2026-07-18", []string{"query", "page"}},
		{"date/16 months/60,000 queries", "sc-domain:large.example", "2025-04-15", []string{"date"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				answer, err := s.api.Searchanalytics.Query(c.site, &searchconsole.SearchAnalyticsQueryRequest{
					StartDate: c.from, EndDate: "2026-08-14", Dimensions: c.dimensions, RowLimit: 25000,
				}).Do()
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(len(answer.Rows)), "rows")
			}
		})
	}
}

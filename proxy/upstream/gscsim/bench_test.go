package gscsim_test

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"sara/proxy/upstream/gscsim"
)

// BenchmarkQuery measures the computing and the encoding of answers, without a network or a client.
func BenchmarkQuery(b *testing.B) {
	const large = "sc-domain:large.example"
	config := testConfig()
	config.Quotas.SearchPerMinute = -1
	config.Users[0].Sites = append(config.Users[0].Sites, gscsim.Site{URL: large, Queries: 60000, Pages: 5000})
	s := start(b, config)
	token := s.accessToken(b)
	for _, c := range []struct{ name, site, from, dimensions string }{
		{"16 months by date", domainSite, "2025-04-15", `"date"`},
		{"28 days by query", domainSite, "2026-07-18", `"query"`},
		{"28 days by query and page", domainSite, "2026-07-18", `"query","page"`},
		{"28 days by query of 60,000", large, "2026-07-18", `"query"`},
		{"28 days by query of 60,000 and page", large, "2026-07-18", `"query","page"`},
		{"16 months by date of 60,000", large, "2025-04-15", `"date"`},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			path := "/webmasters/v3/sites/" + url.QueryEscape(c.site) + "/searchAnalytics/query?prettyPrint=false"
			body := `{"startDate":"` + c.from + `","endDate":"2026-08-14","rowLimit":25000,"dimensions":[` + c.dimensions + `]}`
			for b.Loop() {
				r := httptest.NewRequest("POST", path, strings.NewReader(body))
				r.Header.Set("Authorization", "Bearer "+token)
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				if w.Code != 200 {
					b.Fatal(w.Body)
				}
			}
		})
	}
}

// BenchmarkAnswers measures a month of days, each queried in all groupings.
func BenchmarkAnswers(b *testing.B) {
	s := gscsim.New(testConfig())
	var requests [][]byte
	for day := range 30 {
		date := noon().AddDate(0, 0, -40+day).Format(time.DateOnly)
		for _, dimension := range []string{"date", "query", "page", "country", "device"} {
			requests = append(requests, []byte(`{"startDate":"`+date+`","endDate":"`+date+`","rowLimit":100,"dimensions":["`+dimension+`"]}`))
		}
	}
	for b.Loop() {
		if _, err := s.Answers(b.Context(), domainSite, requests...); err != nil {
			b.Fatal(err)
		}
	}
}

package command

import (
	"net/http"
	"testing"

	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/saratest"
)

// testDemoIndex looks at the index coverage of the demo's properties.
func testDemoIndex(t *testing.T, world saratest.World) {
	key := world.Keys["indexing_only"]
	at := func(name string) clitest.CoverageAPI {
		return clitest.CoverageAPI{T: t, Property: world.BaseURL + "/v1/properties/" + world.Properties[name]["id"], Key: key}
	}
	main := at("main").Summary("?include_trend=true&days=365")
	buckets := at("main").WantAgreement(main)
	if len(buckets) != 4 || clitest.Value(main.Data.URLCount) != clitest.Value(main.Data.Totals.TotalURLs) ||
		clitest.Value(main.Data.Totals.InspectedURLs) != clitest.Value(main.Data.URLCount) || *main.Data.DiscoverySource != "sitemap+performance" ||
		*main.Data.URLsCapped || len(main.Data.Sitemaps) != 3 {
		t.Errorf("main has %v in its buckets: %+v", buckets, main)
	}
	trend := main.Data.Trend
	if len(trend) != 365 {
		t.Fatalf("the trend of a year has %d rows", len(trend))
	}
	changes := 0
	for i, row := range trend[1:] {
		if row.Date <= trend[i].Date || row.TotalURLs != row.Indexed+row.NotIndexed+row.Error+row.Unknown {
			t.Errorf("%+v comes after %+v", row, trend[i])
		}
		if row.Indexed != trend[i].Indexed {
			changes++
		}
	}
	if changes < 50 {
		t.Errorf("the trend changes on %d days of a year", changes)
	}
	for days, parameters := range map[int]string{30: "?include_trend=true&days=30", 90: "?include_trend=true"} {
		// A new day may have begun since the demo started.
		if shorter := at("main").Summary(parameters).Data.Trend; len(shorter) > days || len(shorter) < days-1 || shorter[len(shorter)-1] != trend[364] {
			t.Errorf("the trend of %d days has %d rows, and ends with %+v", days, len(shorter), shorter[len(shorter)-1])
		}
	}
	for name := range world.Properties {
		if name == "main" || name == "foreign" {
			continue
		}
		if s := at(name).Summary(""); s.Data.Status != "pending_discovery" ||
			clitest.Value(s.Data.URLCount) != 0 || clitest.Value(s.Data.Totals.TotalURLs) != 0 ||
			clitest.Value(s.Data.Totals.Indexed) != 0 || s.Data.LastRefreshedAt != nil || len(s.Data.Breakdown) > 0 ||
			len(s.Data.Sitemaps) > 0 || len(s.Meta.Notes) == 0 {
			t.Errorf("nothing is known of %s: %+v", name, s)
		}
		if u := at(name).URLs("sort", "url"); u.Meta.Total != 0 || len(u.Data.Rows) != 0 {
			t.Errorf("nothing is known of %s: %+v", name, u)
		}
	}
	clitest.WantStatus(t, http.StatusNotFound, at("foreign").Property+"/indexing", key)
	clitest.WantStatus(t, http.StatusForbidden, at("main").Property+"/indexing", world.Keys["performance_only"])
}

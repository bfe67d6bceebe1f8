package gscsim_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/api/googleapi"
	searchconsole "google.golang.org/api/searchconsole/v1"
)

// The tests in this file use Google's generated client only.

func TestGoogleClientQueriesInItsOwnSpelling(t *testing.T) {
	s := start(t, testConfig())
	answer := s.ask(t, &searchconsole.SearchAnalyticsQueryRequest{
		Dimensions: []string{"DATE", "COUNTRY"}, Type: "WEB", AggregationType: "BY_PAGE", DataState: "ALL", RowLimit: 3,
		StartDate: "2026-08-10", EndDate: "2026-08-20",
		DimensionFilterGroups: []*searchconsole.ApiDimensionFilterGroup{{GroupType: "AND", Filters: []*searchconsole.ApiDimensionFilter{
			{Dimension: "DEVICE", Operator: "NOT_EQUALS", Expression: "tablet"},
			{Dimension: "PAGE", Operator: "INCLUDING_REGEX", Expression: "/PRODUCTS/"},
		}}},
	})
	if len(answer.Rows) != 3 || answer.Rows[0].Keys[0] != "2026-08-10" || len(answer.Rows[0].Keys) != 2 {
		t.Errorf("rows are %+v", answer.Rows)
	}
	if answer.ResponseAggregationType != "byPage" || answer.Metadata.FirstIncompleteDate != "2026-08-15" {
		t.Errorf("aggregation %q, metadata %+v", answer.ResponseAggregationType, answer.Metadata)
	}
}

func TestGoogleClientReadsSites(t *testing.T) {
	config := testConfig()
	s := start(t, config)
	list, err := s.api.Sites.List().Do()
	if err != nil {
		t.Fatal(err)
	}
	levels := map[string]string{}
	for _, site := range list.SiteEntry {
		levels[site.SiteUrl] = site.PermissionLevel
	}
	if len(levels) != 5 || levels[domainSite] != "siteOwner" || levels[prefixSite] != "siteFullUser" ||
		levels["sc-domain:unverified.example"] != "siteUnverifiedUser" {
		t.Errorf("sites are %v", levels)
	}
	one, err := s.api.Sites.Get(prefixSite).Do()
	if err != nil || one.SiteUrl != prefixSite || one.PermissionLevel != "siteFullUser" {
		t.Errorf("the prefix site is %+v, %v", one, err)
	}
	_, noSites := s.signIn(t, config.Users[1])
	if empty, err := noSites.Sites.List().Do(); err != nil || empty.SiteEntry != nil {
		t.Errorf("a user without sites has %+v, %v", empty, err)
	}
}

func TestGoogleClientReadsSitemaps(t *testing.T) {
	s := start(t, testConfig())
	list, err := s.api.Sitemaps.List(prefixSite).Do()
	if err != nil {
		t.Fatal(err)
	}
	index := list.Sitemap[0]
	if len(list.Sitemap) != 3 || !index.IsSitemapsIndex || index.Path != prefixSite+"sitemap_index.xml" || index.Contents[0].Submitted < 70 {
		t.Errorf("the index is %+v of %d", index, len(list.Sitemap))
	}
	children, err := s.api.Sitemaps.List(prefixSite).SitemapIndex(index.Path).Do()
	if err != nil || len(children.Sitemap) != 2 ||
		children.Sitemap[0].Contents[0].Submitted+children.Sitemap[1].Contents[0].Submitted != index.Contents[0].Submitted {
		t.Errorf("the index names %+v, %v", children, err)
	}
	one, err := s.api.Sitemaps.Get(prefixSite, children.Sitemap[1].Path).Do()
	if err != nil || one.Path != children.Sitemap[1].Path {
		t.Errorf("one sitemap is %+v, %v", one, err)
	}
	if none, err := s.api.Sitemaps.List("sc-domain:young.example").Do(); err != nil || none.Sitemap != nil {
		t.Errorf("a site without sitemaps has %+v, %v", none, err)
	}
}

func TestGoogleClientInspects(t *testing.T) {
	t.Parallel()
	s := start(t, testConfig())
	inspect := func(url, language string) *searchconsole.UrlInspectionResult {
		answer, err := s.api.UrlInspection.Index.Inspect(&searchconsole.InspectUrlIndexRequest{
			SiteUrl: prefixSite, InspectionUrl: url, LanguageCode: language,
		}).Do()
		if err != nil {
			t.Fatal(err)
		}
		return answer.InspectionResult
	}
	home := inspect(prefixSite, "en-US")
	if status := home.IndexStatusResult; status.Verdict != "PASS" || status.CoverageState != "Submitted and indexed" ||
		status.GoogleCanonical != prefixSite || status.LastCrawlTime == "" || len(status.Sitemap) != 1 || status.PageFetchState != "SUCCESSFUL" {
		t.Errorf("the home page is %+v", status)
	}
	if home.MobileUsabilityResult.Verdict != "VERDICT_UNSPECIFIED" || !strings.Contains(home.InspectionResultLink, "resource_id="+prefixSite) {
		t.Errorf("the home page is %+v", home)
	}
	if state := inspect(prefixSite, "de-CH").IndexStatusResult.CoverageState; state != "Gesendet und indexiert" {
		t.Errorf("in German the state is %q", state)
	}
	if state := inspect(prefixSite, "ja").IndexStatusResult.CoverageState; state != "送信して登録されました" {
		t.Errorf("in Japanese the state is %q", state)
	}
	unknown := inspect(prefixSite+"never-there", "").IndexStatusResult
	if unknown.CoverageState != "URL is unknown to Google" || unknown.Verdict != "NEUTRAL" || unknown.LastCrawlTime != "" {
		t.Errorf("an unknown address is %+v", unknown)
	}
	labels := map[string]int{}
	for _, page := range s.Pages(prefixSite) {
		labels[inspect(page, "en-US").IndexStatusResult.CoverageState]++
	}
	if len(labels) != 20 || labels["Submitted and indexed"] < 40 {
		t.Errorf("80 pages are in the states %v", labels)
	}
}

func TestGoogleClientReadsErrors(t *testing.T) {
	s := start(t, testConfig())
	query := func(site string) error {
		_, err := s.api.Searchanalytics.Query(site, lastWeek(&searchconsole.SearchAnalyticsQueryRequest{})).Do()
		return err
	}
	inspect := func(site, url string) error {
		_, err := s.api.UrlInspection.Index.Inspect(&searchconsole.InspectUrlIndexRequest{SiteUrl: site, InspectionUrl: url}).Do()
		return err
	}
	_, noSite := s.api.Sites.Get("https://www.example.org/shop").Do()
	_, noSitemap := s.api.Sitemaps.Get(prefixSite, prefixSite+"other.xml").Do()
	_, unverified := s.api.Sitemaps.List("sc-domain:unverified.example").Do()
	const notYours = "You do not own this site, or the inspected URL is not part of this property."
	for _, c := range []struct {
		name    string
		err     error
		code    int
		reason  string
		message string
	}{
		{"a property the account lacks", query("sc-domain:other.example"), 403, "forbidden",
			"User does not have sufficient permission for site 'sc-domain:other.example'. See also: https://support.google.com/webmasters/answer/2451999."},
		{"a property one may not read", query("sc-domain:unverified.example"), 403, "forbidden", "User does not have"},
		{"sitemaps one may not read", unverified, 403, "forbidden", "User does not have"},
		{"a prefix without its slash", noSite, 403, "forbidden", "User does not have"},
		{"no property at all", query("http://"), 400, "invalidParameter", "'http://' is not a valid Search Console site URL"},
		{"a sitemap that is not there", noSitemap, 404, "notFound", ""},
		{"inspecting outside the prefix", inspect(prefixSite, "https://www.example.org/other/"), 403, "", notYours},
		{"inspecting another host", inspect(domainSite, "https://notexample.com/"), 403, "", notYours},
		{"inspecting as a restricted user", inspect("sc-domain:restricted.example", "https://www.restricted.example/"), 403, "", notYours},
		{"inspecting nothing", inspect(prefixSite, ""), 400, "", "Required field missing: inspection_url"},
	} {
		var e *googleapi.Error
		if !errors.As(c.err, &e) || e.Code != c.code || !strings.HasPrefix(e.Message, c.message) {
			t.Errorf("%s: %v", c.name, c.err)
			continue
		}
		if (c.reason == "") != (len(e.Errors) == 0) || c.reason != "" && e.Errors[0].Reason != c.reason {
			t.Errorf("%s: the reasons are %+v, want %q", c.name, e.Errors, c.reason)
		}
	}
}

func TestRestrictedUsersReadPerformance(t *testing.T) {
	s := start(t, testConfig())
	answer, err := s.api.Searchanalytics.Query("sc-domain:restricted.example", lastWeek(&searchconsole.SearchAnalyticsQueryRequest{})).Do()
	if err != nil || len(answer.Rows) != 1 {
		t.Fatalf("%+v, %v", answer, err)
	}
}

func TestBothErrorEnvelopesMatchTheRecordedBodies(t *testing.T) {
	s := start(t, testConfig())
	_, forbidden := s.post(t, "/webmasters/v3/sites/sc-domain%3Anodaro.ai/searchAnalytics/query", `{}`)
	if want := `{
  "error": {
    "code": 403,
    "message": "User does not have sufficient permission for site 'sc-domain:nodaro.ai'. See also: https://support.google.com/webmasters/answer/2451999.",
    "errors": [
      {
        "message": "User does not have sufficient permission for site 'sc-domain:nodaro.ai'.",
        "domain": "global",
        "reason": "forbidden"
      }
    ]
  }
}
`; forbidden != want {
		t.Errorf("the older envelope is %s", forbidden)
	}
	_, foreign := s.post(t, "/v1/urlInspection/index:inspect?prettyPrint=false", `{"siteUrl":"sc-domain:a.b","inspectionUrl":"https://a.b/"}`)
	want := `{"error":{"code":403,"message":"You do not own this site, or the inspected URL is not part of this property.",` +
		`"status":"PERMISSION_DENIED"}}`
	if foreign != want {
		t.Errorf("the newer envelope is %s", foreign)
	}
}

func TestSitemapNumbersAreJSONStrings(t *testing.T) {
	s := start(t, testConfig())
	_, body := s.send(t, http.MethodGet, "/webmasters/v3/sites/https%3A%2F%2Fwww.example.org%2Fshop%2F/sitemaps?prettyPrint=false", "")
	for _, want := range []string{`"warnings":"`, `"errors":"0"`, `"submitted":"`, `"isSitemapsIndex":true`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
	if _, none := s.send(t, http.MethodGet, "/webmasters/v3/sites/sc-domain%3Ayoung.example/sitemaps", ""); none != "{}\n" {
		t.Errorf("a site without sitemaps answers %q", none)
	}
}

func TestUnknownPathsAreNotFound(t *testing.T) {
	s := start(t, testConfig())
	// The site URL unescaped spans several segments, which is no call of the API.
	for _, path := range []string{"/", "/webmasters/v3/sites/https://www.example.org/shop/searchAnalytics/query", "/v1/urlInspection"} {
		if code, body := s.post(t, path, `{}`); code != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

func TestPagesAreMostPopularFirst(t *testing.T) {
	s := start(t, testConfig())
	pages := s.Pages(domainSite)
	if len(pages) != 300 || pages[0] != "https://www.example.com/" || len(slices.Compact(slices.Sorted(slices.Values(pages)))) != 300 {
		t.Errorf("%d pages, the first is %s", len(pages), pages[0])
	}
	if s.Pages("sc-domain:other.example") != nil {
		t.Error("an unknown site has pages")
	}
}

package gscsim

import (
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

type inspectRequest struct {
	InspectionURL string `json:"inspectionUrl"`
	SiteURL       string `json:"siteUrl"`
	LanguageCode  string `json:"languageCode"`
}

type inspectionResult struct {
	InspectionResultLink  string          `json:"inspectionResultLink"`
	IndexStatusResult     indexStatus     `json:"indexStatusResult"`
	AmpResult             *ampResult      `json:"ampResult,omitempty"`
	MobileUsabilityResult mobileUsability `json:"mobileUsabilityResult"`
	RichResultsResult     *richResults    `json:"richResultsResult,omitempty"`
}

type indexStatus struct {
	Verdict         string   `json:"verdict"`
	CoverageState   string   `json:"coverageState"`
	RobotsTxtState  string   `json:"robotsTxtState"`
	IndexingState   string   `json:"indexingState"`
	LastCrawlTime   string   `json:"lastCrawlTime,omitempty"`
	PageFetchState  string   `json:"pageFetchState"`
	GoogleCanonical string   `json:"googleCanonical,omitempty"`
	UserCanonical   string   `json:"userCanonical,omitempty"`
	Sitemap         []string `json:"sitemap,omitempty"`
	ReferringURLs   []string `json:"referringUrls,omitempty"`
	CrawledAs       string   `json:"crawledAs,omitempty"`
}

// mobileUsability has no findings: Google stopped computing it in 2023.
type mobileUsability struct {
	Verdict string `json:"verdict"`
}

type ampResult struct {
	Verdict               string `json:"verdict"`
	AmpURL                string `json:"ampUrl"`
	RobotsTxtState        string `json:"robotsTxtState"`
	IndexingState         string `json:"indexingState"`
	AmpIndexStatusVerdict string `json:"ampIndexStatusVerdict"`
	LastCrawlTime         string `json:"lastCrawlTime"`
	PageFetchState        string `json:"pageFetchState"`
}

type richResults struct {
	Verdict       string         `json:"verdict"`
	DetectedItems []detectedItem `json:"detectedItems"`
}

type detectedItem struct {
	RichResultType string     `json:"richResultType"`
	Items          []richItem `json:"items"`
}

type richItem struct {
	Name   string      `json:"name"`
	Issues []richIssue `json:"issues,omitempty"`
}

type richIssue struct {
	IssueMessage string `json:"issueMessage"`
	Severity     string `json:"severity"`
}

// inspect answers urlInspection.index.inspect.
func (s *Server) inspect(r *http.Request) (any, *apiError) {
	user, fail := s.authenticate(r)
	if fail != nil {
		return nil, fail
	}
	var request inspectRequest
	if fail := readBody(r, &request); fail != nil {
		return nil, fail
	}
	for _, f := range []struct{ name, value string }{{"inspection_url", request.InspectionURL}, {"site_url", request.SiteURL}} {
		if f.value == "" {
			return nil, invalid(f.name, "Required field missing: %s", f.name)
		}
	}
	site, ok := user.site(request.SiteURL)
	if !ok || site.Permission != Owner && site.Permission != FullUser || !site.contains(request.InspectionURL) {
		return nil, forbiddenInspection()
	}
	if fail := s.chargeInspection(site); fail != nil {
		return nil, fail
	}
	return struct {
		InspectionResult inspectionResult `json:"inspectionResult"`
	}{s.inspection(site, request)}, nil
}

// contains reports whether an address belongs to the property: under the prefix, or on the domain or one of its subdomains.
func (site Site) contains(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	if domain, ok := strings.CutPrefix(site.URL, "sc-domain:"); ok {
		host := strings.ToLower(u.Hostname())
		return host == domain || strings.HasSuffix(host, "."+domain)
	}
	return strings.HasPrefix(address, site.URL)
}

// inspection returns the state of one URL. A URL that is not a page of the site is unknown.
func (s *Server) inspection(site Site, request inspectRequest) inspectionResult {
	w := s.world(site)
	h := hashText(w.seed, request.InspectionURL)
	result := inspectionResult{
		InspectionResultLink: "https://search.google.com/search-console/inspect?resource_id=" + site.URL + "&id=" +
			base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, h)) + "&utm_medium=link&utm_source=api",
		MobileUsabilityResult: mobileUsability{Verdict: "VERDICT_UNSPECIFIED"},
	}
	page, known := slices.BinarySearch(w.pages, request.InspectionURL)
	state := unknownToGoogle()
	if known {
		state = w.coverage(int(w.pageRank[page]), s.clock().today)
	}
	status := indexStatus{
		Verdict: state.verdict, CoverageState: state.localized(request.LanguageCode), RobotsTxtState: state.robots,
		IndexingState: state.indexing, PageFetchState: state.fetch,
	}
	if state.crawled() {
		status.LastCrawlTime = s.recurring(h, time.Duration(2+h>>32%40)*24*time.Hour).Truncate(time.Second).Format(time.RFC3339)
		status.CrawledAs = "MOBILE"
		if h%11 == 0 {
			status.CrawledAs = "DESKTOP"
		}
	}
	if known {
		s.describePage(&result, &status, state, site, w, request.InspectionURL, h)
	}
	result.IndexStatusResult = status
	return result
}

// describePage adds a page's canonicals, sitemaps, links, AMP and rich results.
func (s *Server) describePage(result *inspectionResult, status *indexStatus, state coverage, site Site, w *world, address string, h uint64) {
	home := w.pages[w.pageByRank[0]]
	if state.indexed() {
		status.GoogleCanonical = address
	}
	if state.crawled() && state.fetch == fetched {
		status.UserCanonical = address
	}
	switch state.label {
	case "Submitted and indexed", "Discovered - currently not indexed":
		status.Sitemap = site.sitemapOf(h)
	case "Alternate page with proper canonical tag":
		status.GoogleCanonical, status.UserCanonical = home, home
	case "Duplicate without user-selected canonical":
		status.GoogleCanonical, status.UserCanonical = home, ""
	case "Duplicate, Google chose different canonical than user":
		status.GoogleCanonical = home
	}
	if h>>8%3 > 0 && address != home {
		status.ReferringURLs = []string{home}
	}
	if !state.indexed() {
		return
	}
	if h>>16%25 == 0 {
		result.AmpResult = &ampResult{
			Verdict: "PASS", AmpURL: strings.TrimSuffix(address, "/") + "?amp=1", RobotsTxtState: allowed, IndexingState: "AMP_INDEXING_ALLOWED",
			AmpIndexStatusVerdict: "PASS", LastCrawlTime: status.LastCrawlTime, PageFetchState: fetched,
		}
	}
	if h>>24%3 == 0 {
		result.RichResultsResult = richResultsOf(h)
	}
}

func richResultsOf(h uint64) *richResults {
	item := richItem{Name: "Unnamed item"}
	kind := "Breadcrumbs"
	if h>>40&1 == 0 {
		kind = "Product snippets"
		item.Issues = []richIssue{{IssueMessage: `Missing field "review"`, Severity: "WARNING"}}
	}
	return &richResults{Verdict: "PASS", DetectedItems: []detectedItem{{RichResultType: kind, Items: []richItem{item}}}}
}

package gscsim_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/googleapi"
	searchconsole "google.golang.org/api/searchconsole/v1"

	"sara/proxy/upstream/gscsim"
)

// setFaults sends the faults over HTTP and expects 204.
func (s *simulator) setFaults(t *testing.T, body string) {
	t.Helper()
	if code, text := s.send(t, http.MethodPut, "/_sim/faults", body); code != http.StatusNoContent || text != "" {
		t.Fatalf("faults %s: %d %s", body, code, text)
	}
}

func (s *simulator) query() *googleapi.Error {
	_, err := s.api.Searchanalytics.Query(domainSite, lastWeek(&searchconsole.SearchAnalyticsQueryRequest{})).Do()
	return answered(err)
}

// answered returns the API's error, nil for none. Any other error becomes one with code 0.
func answered(err error) *googleapi.Error {
	var e *googleapi.Error
	if err != nil && !errors.As(err, &e) {
		return &googleapi.Error{Message: err.Error()}
	}
	return e
}

func TestFaultsOfEachReason(t *testing.T) {
	s := start(t, testConfig())
	const load = "Search Analytics load quota exceeded. Learn about usage limits: https://developers.google.com/webmaster-tools/v3/limits."
	for _, c := range []struct {
		faults  string
		code    int
		reason  string
		message string
	}{
		{`{"reason":"quotaExceeded"}`, 403, "quotaExceeded", load},
		{`{"reason":"quotaExceeded","status":429}`, 429, "quotaExceeded", load},
		{`{"reason":"rateLimitExceeded"}`, 429, "rateLimitExceeded", "Search Analytics QPS quota exceeded."},
		{`{"reason":"forbidden"}`, 403, "forbidden", "User does not have sufficient permission for site 'sc-domain:example.com'."},
		{`{"reason":"insufficientPermissions"}`, 403, "insufficientPermissions", "Request had insufficient"},
		{`{"reason":"accessNotConfigured"}`, 403, "accessNotConfigured", "Google Search Console API has not been used"},
		{`{"reason":"backendError"}`, 503, "backendError", "The service is currently unavailable."},
		{`{"status":500}`, 500, "backendError", "Internal error encountered."},
		{`{"status":503,"error_rate":1}`, 503, "backendError", ""},
		{`{"error_rate":1}`, 503, "backendError", ""},
		{`{"status":403}`, 403, "forbidden", ""},
		{`{"status":429}`, 429, "rateLimitExceeded", ""},
		{`{"status":400}`, 400, "badRequest", ""},
	} {
		s.setFaults(t, c.faults)
		e := s.query()
		if e == nil || e.Code != c.code || len(e.Errors) != 1 || e.Errors[0].Reason != c.reason || !strings.HasPrefix(e.Message, c.message) {
			t.Errorf("%s: %+v", c.faults, e)
		}
	}
	s.setFaults(t, `{"status":401}`)
	if e := s.query(); e == nil || e.Code != 401 {
		t.Errorf("status 401: %+v", e)
	}
	s.setFaults(t, `{}`)
	if e := s.query(); e != nil {
		t.Errorf("without faults: %v", e)
	}
}

func TestFaultsApplyToAPICallsButNotToTokens(t *testing.T) {
	config := testConfig()
	s := start(t, config)
	s.setFaults(t, `{"status":503}`)
	_, second := s.signIn(t, config.Users[1]) // its token is fetched during the fault
	_, list := second.Sites.List().Do()
	_, sitemaps := s.api.Sitemaps.List(domainSite).Do()
	_, inspection := s.api.UrlInspection.Index.Inspect(&searchconsole.InspectUrlIndexRequest{
		SiteUrl: domainSite, InspectionUrl: "https://www.example.com/"}).Do()
	for name, err := range map[string]error{"sites": list, "sitemaps": sitemaps, "inspection": inspection} {
		if e := answered(err); e == nil || e.Code != 503 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if calls := s.Calls(); calls != (gscsim.Calls{Sites: 1, Sitemaps: 1, Inspections: 1, Tokens: 2}) {
		t.Errorf("calls are %+v", calls)
	}
}

func TestFaultsOfASite(t *testing.T) {
	s := start(t, testConfig())
	s.setFaults(t, `{"site":"`+domainSite+`","reason":"forbidden"}`)
	inspect := func(site, page string) *googleapi.Error {
		_, err := s.api.UrlInspection.Index.Inspect(&searchconsole.InspectUrlIndexRequest{SiteUrl: site, InspectionUrl: page}).Do()
		return answered(err)
	}
	sitemaps := func(site string) *googleapi.Error {
		_, err := s.api.Sitemaps.List(site).Do()
		return answered(err)
	}
	for name, e := range map[string]*googleapi.Error{"query": s.query(), "sitemaps": sitemaps(domainSite),
		"inspection": inspect(domainSite, "https://www.example.com/")} {
		if e == nil || e.Code != 403 {
			t.Errorf("%s of the site: %v", name, e)
		}
	}
	if e := inspect(domainSite, "https://www.example.com/"); e == nil || !strings.HasPrefix(e.Message, "You do not own this site") {
		t.Errorf("the refusal of an inspection: %v", e)
	}
	for name, e := range map[string]*googleapi.Error{"sitemaps": sitemaps(prefixSite), "inspection": inspect(prefixSite, prefixSite)} {
		if e != nil {
			t.Errorf("%s of another site: %v", name, e)
		}
	}
}

func TestErrorRateIsAShare(t *testing.T) {
	t.Parallel()
	s := start(t, testConfig())
	s.setFaults(t, `{"error_rate":0.3}`)
	failed := 0
	for range 300 {
		if _, err := s.api.Sites.List().Do(); err != nil {
			failed++
		}
	}
	if failed < 50 || failed > 130 {
		t.Errorf("of 300 calls %d failed", failed)
	}
}

func TestDroppedConnectionsCarryNoAnswer(t *testing.T) {
	s := start(t, testConfig())
	s.setFaults(t, `{"drop_rate":1}`)
	if e := s.query(); e == nil || e.Code != 0 || !strings.Contains(e.Message, "EOF") {
		t.Errorf("a dropped call: %v", e)
	}
	if s.Calls().SearchAnalytics == 0 {
		t.Error("the dropped call was not counted")
	}
}

func TestRevokedTokensStopNewAndOldAccess(t *testing.T) {
	config := testConfig()
	s := start(t, config)
	if e := s.query(); e != nil {
		t.Fatal(e)
	}
	s.setFaults(t, `{"revoke_tokens":true}`)
	if e := s.query(); e == nil || e.Code != 401 {
		t.Errorf("with the token from before: %v", e)
	}
	_, again := s.signIn(t, config.Users[0])
	if _, err := again.Sites.List().Do(); err == nil || !strings.Contains(err.Error(), "Token has been expired or revoked.") {
		t.Errorf("signing in again: %v", err)
	}
	s.setFaults(t, `{}`)
	if e := s.query(); e != nil {
		t.Errorf("afterwards: %v", e)
	}
}

func TestLatencyEndsWithTheRequest(t *testing.T) {
	s := start(t, testConfig())
	s.accessToken(t)
	s.setFaults(t, `{"latency_ms":3600000}`)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := s.api.Searchanalytics.Query(domainSite, lastWeek(&searchconsole.SearchAnalyticsQueryRequest{})).Context(ctx).Do()
		done <- err
	}()
	for s.Calls().SearchAnalytics == 0 { // the call has arrived
		runtime.Gosched()
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
	// The token endpoint and the control are not delayed. The listener closes only after the cancelled call has ended.
	s.setFaults(t, `{"latency_ms":1}`)
	if e := s.query(); e != nil {
		t.Error(e)
	}
}

func TestBadFaultsChangeNothing(t *testing.T) {
	s := start(t, testConfig())
	s.setFaults(t, `{"status":503}`)
	for _, body := range []string{
		``, `null1`, `[]`, `{"status":"503"}`, `{"status":200}`, `{"status":600}`, `{"error_rate":1.1}`, `{"error_rate":-0.1}`,
		`{"drop_rate":2}`, `{"latency_ms":-1}`, `{"reason":"tired"}`, `{"rate":1}`, `{} {}`,
	} {
		if code, _ := s.send(t, http.MethodPut, "/_sim/faults", body); code != http.StatusBadRequest {
			t.Errorf("%s: %d", body, code)
		}
	}
	if e := s.query(); e == nil || e.Code != 503 {
		t.Errorf("the fault from before is gone: %v", e)
	}
}

func TestControlPathsAndMethods(t *testing.T) {
	s := start(t, testConfig())
	for range 2 {
		if e := s.query(); e != nil {
			t.Fatal(e)
		}
	}
	if code, body := s.send(t, http.MethodGet, "/_sim/calls?prettyPrint=false", ""); code != 200 ||
		body != `{"search_analytics":2,"inspections":0,"sites":0,"sitemaps":0,"tokens":1}` {
		t.Errorf("calls: %d %s", code, body)
	}
	for _, c := range []struct {
		method, path string
		code         int
	}{{"POST", "/_sim/faults", 405}, {"PUT", "/_sim/calls", 405}, {"GET", "/_sim/published", 405}, {"GET", "/_sim/else", 404}} {
		if code, _ := s.send(t, c.method, c.path, ""); code != c.code {
			t.Errorf("%s %s: %d", c.method, c.path, code)
		}
	}
}

func TestQuotasOfTheMinuteAndTheDay(t *testing.T) {
	now := noon()
	config := testConfig()
	config.Now = func() time.Time { return now }
	config.TokenNow = time.Now
	config.Quotas = gscsim.Quotas{SearchPerMinute: 3, InspectionsPerMinute: 2, InspectionsPerDay: 3}
	s := start(t, config)
	other := func() *googleapi.Error {
		_, err := s.api.Searchanalytics.Query(prefixSite, lastWeek(&searchconsole.SearchAnalyticsQueryRequest{})).Do()
		return answered(err)
	}
	inspect := func() *googleapi.Error {
		_, err := s.api.UrlInspection.Index.Inspect(&searchconsole.InspectUrlIndexRequest{
			SiteUrl: domainSite, InspectionUrl: "https://www.example.com/"}).Do()
		return answered(err)
	}
	for range 3 {
		if e := s.query(); e != nil {
			t.Fatal(e)
		}
	}
	if e := s.query(); e == nil || e.Code != 403 || e.Errors[0].Reason != "quotaExceeded" ||
		!strings.HasPrefix(e.Message, "Search Analytics QPS quota exceeded.") {
		t.Errorf("the site's fourth query: %+v", e)
	}
	if e := other(); e == nil || e.Code != 429 || e.Errors[0].Reason != "rateLimitExceeded" {
		t.Errorf("the user's fourth query, of another site: %+v", e)
	}
	for i, want := range []int{0, 0, 429, 0, 429} {
		if i == 3 {
			now = now.Add(time.Minute)
		}
		if e := inspect(); (e == nil) != (want == 0) || e != nil &&
			(e.Code != want || !strings.Contains(e.Body, "RESOURCE_EXHAUSTED") || len(e.Errors) != 0) {
			t.Errorf("inspection %d: %+v", i, e)
		}
	}
	if e := s.query(); e != nil {
		t.Errorf("a minute later: %v", e)
	}
	now = now.AddDate(0, 0, 1)
	if e := inspect(); e != nil {
		t.Errorf("a day later: %v", e)
	}
}

func TestNegativeQuotaMeansNoLimit(t *testing.T) {
	config := testConfig()
	config.Quotas.SearchPerMinute = -1
	s := start(t, config)
	token := s.accessToken(t)
	for range 1300 {
		r := httptest.NewRequest(http.MethodPost, queryPath, strings.NewReader(`{"startDate":"2026-08-14","endDate":"2026-08-14","rowLimit":0}`))
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, r); w.Code != 400 {
			t.Fatal(w.Body)
		}
	}
}

package gscsim_test

import (
	"net/url"
	"testing"

	"sara/proxy/upstream/gscsim"
)

func TestAnswersEqualHTTPResponses(t *testing.T) {
	t.Parallel()
	s := start(t, testConfig())
	path := "/webmasters/v3/sites/" + url.QueryEscape(domainSite) + "/searchAnalytics/query?prettyPrint=false"
	// Days that change between reports, ranges and groupings: no state may carry over from one request to the next.
	var requests [][]byte
	for _, days := range []string{
		`"startDate":"2026-08-01","endDate":"2026-08-01"`, `"startDate":"2026-08-02","endDate":"2026-08-04"`,
		`"startDate":"2026-08-04","endDate":"2026-08-04"`, `"startDate":"2026-08-16","endDate":"2026-08-16","dataState":"all"`,
		`"startDate":"2010-01-01","endDate":"2010-01-01"`,
	} {
		for _, rest := range []string{
			`,"dimensions":["query"],"rowLimit":100`, `,"dimensions":["page"],"rowLimit":100`, `,"dimensions":["date"]`, ``,
			`,"dimensions":["device"],"type":"web"`, `,"dimensions":["country"]`,
			`,"dimensions":["query"],"dimensionFilterGroups":[{"filters":[{"dimension":"device","expression":"MOBILE"}]}]`,
		} {
			requests = append(requests, []byte("{"+days+rest+"}"))
		}
	}
	answers, err := s.Answers(t.Context(), domainSite, requests...)
	if err != nil {
		t.Fatal(err)
	}
	counted := s.Calls()
	for i, request := range requests {
		if code, body := s.post(t, path, string(request)); code != 200 || body != string(answers[i]) {
			t.Errorf("%s: %d %.300s, want %.300s", request, code, answers[i], body)
		}
	}
	if counted.SearchAnalytics != 0 {
		t.Errorf("%d calls were counted", counted.SearchAnalytics)
	}
}

func TestAnswersToBadRequests(t *testing.T) {
	s := gscsim.New(testConfig())
	for site, request := range map[string]string{
		"sc-domain:nowhere.example": `{"startDate":"2026-08-01","endDate":"2026-08-01"}`,
		domainSite:                  `{"startDate":"2026-08-01"}`,
		prefixSite:                  `{"rows":1}`,
	} {
		if answers, err := s.Answers(t.Context(), site, []byte(request)); err == nil {
			t.Errorf("%s about %s: %s", request, site, answers)
		}
	}
}

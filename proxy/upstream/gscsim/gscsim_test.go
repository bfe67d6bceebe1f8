package gscsim_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"golang.org/x/oauth2"
	"google.golang.org/api/option"
	searchconsole "google.golang.org/api/searchconsole/v1"

	"sara/proxy/upstream/gscsim"
)

const (
	domainSite = "sc-domain:example.com"
	prefixSite = "https://www.example.org/shop/"
)

// noon is the time of most tests: Pacific noon of 2026-08-16, with final data up to 2026-08-14.
func noon() time.Time { return time.Date(2026, 8, 16, 19, 30, 0, 0, time.UTC) }

func testConfig() gscsim.Config {
	return gscsim.Config{
		Seed: 7,
		Now:  noon,
		Users: []gscsim.User{{
			Email: "owner", ClientID: "client", ClientSecret: "secret", RefreshToken: "1//owner",
			Sites: []gscsim.Site{
				{URL: domainSite, Brand: "Example"},
				{URL: prefixSite, Permission: gscsim.FullUser, Queries: 300, Pages: 80},
				{URL: "sc-domain:restricted.example", Permission: gscsim.RestrictedUser, Queries: 50, Pages: 20},
				{URL: "sc-domain:unverified.example", Permission: gscsim.UnverifiedUser},
				{URL: "sc-domain:young.example", FirstDay: "2026-08-10", Queries: 50, Pages: 20, Sitemaps: []string{}},
			},
		}, {
			Email: "no-sites", ClientID: "client", ClientSecret: "secret", RefreshToken: "1//no-sites",
		}},
	}
}

// simulator is a started Server and Google's client for it, signed in as the first user.
type simulator struct {
	*gscsim.Server
	url    string
	client *http.Client // carries the user's token
	api    *searchconsole.Service
}

func start(t testing.TB, config gscsim.Config) *simulator {
	t.Helper()
	server := gscsim.New(config)
	listener := httptest.NewServer(server)
	t.Cleanup(listener.Close)
	s := &simulator{Server: server, url: listener.URL}
	s.client, s.api = s.signIn(t, config.Users[0])
	return s
}

// signIn returns an HTTP client and Google's client with the user's refresh token.
func (s *simulator) signIn(t testing.TB, user gscsim.User) (*http.Client, *searchconsole.Service) {
	t.Helper()
	config := oauth2.Config{
		ClientID: user.ClientID, ClientSecret: user.ClientSecret,
		Endpoint: oauth2.Endpoint{TokenURL: s.url + "/token", AuthStyle: oauth2.AuthStyleInParams},
	}
	client := config.Client(t.Context(), &oauth2.Token{RefreshToken: user.RefreshToken})
	api, err := searchconsole.NewService(context.Background(), option.WithHTTPClient(client), option.WithEndpoint(s.url+"/"))
	if err != nil {
		t.Fatal(err)
	}
	return client, api
}

// ask queries one week of the domain site's final data, unless the request sets something else.
func (s *simulator) ask(t testing.TB, request *searchconsole.SearchAnalyticsQueryRequest) *searchconsole.SearchAnalyticsQueryResponse {
	t.Helper()
	answer, err := s.api.Searchanalytics.Query(domainSite, lastWeek(request)).Do()
	if err != nil {
		t.Fatalf("query %+v: %v", request, err)
	}
	return answer
}

func lastWeek(request *searchconsole.SearchAnalyticsQueryRequest) *searchconsole.SearchAnalyticsQueryRequest {
	if request.StartDate == "" {
		request.StartDate, request.EndDate = "2026-08-08", "2026-08-14"
	}
	return request
}

// post sends raw JSON to a path and returns the status and the body.
func (s *simulator) post(t testing.TB, path, body string) (int, string) {
	t.Helper()
	return s.send(t, http.MethodPost, path, body)
}

func (s *simulator) send(t testing.TB, method, path, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.url+path, bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := s.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var text bytes.Buffer
	if _, err := text.ReadFrom(response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, text.String()
}

// accessToken is the token that the client of the first user carries.
func (s *simulator) accessToken(t testing.TB) string {
	t.Helper()
	token, err := s.client.Transport.(*oauth2.Transport).Source.Token()
	if err != nil {
		t.Fatal(err)
	}
	return token.AccessToken
}

package upstream

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"sara/proxy/upstream/gscsim"
)

const property = "https://www.example.com/shop/"

var lastDays = []byte(`{"startDate":"2026-11-10","endDate":"2026-11-16","dimensions":["query"],"rowLimit":1000}`)

// simulated is a client of a simulator that knows one user and one service account, both with the same property.
type simulated struct {
	sim         *gscsim.Server
	client      *client
	user, robot Account
	mu          sync.Mutex
	skew        time.Duration // guarded by mu
}

func (s *simulated) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.skew)
}

func (s *simulated) advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skew += d
}

func simulate(t *testing.T) *simulated {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	sites := []gscsim.Site{{URL: property, Queries: 40, Pages: 10}, {URL: "sc-domain:example.org", Permission: gscsim.UnverifiedUser}}
	user := gscsim.User{Email: "me", RefreshToken: "1//r", ClientID: "c", ClientSecret: "s", Sites: sites}
	robot := gscsim.User{Email: "robot@p.iam.gserviceaccount.com", PublicKey: &key.PublicKey, Sites: sites}
	s := &simulated{sim: gscsim.New(gscsim.Config{
		Seed:     1,
		Now:      func() time.Time { return time.Date(2026, 11, 19, 20, 0, 0, 0, time.UTC) },
		TokenNow: time.Now,
		Quotas:   gscsim.Quotas{SearchPerMinute: -1},
		Users:    []gscsim.User{user, robot},
	})}
	server := httptest.NewServer(s.sim)
	t.Cleanup(server.Close)
	s.client = startClient(t, Config{
		BaseURL: server.URL, TokenURL: server.URL + "/token", Now: s.now, Backoff: func(int) time.Duration { return 0 },
	})
	stored := func(id string, data []byte, err error) Account {
		if err != nil {
			t.Fatal(err)
		}
		return Account{ID: id, Revision: 1, Credentials: func(context.Context) ([]byte, error) { return data, nil }}
	}
	data, err := user.AuthorizedUserJSON()
	s.user = stored("user", data, err)
	data, err = robot.ServiceAccountJSON(key, server.URL+"/token")
	s.robot = stored("robot", data, err)
	return s
}

func (s *simulated) fault(t *testing.T, faults gscsim.Faults) {
	t.Helper()
	if err := s.sim.SetFaults(faults); err != nil {
		t.Fatal(err)
	}
}

func TestSimulatedCredentialsOfBothKinds(t *testing.T) {
	s := simulate(t)
	var replies []string
	for _, acct := range []Account{s.user, s.robot} {
		reply, err := s.client.searchAnalytics(t.Context(), acct, property, lastDays, nil)
		if err != nil {
			t.Fatal(err)
		}
		replies = append(replies, string(reply))
		sites, err := s.client.sites(t.Context(), acct)
		if err != nil || len(sites) != 2 {
			t.Errorf("%s: sites %v, %v", acct.ID, sites, err)
		}
	}
	if n := len(gjson.Get(replies[0], "rows").Array()); n == 0 || replies[0] != replies[1] {
		t.Errorf("%d rows; the same for both: %v", n, replies[0] == replies[1])
	}
}

func TestSimulatedRefusals(t *testing.T) {
	s := simulate(t)
	f := func(name string, faults gscsim.Faults, site string, body []byte, want Kind, wantCalls int64) {
		t.Run(name, func(t *testing.T) {
			s.fault(t, faults)
			before := s.sim.Calls().SearchAnalytics
			_, err := s.client.searchAnalytics(t.Context(), s.user, site, body, nil)
			if kindOf(t, err) != want {
				t.Errorf("got %v, want %v", err, want)
			}
			if calls := s.sim.Calls().SearchAnalytics - before; calls != wantCalls {
				t.Errorf("%d calls, want %d", calls, wantCalls)
			}
		})
	}
	none := gscsim.Faults{}
	f("a property the user lacks", none, "sc-domain:example.net", lastDays, Forbidden, 1)
	f("a question without dates", none, property, []byte(`{}`), Rejected, 1)
	f("load quota", gscsim.Faults{Reason: "quotaExceeded"}, property, lastDays, Quota, 1)
	f("rate limit", gscsim.Faults{Status: 429}, property, lastDays, Quota, 1)
	f("scope", gscsim.Faults{Reason: "insufficientPermissions"}, property, lastDays, Misconfigured, 1)
	f("API disabled", gscsim.Faults{Reason: "accessNotConfigured"}, property, lastDays, Misconfigured, 1)
	f("forbidden", gscsim.Faults{Status: 403, Reason: "forbidden"}, property, lastDays, Forbidden, 1)
	f("500", gscsim.Faults{Status: 500}, property, lastDays, Unavailable, 3)
	f("503", gscsim.Faults{Status: 503}, property, lastDays, Unavailable, 3)
	f("every connection dropped", gscsim.Faults{DropRate: 1}, property, lastDays, Unavailable, 3)
}

func TestSimulatedRevocationEndsWithinTenSeconds(t *testing.T) {
	s := simulate(t)
	for _, acct := range []Account{s.user, s.robot} {
		ask := func() error {
			_, err := s.client.searchAnalytics(t.Context(), acct, property, lastDays, nil)
			return err
		}
		if err := ask(); err != nil {
			t.Fatal(err)
		}
		s.fault(t, gscsim.Faults{RevokeTokens: true})
		if err := ask(); err == nil || kindOf(t, err) != Revoked {
			t.Errorf("%s while revoked: %v", acct.ID, err)
		}
		before := s.sim.Calls()
		if err := ask(); err == nil || kindOf(t, err) != Revoked || s.sim.Calls() != before {
			t.Errorf("%s asked again at once: %v, calls %+v before and %+v after", acct.ID, err, before, s.sim.Calls())
		}
		s.fault(t, gscsim.Faults{})
		s.advance(10 * time.Second)
		if err := ask(); err != nil {
			t.Errorf("%s after the end: %v", acct.ID, err)
		}
	}
}

func TestSimulatedConnectionDropsAreRetried(t *testing.T) {
	s := simulate(t)
	s.fault(t, gscsim.Faults{DropRate: 0.2})
	const calls = 60
	answered := 0
	for range calls {
		if _, err := s.client.searchAnalytics(t.Context(), s.robot, property, lastDays, nil); err == nil {
			answered++
		} else if kindOf(t, err) != Unavailable {
			t.Fatal(err)
		}
	}
	// Three consecutive attempts fail in 0.8 % of the calls; without retries, 20 % would fail. The draws are seeded.
	if answered < calls*9/10 {
		t.Errorf("%d of %d calls answered", answered, calls)
	}
}

func TestSimulatedOutageEndsWithinFifteenSeconds(t *testing.T) {
	s := simulate(t)
	ask := func() error {
		_, err := s.client.searchAnalytics(t.Context(), s.user, property, lastDays, nil)
		return err
	}
	s.fault(t, gscsim.Faults{Status: 503})
	for range 20 {
		if err := ask(); err == nil || kindOf(t, err) != Unavailable {
			t.Errorf("during the outage: %v", err)
		}
	}
	if n := s.sim.Calls().SearchAnalytics; n != 15 {
		t.Errorf("%d attempts, want three of each of the first five calls", n)
	}
	s.fault(t, gscsim.Faults{})
	s.advance(15 * time.Second)
	if err := ask(); err != nil {
		t.Errorf("after the end: %v", err)
	}
}

func TestSimulatedSitemapsAndInspections(t *testing.T) {
	s := simulate(t)
	sitemaps, err := s.client.sitemaps(t.Context(), s.user, property)
	if err != nil || len(sitemaps) != 3 || sitemaps[0].Path != property+"sitemap_index.xml" || sitemaps[0].LastDownloaded.IsZero() {
		t.Errorf("sitemaps %+v, %v", sitemaps, err)
	}
	home, err := s.client.inspect(t.Context(), s.robot, property, property, nil)
	if err != nil || home.CoverageState != "Submitted and indexed" || home.Verdict != "PASS" || home.LastCrawl.IsZero() {
		t.Errorf("the home page is %+v, %v", home, err)
	}
	stranger, err := s.client.inspect(t.Context(), s.user, property, property+"never-there", nil)
	if err != nil || stranger.CoverageState != "URL is unknown to Google" || !stranger.LastCrawl.IsZero() {
		t.Errorf("an unknown address is %+v, %v", stranger, err)
	}
	if _, err := s.client.inspect(t.Context(), s.user, property, "https://www.example.com/elsewhere/", nil); err == nil || kindOf(t, err) != Forbidden {
		t.Errorf("an address outside: %v", err)
	}
	if _, err := s.client.sitemaps(t.Context(), s.user, "sc-domain:example.org"); err == nil || kindOf(t, err) != Forbidden {
		t.Errorf("sitemaps of an unverified property: %v", err)
	}
	s.fault(t, gscsim.Faults{Status: 429})
	if _, err := s.client.inspect(t.Context(), s.user, property, property, nil); err == nil || kindOf(t, err) != Quota {
		t.Errorf("a rate limit: %v", err)
	}
	if calls := s.sim.Calls(); calls.Inspections != 4 || calls.Sitemaps != 2 {
		t.Errorf("calls are %+v", calls)
	}
}

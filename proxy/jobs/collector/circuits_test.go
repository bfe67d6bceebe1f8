package collector

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"sara/proxy/upstream"
	"sara/proxy/upstream/gscsim"
)

// oneConnection is a store of connections with one that reaches every site of a simulator.
type oneConnection struct{ credentials []byte }

func (c oneConnection) Credentials(context.Context, string) ([]byte, error) {
	return c.credentials, nil
}

func (oneConnection) SetConnectionHealth(context.Context, string, int, bool, string) (bool, error) {
	return false, nil
}

func (oneConnection) SetPropertyAccess(context.Context, string, string) (bool, error) {
	return false, nil
}

// A property whose every call fails is left alone, and the others of its connection are collected through the same gateway.
func TestFailingPropertyDoesNotStopTheOthers(t *testing.T) {
	w := newUpstream(t, nil)
	properties := w.properties("broken", "shop", "blog", "forum")
	user := gscsim.User{Email: "me", RefreshToken: "1//r", ClientID: "c", ClientSecret: "s"}
	for _, p := range properties {
		user.Sites = append(user.Sites, gscsim.Site{URL: p.Site, Queries: 20, Pages: 5})
	}
	sim := gscsim.New(gscsim.Config{Seed: 1, Now: w.now, TokenNow: time.Now, Quotas: gscsim.Quotas{SearchPerMinute: -1}, Users: []gscsim.User{user}})
	check(t, sim.SetFaults(gscsim.Faults{Status: 500, Site: properties[0].Site}))
	server := httptest.NewServer(sim)
	t.Cleanup(server.Close)
	credentials, err := user.AuthorizedUserJSON()
	check(t, err)
	gateway, err := upstream.New(upstream.Config{BaseURL: server.URL, TokenURL: server.URL + "/token", Connections: oneConnection{credentials},
		Now: w.now, Backoff: func(int) time.Duration { return 0 }})
	check(t, err)
	t.Cleanup(gateway.Close)
	c := w.collector(t.TempDir(), func(c *Config) { c.Gateway, c.RetryPause = gateway, time.Millisecond })
	for range 3 { // the failures open its circuit: it is refused without a call from then on
		results, err := c.Collect(t.Context(), properties, w.weeks(1))
		check(t, err)
		for i, r := range results {
			if failed := r.Err != nil; failed != (i == 0) {
				t.Errorf("%s: %d days, %v", r.Property.PropertyID, r.Days, r.Err)
			}
		}
	}
	before := sim.Calls().SearchAnalytics
	_, err = c.Collect(t.Context(), properties[:1], w.weeks(1))
	check(t, err)
	if calls := sim.Calls().SearchAnalytics - before; calls != 0 {
		t.Errorf("%d calls about a property whose circuit is open", calls)
	}
}

package collector

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"sara/proxy/jobs/schedule"
	"sara/proxy/upstream"
	"sara/proxy/upstream/gscsim"
)

// oneConnection is a store of connections with one that reaches every site of a simulator.
type oneConnection struct{ credentials []byte }

func (c oneConnection) Credentials(context.Context, string) ([]byte, error) {
	return c.credentials, nil
}

func (oneConnection) SetConnectionHealth(context.Context, string, int, string) (bool, error) {
	return false, nil
}

func (oneConnection) SetPropertyAccess(context.Context, string, string) (bool, error) {
	return false, nil
}

// simulate returns a simulator of the properties, whose clock is that of w now, and a gateway to it with another clock.
func (w *fakeUpstream) simulate(properties []Property, now func() time.Time) (*gscsim.Server, *upstream.Gateway) {
	w.t.Helper()
	user := gscsim.User{Email: "me", RefreshToken: "1//r", ClientID: "c", ClientSecret: "s"}
	for _, p := range properties {
		user.Sites = append(user.Sites, gscsim.Site{URL: p.Site, Queries: 20, Pages: 5})
	}
	sim := gscsim.New(gscsim.Config{Seed: 1, Now: w.now, TokenNow: time.Now, Quotas: gscsim.Quotas{SearchPerMinute: -1}, Users: []gscsim.User{user}})
	server := httptest.NewServer(sim)
	w.t.Cleanup(server.Close)
	credentials, err := user.AuthorizedUserJSON()
	check(w.t, err)
	gateway, err := upstream.New(upstream.Config{BaseURL: server.URL, TokenURL: server.URL + "/token", Connections: oneConnection{credentials},
		Now: now, Backoff: func(int) time.Duration { return 0 }})
	check(w.t, err)
	w.t.Cleanup(gateway.Close)
	return sim, gateway
}

// A property whose every call fails is left alone, and the others of its connection are collected through the same gateway.
func TestFailingPropertyDoesNotStopTheOthers(t *testing.T) {
	w := newUpstream(t, nil)
	properties := w.properties("broken", "shop", "blog", "forum")
	sim, gateway := w.simulate(properties, w.now)
	check(t, sim.SetFaults(gscsim.Faults{Status: 500, Site: properties[0].Site}))
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
	_, err := c.Collect(t.Context(), properties[:1], w.weeks(1))
	check(t, err)
	if calls := sim.Calls().SearchAnalytics - before; calls != 0 {
		t.Errorf("%d calls about a property whose circuit is open", calls)
	}
}

// A clock that is ten days ahead archives no day to come as one without traffic. Once it is right, nothing is lost.
func TestClockAheadArchivesNothing(t *testing.T) {
	w, folder := newUpstream(t, nil), t.TempDir()
	right := w.now
	_, gateway := w.simulate(w.properties("shop"), func() time.Time { return w.now() })
	collect := func() Result {
		t.Helper()
		c := w.collector(folder, func(c *Config) { c.Gateway = gateway })
		results, err := c.Collect(t.Context(), w.properties("shop"), w.weeks(1))
		check(t, err)
		return results[0]
	}
	w.now = func() time.Time { return right().AddDate(0, 0, 10) }
	if r := collect(); r.Days != 0 || schedule.KindOf(r.Err) != upstream.Misconfigured {
		t.Errorf("%d days are archived, with the error %v", r.Days, r.Err)
	}
	w.now = right
	if r := collect(); r.Days != 7 || r.Err != nil {
		t.Errorf("%d days are archived, with the error %v", r.Days, r.Err)
	}
}

package upstream

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"
)

func TestSites(t *testing.T) {
	f := func(name, body string, want []Site) {
		t.Run(name, func(t *testing.T) {
			g := newGoogle(t, status(503, "{}"), ok(body))
			cfg := g.config()
			cfg.BaseURL += "/gw"
			sites, err := startClient(t, cfg).sites(t.Context(), account(t, authorizedUser()))
			if err != nil || sites == nil || !slices.Equal(sites, want) {
				t.Errorf("got %v, %v; want %v", sites, err, want)
			}
			r := g.requests[1]
			if r.URL.Path != "/gw/webmasters/v3/sites" || r.Header.Get("Authorization") != "Bearer access-1" {
				t.Errorf("sent %s with %q", r.URL.Path, r.Header.Get("Authorization"))
			}
		})
	}
	f("none", `{}`, []Site{})
	f("unfiltered", `{"siteEntry":[{"siteUrl":"sc-domain:b.com","permissionLevel":"siteUnverifiedUser"},{"siteUrl":"https://a.com/","permissionLevel":"siteOwner"}]}`,
		[]Site{{"sc-domain:b.com", "siteUnverifiedUser"}, {"https://a.com/", "siteOwner"}})
}

func TestSitesErrorsMeanTheSameAsQueryErrors(t *testing.T) {
	f := func(name string, want Kind, script ...http.HandlerFunc) {
		t.Run(name, func(t *testing.T) {
			g := newGoogle(t, script...)
			if _, err := startClient(t, g.config()).sites(t.Context(), account(t, authorizedUser())); kindOf(t, err) != want {
				t.Errorf("got %v, want %v", err, want)
			}
		})
	}
	f("quota", Quota, status(403, string(fixture(t, "quota_qps.json"))))
	f("scope", Misconfigured, status(403, string(fixture(t, "scope_old.json"))))
	f("revoked", Revoked, status(401, "{}"))
	f("server trouble", Unavailable, status(500, "oops"))
	f("dropped", Unavailable, drop)
	f("bad JSON", Unavailable, ok("<html>"))
}

func TestSitesEndWithTheirContext(t *testing.T) {
	g := newGoogle(t, hang)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := startClient(t, g.config()).sites(ctx, account(t, authorizedUser()))
	if kindOf(t, err) != Interrupted || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestTheAccessTokenDoesNotFollowARedirect(t *testing.T) {
	elsewhere := newGoogle(t, ok(`{}`))
	g := newGoogle(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusFound)
	})
	c, acct := startClient(t, g.config()), account(t, authorizedUser())
	if _, err := c.sites(t.Context(), acct); kindOf(t, err) != Unavailable {
		t.Errorf("sites: %v", err)
	}
	if _, err := c.searchAnalytics(t.Context(), acct, site, question); kindOf(t, err) != Unavailable {
		t.Errorf("query: %v", err)
	}
	if elsewhere.calls() != 0 {
		t.Errorf("%d requests elsewhere", elsewhere.calls())
	}
}

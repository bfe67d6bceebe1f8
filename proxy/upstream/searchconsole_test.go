package upstream

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
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
	f("unfiltered",
		`{"siteEntry":[{"siteUrl":"sc-domain:b.com","permissionLevel":"siteUnverifiedUser"},{"siteUrl":"https://a.com/","permissionLevel":"siteOwner"}]}`,
		[]Site{{"sc-domain:b.com", "siteUnverifiedUser"}, {"https://a.com/", "siteOwner"}})
}

func TestSitesErrorsHaveTheKindsOfQueryErrors(t *testing.T) {
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
	f("null", Unavailable, ok("null"))
	f("null for a site", Unavailable, ok(`{"siteEntry":[null]}`))
	f("no content", Unavailable, status(204, ""))
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

func TestRedirectsGetNoAccessToken(t *testing.T) {
	elsewhere := newGoogle(t, ok(`{}`))
	g := newGoogle(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusFound)
	})
	c, acct := startClient(t, g.config()), account(t, authorizedUser())
	if _, err := c.sites(t.Context(), acct); kindOf(t, err) != Unavailable {
		t.Errorf("sites: %v", err)
	}
	if _, err := c.searchAnalytics(t.Context(), acct, site, queryBody, nil); kindOf(t, err) != Unavailable {
		t.Errorf("query: %v", err)
	}
	if elsewhere.calls() != 0 {
		t.Errorf("%d requests elsewhere", elsewhere.calls())
	}
}

func TestSitemaps(t *testing.T) {
	at := time.Date(2026, 11, 20, 7, 8, 9, 123e6, time.UTC)
	f := func(name, body string, want []Sitemap) {
		t.Run(name, func(t *testing.T) {
			g := newGoogle(t, status(503, "{}"), ok(body))
			cfg := g.config()
			cfg.BaseURL += "/gw"
			sitemaps, err := startClient(t, cfg).sitemaps(t.Context(), account(t, authorizedUser()), site)
			if err != nil || sitemaps == nil || !slices.Equal(sitemaps, want) {
				t.Errorf("got %v, %v; want %v", sitemaps, err, want)
			}
			r := g.requests[1]
			uri, _, _ := strings.Cut(r.RequestURI, "?")
			if uri != "/gw/webmasters/v3/sites/https%3A%2F%2Fwww.example.com%2F/sitemaps" || r.Header.Get("Authorization") != "Bearer access-1" {
				t.Errorf("sent %s with %q", uri, r.Header.Get("Authorization"))
			}
		})
	}
	f("none", `{}`, []Sitemap{})
	f("numbers are strings, pending ones may have been downloaded", `{"sitemap":[
		{"path":"https://www.example.com/a.xml","lastSubmitted":"2026-01-02T03:04:05.678Z","isPending":true,"isSitemapsIndex":true,"type":"sitemap",
		 "lastDownloaded":"2026-11-20T07:08:09.123Z","warnings":"9007199254740993","errors":"2","contents":[{"type":"web","submitted":"42","indexed":"0"}]},
		{"path":"https://cdn.example.net/b.xml","lastDownloaded":"2026-11-20T08:08:09.123+01:00","isPending":false,"warnings":"0","errors":"0"}]}`,
		[]Sitemap{
			{Path: "https://www.example.com/a.xml", IsPending: true, LastDownloaded: at, Warnings: 9007199254740993, Errors: 2},
			{Path: "https://cdn.example.net/b.xml", LastDownloaded: at},
		})
	f("absent and unknown members", `{"kind":"list","sitemap":[{"path":"x","novelty":{"a":[1]}},{"path":"y","lastDownloaded":"soon"}]}`,
		[]Sitemap{{Path: "x"}, {Path: "y"}})
}

func TestInspect(t *testing.T) {
	const address = "https://www.example.com/a?b=c&d=ü"
	f := func(name, body string, want Inspection) {
		t.Run(name, func(t *testing.T) {
			g := newGoogle(t, drop, ok(body))
			inspection, err := startClient(t, g.config()).inspect(t.Context(), account(t, authorizedUser()), "sc-domain:example.com", address, nil)
			if err != nil || inspection != want {
				t.Errorf("got %+v, %v; want %+v", inspection, err, want)
			}
			sent := g.bodies[1]
			if r := g.requests[1]; r.Method != http.MethodPost || r.URL.Path != "/v1/urlInspection/index:inspect" ||
				gjson.Get(sent, "inspectionUrl").Str != address || gjson.Get(sent, "siteUrl").Str != "sc-domain:example.com" ||
				gjson.Get(sent, "languageCode").Str != "en-US" {
				t.Errorf("sent %s %s %s", r.Method, r.URL.Path, sent)
			}
		})
	}
	f("indexed", `{"inspectionResult":{"inspectionResultLink":"https://x","indexStatusResult":{"verdict":"PASS","coverageState":"Submitted and indexed",
		"robotsTxtState":"ALLOWED","lastCrawlTime":"2026-11-12T13:14:15Z","sitemap":["https://www.example.com/a.xml","https://www.example.com/b.xml"],
		"novelty":1},"mobileUsabilityResult":{"verdict":"VERDICT_UNSPECIFIED"},"novelty":{}}}`,
		Inspection{"Submitted and indexed", "PASS", time.Date(2026, 11, 12, 13, 14, 15, 0, time.UTC)})
	f("never crawled", `{"inspectionResult":{"indexStatusResult":{"verdict":"NEUTRAL","coverageState":"URL is unknown to Google"}}}`,
		Inspection{CoverageState: "URL is unknown to Google", Verdict: "NEUTRAL"})
	f("a label with quotes of its own",
		`{"inspectionResult":{"indexStatusResult":{"verdict":"NEUTRAL","coverageState":"Excluded by \u2018noindex\u2019 tag"}}}`,
		Inspection{CoverageState: "Excluded by ‘noindex’ tag", Verdict: "NEUTRAL"})
	f("no label", `{"inspectionResult":{"indexStatusResult":{}}}`, Inspection{})
}

func TestIndexingErrorsHaveTheKindsOfQueryErrors(t *testing.T) {
	f := func(name string, want Kind, retryAfter time.Duration, wantCalls int, script ...http.HandlerFunc) {
		t.Run(name, func(t *testing.T) {
			for call, ask := range indexingCalls() {
				g := newGoogle(t, script...)
				err := ask(t.Context(), startClient(t, g.config()), account(t, authorizedUser()))
				failure, ok := errors.AsType[*Error](err)
				if !ok || failure.Kind != want || failure.RetryAfter != retryAfter || g.calls() != wantCalls {
					t.Errorf("%s: %v, retry after %v, %d calls; want %v, %v, %d", call, err, failure.RetryAfter, g.calls(), want, retryAfter, wantCalls)
				}
			}
		})
	}
	const perDay = `{"error":{"code":429,"message":"Quota exceeded for sc-quota-metric 'URL inspection queries' and limit ` +
		`'URL inspection queries per day per site'.","status":"RESOURCE_EXHAUSTED"}}`
	f("quota of the minute", Quota, time.Minute, 1, status(429, string(fixture(t, "quota_metric.json"))))
	f("quota of the day", Quota, 15*time.Minute, 1, status(429, perDay))
	f("not of this property, or a restricted user", Forbidden, 0, 1, status(403, string(fixture(t, "forbidden_denied.json"))))
	f("no access", Forbidden, 0, 1, status(403, string(fixture(t, "forbidden_site.json"))))
	f("scope", Misconfigured, 0, 1, status(403, string(fixture(t, "scope_new.json"))))
	f("revoked", Revoked, 0, 2, status(401, "{}"))
	f("no such thing", Rejected, 0, 1, status(400, string(fixture(t, "invalid_argument.json"))))
	f("server trouble", Unavailable, 0, 3, status(500, string(fixture(t, "internal.json"))))
	f("bad JSON", Unavailable, 0, 3, ok("<html>"))
	f("an answer of another shape", Unavailable, 0, 3, ok(`{"sitemap":1,"inspectionResult":1}`))
	f("null", Unavailable, 0, 3, ok("null"))
	f("null for a sitemap and for an inspection", Unavailable, 0, 3, ok(`{"sitemap":[null],"inspectionResult":null}`))
	f("no content", Unavailable, 0, 3, status(204, ""))
	f("an endless answer is final", Unavailable, 0, 1, gzipped(bytes.Repeat([]byte(" "), 1<<20), maxReply>>20+1))
}

// indexingCalls are the calls that the indexing circuits guard.
func indexingCalls() map[string]func(context.Context, *client, Account) error {
	return map[string]func(context.Context, *client, Account) error{
		"sitemaps": func(ctx context.Context, c *client, acct Account) error {
			_, err := c.sitemaps(ctx, acct, site)
			return err
		},
		"inspect": func(ctx context.Context, c *client, acct Account) error {
			_, err := c.inspect(ctx, acct, site, site, nil)
			return err
		},
	}
}

func TestInspectionWithoutStatusIsUnavailable(t *testing.T) {
	for _, body := range []string{`{}`, `{"inspectionResult":{}}`, `{"inspectionResult":{"indexStatusResult":null}}`} {
		g := newGoogle(t, ok(body))
		if _, err := startClient(t, g.config()).inspect(t.Context(), account(t, authorizedUser()), site, site, nil); kindOf(t, err) != Unavailable {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestFailingInspectionsDoNotBlockSearchAnalytics(t *testing.T) {
	for call, ask := range indexingCalls() {
		u, acct := newGuarded(t, status(503, "{}")), account(t, authorizedUser())
		for range 2 * failuresToOpen {
			if err := ask(t.Context(), u.client, acct); kindOf(t, err) != Unavailable {
				t.Fatal(err)
			}
		}
		if n := u.metric(t, "sara_upstream_breaker_open", "indexing_property"); n != 1 || u.calls() != failuresToOpen*maxAttempts {
			t.Errorf("%s: the gauge is %v after %d requests", call, n, u.calls())
		}
		u.answer(ok(empty))
		if err := errors.Join(u.check(t.Context(), acct), u.ask(t, acct)); err != nil {
			t.Errorf("%s: search analytics fails with %v", call, err)
		}
		wantRefusal(t, ask(t.Context(), u.client, acct), 10*time.Second)

		u.answer(status(503, "{}"))
		u.fail(t, acct, failuresToOpen)
		u.clock.advance(9 * time.Second)
		wantRefusal(t, ask(t.Context(), u.client, acct), time.Second)
		u.clock.advance(time.Second)
		u.answer(ok(`{"inspectionResult":{"indexStatusResult":{}}}`))
		if err := ask(t.Context(), u.client, acct); err != nil {
			t.Errorf("%s after ten seconds: %v", call, err)
		}
		if u.metric(t, "sara_upstream_breaker_open", "property") != 1 || u.metric(t, "sara_upstream_breaker_open", "indexing_property") != 0 {
			t.Errorf("%s: its success closed the circuit of search analytics", call)
		}
	}
}

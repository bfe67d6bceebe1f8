package proxy

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"sara/archive/sqlstore"
	"sara/policy"
)

// Every kind of reference resolves to its property.
func TestProperty200References(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	main, shop := w.properties["main"].ID, w.properties["prefix"].ID
	for reference, id := range map[string]string{
		main:                            main,
		strings.ToUpper(main):           main,
		"%" + hexOf(main[0]) + main[1:]: main,
		"example.com":                   main,
		"Example.COM":                   main,
		"sc-domain:example.com":         main,
		"sc-domain%3Aexample.com":       main,
		"sc-domain%3aexample%2ecom":     main,
		"main":                          main,
		"https%3A%2F%2Fwww.example.org%2Fshop%2F": shop,
		"https:%2f%2fwww.example.org%2fshop%2f":   shop,
		"HTTPS%3A%2F%2FWWW.Example.ORG%2Fshop%2F": shop,
		"SC-Domain:EXAMPLE.com":                   main,
		"www.example.org":                         shop,
		"WWW.Example.ORG":                         shop,
		"shop":                                    shop,
		"twin-a":                                  w.properties["twin_a"].ID,
		w.properties["twin_b"].ID:                 w.properties["twin_b"].ID,
		"archived.example":                        w.properties["archived"].ID,
	} {
		w.run(reference, func(t *testing.T) {
			for _, endpoint := range []string{"", "/brand-terms"} {
				if r := w.get("pro", "/v1/properties/"+reference+endpoint).ok(t); r.meta()["property_id"] != id {
					t.Errorf("%s leads to %v, not %s", endpoint, r.meta()["property_id"], id)
				}
			}
		})
	}
}

func hexOf(c byte) string { return string([]byte{"0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15]}) }

// A domain that is connected twice is refused with both ids, by its domain and by its full string.
func TestProperty400Ambiguous(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.properties["twin_a"].ID, w.properties["twin_b"].ID
	for _, endpoint := range []string{"", "/summary", "/queries", "/movers/pages", "/annotations"} {
		for _, reference := range []string{"twin.example", "TWIN.example", "sc-domain%3Atwin.example"} {
			w.get("pro", "/v1/properties/"+reference+endpoint).want(t, http.StatusBadRequest, policy.CodePropertyAmbiguous, a, b)
		}
	}
	w.get("other", "/v1/properties/twin.example").want(t, http.StatusNotFound, policy.CodeNotFound)
}

// An archived property counts only where no other matches. A domain property and a URL prefix of one host are ambiguous by the host.
func TestProperty200BesideArchived(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.properties["twin_b"]
	archive := func(id string, archived bool) {
		_, err := w.store.SetArchived(t.Context(), id, archived)
		w.must(err)
		w.server.Invalidate()
	}
	archive(w.properties["twin_a"].ID, true)
	for _, reference := range []string{"twin.example", "sc-domain:TWIN.example"} {
		if r := w.get("pro", "/v1/properties/"+reference).ok(t); r.data()["id"] != b.ID {
			t.Errorf("%s means %v beside an archived twin, want %s", reference, r.data()["id"], b.ID)
		}
	}
	if r := w.get("pro", "/v1/properties/twin-a").ok(t); r.data()["archived"] != true {
		t.Errorf("the slug of an archived property means %v", r.data())
	}
	prefix, err := w.store.AddProperty(t.Context(), sqlstore.PropertySpec{Connection: b.Connection.ID, Site: "https://TWIN.example/blog/"})
	w.must(err)
	w.server.Invalidate()
	w.get("pro", "/v1/properties/twin.example").want(t, http.StatusBadRequest, policy.CodePropertyAmbiguous, b.ID, prefix.ID)
	archive(b.ID, true)
	archive(prefix.ID, true)
	w.get("pro", "/v1/properties/twin.example").want(t, http.StatusBadRequest, policy.CodePropertyAmbiguous, w.properties["twin_a"].ID, b.ID, prefix.ID)
}

func TestProperty404References(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, reference := range []string{
		"nothing", "www.example.com", "example.org", "example", "EXAMPLE.com.", "sc-domain:example.org", "sc-domain%253Aexample.com", "Main",
		"main%20", "%20main", "https%3A%2F%2Fwww.example.org%2Fshop", "http%3A%2F%2Fwww.example.org%2Fshop%2F",
		"https%3A%2F%2Fwww.example.org%2F", w.properties["main"].ID[1:], w.properties["main"].ID + "0", "..%2F", "%2E%2E", "..%2F..%2Fme",
		"%2Fetc%2Fpasswd", "%2e", "*", "%25", "%22%27--", "'%20OR%201%3D1--", "m%C3%A4in", url.PathEscape("пример.рф"), "%F0%9F%8C%B7",
		strings.Repeat("x", 5000), strings.Repeat("%41", 5000), "main%0A", "a+b", "{id}",
	} {
		w.run(brief(reference), func(t *testing.T) {
			for _, endpoint := range []string{"", "/summary"} {
				w.get("pro", "/v1/properties/"+reference+endpoint).want(t, http.StatusNotFound, policy.CodeNotFound)
			}
		})
	}
	w.run("unencoded URLs and empty segments are no routes", func(t *testing.T) {
		for _, path := range []string{"/v1/properties/https://www.example.org/shop/", "/v1/properties/https://www.example.org/shop//summary",
			"/v1/properties//summary", "/v1/properties/", "/v1/properties/main/", "/v1/properties/main/summary/", "/v1/properties/main//summary",
			"/v1/properties/main/nothing", "/v1/properties/main/movers", "/v1/properties/main/Summary", "/v2/me", "/v1", "/v1/me/", "/V1/me",
			"/v1/%6De", "/v1/properties/main/%73ummary", "/v1/properties/../me", "/v1/./me", "/metrics", "/livez", "/debug/pprof/"} {
			request := w.rawRequest(path)
			request.Header.Set("Authorization", "Bearer "+w.keys["pro"])
			r := w.do(request)
			if r.status != http.StatusNotFound || r.code() != policy.CodeNotFound {
				t.Errorf("%s answers %d %s", path, r.status, r.body)
			}
			r.wantEnvelope(t)
		}
	})
}

// Search Console, and so sara, knows an international domain by its ASCII form only: the message names it, for a domain that has one.
func TestProperty404International(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for reference, ascii := range map[string]string{
		"bücher.example":                "xn--bcher-kva.example",
		"sc-domain:bücher.example":      "sc-domain:xn--bcher-kva.example",
		"sc-domain:BÜCHER.example":      "sc-domain:xn--bcher-kva.example",
		"https://bücher.example/":       "https://xn--bcher-kva.example/",
		"http://bücher.example:8080/ü/": "http://xn--bcher-kva.example:8080/ü/",
		"sc-domain:пример.рф":           "sc-domain:xn--e1afmkfd.xn--p1ai",
		"example。org":                   "example.org",
	} {
		r := w.get("pro", "/v1/properties/"+url.PathEscape(reference))
		r.want(t, http.StatusNotFound, policy.CodeNotFound, `"`+reference+`"`, `names an international domain in ASCII: "`+ascii+`"`)
	}
	for _, reference := range []string{"bcher.example", "xn--bcher-kva.example", "sc-domain:example.org", "https://www.example.org/ü/", "bücher", "🌷",
		"bü cher.example", "-ü.example", strings.Repeat("ü.", 500) + "example"} {
		r := w.get("pro", "/v1/properties/"+url.PathEscape(reference))
		r.want(t, http.StatusNotFound, policy.CodeNotFound)
		if bytes.Contains(r.body, []byte("international")) {
			t.Errorf("%s: %s", brief(reference), r.body)
		}
	}
}

// rawRequest is a GET whose path is sent without re-encoding.
func (w *world) rawRequest(path string) *http.Request {
	w.t.Helper()
	request, err := http.NewRequest(http.MethodGet, w.base, nil)
	w.must(err)
	request.URL.Opaque = "//" + request.URL.Host + path
	return request
}

func TestProperty400References(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.sim.Calls()
	for _, reference := range []string{"%zz", "%", "%4", "abc%", "%ff", "%c3%28", "a%00b", "%00", "%ed%a0%80"} {
		for _, endpoint := range []string{"", "/queries"} {
			r := w.do(withKey(w.rawRequest("/v1/properties/"+reference+endpoint), w.keys["pro"]))
			r.want(t, http.StatusBadRequest, codeValidation, "path")
		}
	}
	if after := w.sim.Calls(); after != before {
		t.Errorf("the upstream was asked: %+v", after)
	}
}

func withKey(request *http.Request, key string) *http.Request {
	request.Header.Set("Authorization", "Bearer "+key)
	return request
}

// The first failing check decides: route, key, plan, scope, parameters, property.
func TestOrderOfChecks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const unknown = "/v1/properties/nothing"
	for _, c := range []struct {
		name, key, path string
		status          int
		code            string
	}{
		{"no key on an unknown path", "", "/v1/nothing", 404, policy.CodeNotFound},
		{"a revoked key on an unknown path", "revoked", "/v1/nothing?x=1", 404, policy.CodeNotFound},
		{"no key, bad parameter", "", "/v1/me?x=1", 401, policy.CodeInvalidKey},
		{"revoked, unknown property", "revoked", unknown + "/summary?x=1", 401, policy.CodeRevokedKey},
		{"trial, bad parameter, unknown property", "trial", unknown + "/summary?x=1", 403, policy.CodeNoAccess},
		{"lapsed, ambiguous property", "lapsed", "/v1/properties/twin.example", 403, policy.CodeNoAccess},
		{"another address, bad parameter, unknown property", "elsewhere", unknown + "/summary?x=1", 403, policy.CodeAddress},
		{"no scope, bad parameter, unknown property", "config_only", unknown + "/summary?x=1", 403, policy.CodeScope},
		{"no scope, bad escape", "config_only", "/v1/properties/%25/summary?x=1", 403, policy.CodeScope},
		{"bad parameter, unknown property", "pro", unknown + "/summary?x=1", 400, codeUnsupported},
		{"bad value, unknown property", "pro", unknown + "/queries?limit=0", 400, codeValidation},
		{"bad filter, unknown property", "pro", unknown + "/queries?filters=x", 400, codeValidation},
		{"too old, unknown property", "pro", unknown + "/queries?start_date=2020-01-01&end_date=2020-01-02", 400, codeTooOld},
		{"bad parameter, ambiguous property", "pro", "/v1/properties/twin.example?x=1", 400, codeUnsupported},
		{"before the live window, unknown property", "pro", unknown + "/queries?start_date=2025-01-01&end_date=2025-01-02", 404, policy.CodeNotFound},
		{"unknown group, archived", "pro",
			w.path("archived", "/queries?filters=") + url.QueryEscape(filtersOf("page_group", "is", "x")), 400, codeValidation},
	} {
		w.run(c.name, func(t *testing.T) { w.get(c.key, c.path).want(t, c.status, c.code) })
	}
}

package proxy

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// handled runs a request through the handler without a socket.
func (w *world) handled(target string) (status int, body []byte) {
	ctx := w.request(target)
	w.server.edge.Handler(ctx)
	return ctx.Response.StatusCode(), ctx.Response.Body()
}

// wantEnvelopeOf checks the properties of every answer.
func wantEnvelopeOf(t *testing.T, target string, status int, body []byte) {
	t.Helper()
	var envelope map[string]any
	if err := json.Unmarshal(body, &envelope); err != nil {
		t.Fatalf("%q answers %d with no JSON: %q", target, status, body)
	}
	success, _ := envelope["success"].(bool)
	if status == http.StatusInternalServerError || success != (status == http.StatusOK) {
		t.Errorf("%q answers %d %s", target, status, body)
	}
}

// No query string causes a panic or a 500, and given filters are always passed to the upstream, unless a grid has their keys.
func FuzzQuery(f *testing.F) {
	for _, c := range append(append(sharedRefusals(), integerRefusals("limit", 1, 1000)...), refusal{query: "order_by=-key&limit=7"}) {
		f.Add(c.query)
	}
	for _, filters := range []string{"[]", " [ ] ", filtersOf("query", "contains", "x"),
		filtersOf("brand", "is", "non-brand", "page_group", "is", "Blog"), filtersOf("device", "is", "Mobile"), filtersOf("country", "not_equals", "usa")} {
		f.Add("filters=" + url.QueryEscape(filters))
		f.Add("date_range=last_7d&compare=none&filters=" + url.QueryEscape(filters))
	}
	w := newWorld(f)
	upstream := new(recorder)
	w.answerWith(upstream.ServeHTTP)
	summary, queries := w.path("main", "/summary?"), w.path("main", "/queries?")
	f.Fuzz(func(t *testing.T, query string) {
		for _, path := range []string{summary, queries} {
			status, body := w.handled(path + query)
			wantEnvelopeOf(t, path+query, status, body)
			questions, err := upstream.take()
			if err != nil {
				t.Fatal(err)
			}
			for _, q := range questions {
				filtered := len(q.DimensionFilterGroups) > 0 || len(q.Dimensions) == 2
				if status == http.StatusOK && asksForFilters(path+query) != filtered {
					t.Errorf("%q asked the upstream %+v", query, q)
				}
			}
			if status != http.StatusOK && len(questions) > 0 {
				t.Errorf("%q is refused with %d, and asked the upstream %+v", query, status, questions)
			}
		}
	})
}

// asksForFilters reads a target with the standard library and reports whether it has a non-empty array of filters.
func asksForFilters(target string) bool {
	target, _, _ = strings.Cut(target, "#")
	_, raw, _ := strings.Cut(target, "?")
	for pair := range strings.SplitSeq(raw, "&") {
		name, value, _ := strings.Cut(pair, "=")
		name, _ = url.QueryUnescape(name)
		value, _ = url.QueryUnescape(value)
		var filters []any
		if name == "filters" && json.Unmarshal([]byte(value), &filters) == nil && len(filters) > 0 {
			return true
		}
	}
	return false
}

// No property reference causes a panic or a 500, or reaches another account.
func FuzzPropertyReference(f *testing.F) {
	for _, reference := range []string{"main", "example.com", "sc-domain%3Aexample.com", "https%3A%2F%2Fwww.example.org%2Fshop%2F", "twin.example",
		"foreign", "foreign.example", "..%2F", "%zz", "%ff", "%00", "%", "", "/", "a/b", "?", "#", "%2e%2e", "\x00", "é", "%F0%9F%8C%B7"} {
		f.Add(reference)
	}
	w := newWorld(f)
	foreign := w.properties["foreign"].ID
	f.Add(foreign)
	f.Fuzz(func(t *testing.T, reference string) {
		for _, path := range []string{"/v1/properties/" + reference, "/v1/properties/" + reference + "/brand-terms"} {
			status, body := w.handled(path)
			if strings.Contains(path, "openapi.json") {
				continue
			}
			wantEnvelopeOf(t, path, status, body)
			if status == http.StatusOK && strings.Contains(string(body), foreign) {
				t.Errorf("%q shows a property of another account: %s", path, body)
			}
		}
	})
}

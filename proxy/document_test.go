package proxy

import (
	"bytes"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"testing"

	"sara/proxy/openapi"
)

func TestOpenAPI200(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want, err := openapi.Document(publicURL)
	w.must(err)
	for _, key := range []string{"", "pro", "revoked", "trial"} {
		r := w.get(key, openapi.Path)
		if r.status != http.StatusOK || !bytes.Equal(r.body, want) {
			t.Errorf("with the key %q: %d, %d bytes, want %d", key, r.status, len(r.body), len(want))
		}
		if r.header.Get("X-Request-Id") == "" || r.header.Get("X-Cache") != "bypass" ||
			r.header.Get("X-RateLimit-Limit") != map[string]string{"pro": "100000", "trial": "0"}[key]+map[string]string{"": "0", "revoked": "0"}[key] ||
			r.header.Get("Cache-Control") != map[bool]string{true: "private", false: "public"}[key == "pro" || key == "trial"]+", max-age=300" {
			t.Errorf("headers %v", r.header)
		}
	}
}

// The document is not charged, and shows what is left.
func TestOpenAPI200NotCharged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 3 {
		if r := w.get("pro", openapi.Path); r.header.Get("X-RateLimit-Remaining") != "100000" || r.header.Get("Vary") != "Authorization, Accept-Encoding" {
			t.Errorf("headers %v", r.header)
		}
	}
	w.wantUsage(t, "pro", 1, 1, 0)
}

func TestOpenAPI400(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.get("", openapi.Path+"?x=1")
	r.want(t, http.StatusBadRequest, codeUnsupported)
	if cache := r.header.Get("Cache-Control"); cache != "private, no-store" {
		t.Errorf("an error with Cache-Control %q", cache)
	}
}

// The document lists every endpoint that the server has, with its key or without one. It describes itself, which is no answer in the envelope.
func TestOpenAPIDescribesItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	document := w.get("", openapi.Path).json
	paths := document["paths"].(map[string]any)
	for _, r := range table() {
		item, _ := paths[r.Path].(map[string]any)
		operation, _ := item["get"].(map[string]any)
		security, ok := operation["security"].([]any)
		if !ok || (len(security) == 0) != r.Open {
			t.Errorf("%s has the security %v", r.Path, operation["security"])
		}
	}
	own := paths[openapi.Path].(map[string]any)["get"].(map[string]any)
	responses := own["responses"].(map[string]any)
	want := []string{"200", "304", "400", "405", "408", "413", "414", "431", "500", "503"}
	if got := slices.Sorted(maps.Keys(responses)); !slices.Equal(got, want) {
		t.Errorf("it has the responses %v, want %v", got, want)
	}
	if parameters := own["parameters"].([]any); len(parameters) > 0 {
		t.Errorf("it takes %v", parameters)
	}
	if !reflect.DeepEqual(own["x-error-codes"], []any{"VALIDATION_ERROR", "UNSUPPORTED_PARAMETER", "METHOD_NOT_ALLOWED", "REQUEST_TOO_LARGE",
		"INTERNAL_ERROR", "SERVICE_UNAVAILABLE"}) {
		t.Errorf("it has the codes %v", own["x-error-codes"])
	}
	content := responses["200"].(map[string]any)["content"].(map[string]any)["application/json"].(map[string]any)
	if content["schema"].(map[string]any)["type"] != "object" {
		t.Errorf("it is answered as %v", content)
	}
}

package proxy

import (
	"bytes"
	"net/http"
	"testing"
)

func TestOpenAPI200(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want, err := OpenAPI(publicURL)
	w.must(err)
	for _, key := range []string{"", "pro", "revoked", "trial"} {
		r := w.get(key, pathOpenAPI)
		if r.status != http.StatusOK || !bytes.Equal(r.body, want) {
			t.Errorf("with the key %q: %d, %d bytes, want %d", key, r.status, len(r.body), len(want))
		}
		if r.header.Get("X-Request-Id") == "" || r.header.Get("X-RateLimit-Limit") != "" || r.header.Get("X-Cache") != "bypass" ||
			r.header.Get("Cache-Control") != "public, max-age=300" {
			t.Errorf("headers %v", r.header)
		}
	}
}

func TestOpenAPI400(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.get("", pathOpenAPI+"?x=1")
	r.want(t, http.StatusBadRequest, codeUnsupported)
	if cache := r.header.Get("Cache-Control"); cache != "private, no-store" {
		t.Errorf("an error with Cache-Control %q", cache)
	}
}

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
		if r := w.get("pro", pathOpenAPI); r.header.Get("X-RateLimit-Remaining") != "100000" || r.header.Get("Vary") != "Authorization, Accept-Encoding" {
			t.Errorf("headers %v", r.header)
		}
	}
	w.wantUsage(t, "pro", 1, 1, 0)
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

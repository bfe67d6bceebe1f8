package proxy

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"sara/policy/keyring"
	"sara/proxy/openapi"
)

func (w *world) wantSeries(series ...string) {
	w.t.Helper()
	body := w.metrics()
	for _, s := range series {
		if !strings.Contains(body, s+"\n") {
			w.t.Errorf("no series %s", s)
		}
	}
}

// Without the database, a replica stays in service for as long as it can answer known keys, which is five minutes past the last
// time that they were looked up.
func TestReadyz200DatabaseAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.get("pro", "/v1/me").ok(t)
	w.wantProbe("/readyz", http.StatusOK, "ready")
	w.wantSeries("sara_ready 1", `sara_degraded{reason="database"} 0`, `sara_degraded{reason="redis"} 0`)
	w.must(w.store.Close())
	for range 4 {
		w.advance(time.Minute)
		w.wantProbe("/readyz", http.StatusOK, "degraded: the database is away, only keys and properties known from the last five minutes are answered")
		w.get("pro", "/v1/me").ok(t)
	}
	w.wantSeries("sara_ready 1", `sara_degraded{reason="database"} 1`)
	w.advance(61 * time.Second)
	w.get("pro", "/v1/me").want(t, http.StatusServiceUnavailable, openapi.CodeServiceUnavailable)
	w.wantProbe("/readyz", http.StatusServiceUnavailable, "not ready: the database does not answer, and no key is known")
	w.wantSeries("sara_ready 0")
}

// It stays for as long as it can answer any key, not only the one that it was asked about last.
func TestReadyz200DatabaseAwayOneOfTheKeysIsTooOld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.get("pro", "/v1/me").ok(t)
	w.advance(150 * time.Second)
	w.get("agency", "/v1/me").ok(t)
	w.must(w.store.Close())
	w.advance(time.Minute)
	w.get("pro", "/v1/me").ok(t)
	w.advance(2 * time.Minute)
	w.wantProbe("/readyz", http.StatusOK, "degraded")
	w.get("agency", "/v1/me").ok(t)
	w.get("pro", "/v1/me").want(t, http.StatusServiceUnavailable, openapi.CodeServiceUnavailable)
	w.advance(2*time.Minute + time.Second)
	w.wantProbe("/readyz", http.StatusServiceUnavailable, "no key is known")
}

// A change that another process has published ends what is known: it may have been a revocation.
func TestReadyz503DatabaseAwayAfterAChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.get("pro", "/v1/me").ok(t)
	w.must(w.store.Close())
	w.advance(2 * time.Second)
	w.server.Revalidate() // nothing is known to have changed
	w.get("pro", "/v1/me").ok(t)
	w.wantProbe("/readyz", http.StatusOK, "degraded")
	w.server.Invalidate()
	w.get("pro", "/v1/me").want(t, http.StatusServiceUnavailable, openapi.CodeServiceUnavailable)
	w.wantProbe("/readyz", http.StatusServiceUnavailable, "no key is known")
}

// A credential that the secret key does not open concerns its own connection: what is stored answers, as for one that was revoked,
// and its health stays as it was, because other replicas may have the right key.
func TestSummary200CredentialSealed(t *testing.T) {
	t.Parallel()
	history, withArchive := kept(t)
	w := newWorld(t, withArchive)
	main := w.properties["main"]
	w.chronicle(history, "main", main.Site).keep(t, "2026-10-05", "2026-10-20")
	store := w.openWith(bytes.Repeat([]byte{8}, keyring.KeySize))
	t.Cleanup(func() { w.must(store.Close()) })
	other := *w
	other.store = store
	other.startServer([]func(*Config){withArchive})
	r := other.get("pro", w.path("main", "/summary?start_date=2026-10-05&end_date=2026-10-20")).ok(t)
	if !strings.Contains(string(r.body), "the property's connection to Search Console does not work") {
		t.Errorf("the reason is not in %s", string(r.body))
	}
	other.get("pro", w.path("main",
		"/queries?start_date=2026-10-05&end_date=2026-10-20&filters=%5B%7B%22dimension%22%3A%22country%22%2C%22operator%22%3A%22equals%22%2C%22value%22%3A%22usa%22%7D%5D")).
		want(t, http.StatusServiceUnavailable, openapi.CodeFilteredUnavailable)
	other.wantConnection(t, "main", true)
}

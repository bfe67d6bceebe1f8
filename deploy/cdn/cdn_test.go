package cdn_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

const (
	openAPI  = "/v1/openapi.json"
	filtered = "/v1/properties/shop.example/pages?filters=%5B%7B%22dimension%22%3A%22page%22%2C%22operator%22%3A%22contains%22%2C%22value%22%3A%22secretive%22%7D%5D"
)

// TestReplicas drives the API of two replicas through nginx.
func TestReplicas(t *testing.T) {
	w := newWorld(t)
	t.Run("answers pass unchanged", w.testAnswersPass)
	t.Run("public documents are cached", w.testPublic)
	t.Run("answers are not shared between keys", w.testIsolation)
	t.Run("429 passes through", w.test429)
	t.Run("503 passes through", w.test503)
	t.Run("sara rejects a long URL", w.testLongURL)
	t.Run("clients cannot spoof their address", w.testAddress)
	t.Run("admin endpoints are not reachable", w.testAdmin)
	t.Run("over TLS", w.testTLS)
	t.Run("replicas stop", w.testReplicasEnd)
	t.Run("logs", w.testLogs) // stops nginx
}

// fixed returns the answer without the parts that differ between equal requests.
func (a answer) fixed() string {
	changing := regexp.MustCompile(`"request_id":"[^"]*"|"usage":\{[^}]*\}|"cache":"[a-z]*"|in \d+ seconds`)
	return fmt.Sprintf("%d %s", a.status, changing.ReplaceAll(a.body, nil))
}

func gunzip(t *testing.T, compressed []byte) []byte {
	t.Helper()
	reader, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

// testAnswersPass compares answers through nginx with those of a replica.
func (w *world) testAnswersPass(t *testing.T) {
	queries := "/v1/properties/shop.example/queries"
	w.get(t, "red", queries) // so both of the following answers come from sara's cache
	tag := w.get(t, "red", queries).header.Get("ETag")
	if tag == "" {
		t.Fatal("sara sends no ETag")
	}
	for _, c := range [][]string{
		{"red", "/v1/me"}, {"", "/v1/me"}, {"red", "/v1/nothing"}, {"red", "/v1/properties?x=1"}, {"red", "/v1/properties/sc-domain%3Ashop.example"},
		{"blue", "/v1/properties/red.example"}, {"red", queries}, {"red", queries, "Accept-Encoding", "gzip"}, {"red", queries, "If-None-Match", tag},
	} {
		direct, through := w.from(t, w.replicas[0].base, c[0], c[1], c[2:]...), w.get(t, c[0], c[1], c[2:]...)
		if direct.fixed() != through.fixed() && direct.header.Get("Content-Encoding") == "" {
			t.Errorf("%q: %s, but directly %s", c, through.fixed(), direct.fixed())
		}
		through.header.Del("Connection") // nginx sends the default
		if got, want := slices.Sorted(maps.Keys(through.header)), slices.Sorted(maps.Keys(direct.header)); !slices.Equal(got, want) {
			t.Errorf("%q: the headers are %q, but directly %q", c, got, want)
		}
		for name := range direct.header {
			changes := slices.Contains([]string{"Date", "Etag", "X-Request-Id", "X-Ratelimit-Remaining", "X-Ratelimit-Reset",
				"Content-Length", "Cache-Control"}, name)
			if got, want := through.header.Get(name), direct.header.Get(name); got == "" || got != want && !changes {
				t.Errorf("%q: %s is %q, but directly %q", c, name, got, want)
			}
		}
	}
	if a := w.get(t, "red", queries, "If-None-Match", tag); a.status != http.StatusNotModified || len(a.body) > 0 {
		t.Errorf("a conditional request: %d", a.status)
	}
	plain, compressed := w.get(t, "red", queries), w.get(t, "red", queries, "Accept-Encoding", "gzip")
	compressed.body = gunzip(t, compressed.body)
	if plain.fixed() != compressed.fixed() {
		t.Errorf("%s\n\nbut compressed\n\n%s", plain.body, compressed.body)
	}
}

// testPublic checks that the cache answers with sara's bytes, in the requested encoding.
func (w *world) testPublic(t *testing.T) {
	documents := map[string]string{openAPI: "Authorization, Accept-Encoding", "/docs": "Accept-Encoding", "/docs/guides/filters": "Accept-Encoding"}
	for path, vary := range documents {
		t.Run(path, func(t *testing.T) {
			direct := w.from(t, w.replicas[0].base, "", path)
			for _, encoding := range []string{"identity", "gzip"} {
				ids := make(map[string]bool)
				for i, want := range []string{"nginx; fwd=miss", "nginx; hit", "nginx; hit"} {
					a := w.get(t, "", path, "Accept-Encoding", encoding)
					ids[a.header.Get("X-Request-Id")] = true
					if a.header.Get("Cache-Status") != want || a.header.Get("Cache-Control") != direct.header.Get("Cache-Control") || a.header.Get("Vary") != vary {
						t.Errorf("%s, request %d: %v", encoding, i, a.header)
					}
					if encoding == "gzip" {
						a.body = gunzip(t, a.body)
					}
					if a.status != http.StatusOK || !bytes.Equal(a.body, direct.body) {
						t.Errorf("%s: %d with %d bytes that are not sara's", encoding, a.status, len(a.body))
					}
				}
				if len(ids) != 3 {
					t.Errorf("three answers have the request ids %v", ids)
				}
			}
			a := w.get(t, "", path, "If-None-Match", direct.header.Get("ETag"), "Accept-Encoding", "identity")
			if a.status != http.StatusNotModified || a.header.Get("Cache-Status") != "nginx; hit" || len(a.body) > 0 {
				t.Errorf("a conditional request: %d %v", a.status, a.header)
			}
			if a := w.get(t, "red", path); a.status != http.StatusOK || a.header.Get("Cache-Status") != "nginx; fwd=bypass" {
				t.Errorf("with a key: %d %v", a.status, a.header)
			}
		})
	}
}

// testIsolation sends the same requests with two keys, concurrently and repeatedly.
func (w *world) testIsolation(t *testing.T) {
	const rounds, workers = 40, 16
	type check struct{ account, path, want string }
	var checks []check
	for _, path := range []string{"/v1/me", "/v1/properties", "/v1/properties/shop.example/queries", "/v1/properties/red.example"} {
		red, blue := w.from(t, w.replicas[0].base, "red", path).fixed(), w.from(t, w.replicas[1].base, "blue", path).fixed()
		if red == blue {
			t.Fatalf("%s is the same for both keys: %s", path, red)
		}
		checks = append(checks, check{"red", path, red}, check{"blue", path, blue})
	}
	queue := make(chan check)
	var asking sync.WaitGroup
	for range workers {
		asking.Go(func() {
			for q := range queue {
				a, err := ask(w.asker, http.MethodGet, w.cdn.base+q.path, "Authorization", "Bearer "+w.keys[q.account])
				if err != nil || a.fixed() != q.want || a.header.Get("Cache-Status") != "" {
					t.Errorf("%s gets %s: %s (%v), want %s", q.account, q.path, a.fixed(), err, q.want)
				}
			}
		})
	}
	for range rounds {
		for _, q := range checks {
			queue <- q
		}
	}
	close(queue)
	asking.Wait()
}

func (w *world) testAddress(t *testing.T) {
	wantAddressesKept(t, w.cdn.base, client("127.0.0.2"), client("127.0.0.3"))
}

// wantAddressesKept guesses more keys than one address may, while claiming many addresses.
func wantAddressesKept(t *testing.T, base string, guesser, neighbour *http.Client) {
	t.Helper()
	guess := func(asker *http.Client, i int) int {
		claimed := fmt.Sprintf("203.0.113.%d", i)
		a, err := ask(asker, http.MethodGet, base+"/v1/me", "Authorization", "Bearer "+guessedKey(i),
			"X-Real-IP", claimed, "X-Forwarded-For", claimed, "Forwarded", "for="+claimed)
		if err != nil {
			t.Fatal(err)
		}
		return a.status
	}
	refused := false
	for i := 0; i < 200 && !refused; i++ {
		refused = guess(guesser, i) == http.StatusTooManyRequests
	}
	if !refused {
		t.Error("a client that claims a new address each time can guess keys without limit")
	}
	for i := range 8 {
		if status := guess(neighbour, i); status != http.StatusUnauthorized {
			t.Errorf("another address, after %d guesses: %d", i, status)
		}
	}
}

// guessedKey returns an unknown key in the format of a real one.
func guessedKey(i int) string {
	return "sara_live_" + strings.NewReplacer("0", "A", "1", "B", "8", "I", "9", "J").Replace(fmt.Sprintf("%052d", i))
}

func (w *world) testAdmin(t *testing.T) {
	for _, path := range []string{"/metrics", "/livez", "/readyz", "/debug/pprof/", "/.error"} {
		w.get(t, "", path).wantEnvelope(t, http.StatusNotFound, "NOT_FOUND")
	}
}

func (w *world) testTLS(t *testing.T) {
	a, err := ask(w.cdn.secureAsker, http.MethodGet, w.cdn.secure+"/v1/me", "Authorization", "Bearer "+w.keys["blue"])
	if err != nil || a.protocol != "HTTP/2.0" || a.fixed() != w.get(t, "blue", "/v1/me").fixed() {
		t.Errorf("%s %s %v", a.protocol, a.fixed(), err)
	}
	for _, path := range []string{"/v1/me", openAPI, "/.error"} { // from a replica, the cache and nginx
		secure, err := ask(w.cdn.secureAsker, http.MethodGet, w.cdn.secure+path)
		if hsts := secure.header.Get("Strict-Transport-Security"); err != nil || hsts != "max-age=31536000" {
			t.Errorf("%s over TLS has Strict-Transport-Security %q, error %v", path, hsts, err)
		}
		if plain := w.get(t, "", path).header; plain.Get("Strict-Transport-Security") != "" {
			t.Errorf("%s without TLS has headers %v", path, plain)
		}
	}
	a, err = ask(w.asker, http.MethodGet, strings.Replace(w.cdn.secure, "https", "http", 1)+"/v1/me")
	if err != nil {
		t.Fatal(err)
	}
	a.wantEnvelope(t, http.StatusBadRequest, "VALIDATION_ERROR")
}

func (w *world) testReplicasEnd(t *testing.T) {
	w.replicas[0].end(t, syscall.SIGKILL)
	for i := range 40 {
		if a := w.get(t, "red", "/v1/me"); a.status != http.StatusOK {
			t.Errorf("request %d after a replica was killed: %d %s", i, a.status, a.body)
		}
	}
	w.replicas[1].end(t, syscall.SIGTERM)
	for range 8 {
		a := w.get(t, "red", "/v1/me")
		a.wantEnvelope(t, http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE")
		if a.header.Get("Retry-After") != "5" {
			t.Errorf("headers %v", a.header)
		}
	}
	if a := w.get(t, "", openAPI, "Accept-Encoding", "identity"); a.status != http.StatusOK || a.header.Get("Cache-Status") != "nginx; hit" {
		t.Errorf("the cached document: %d %v", a.status, a.header)
	}
}

// testLogs checks that the log has all answers, with their request IDs, and nothing that clients sent.
func (w *world) testLogs(t *testing.T) {
	id := w.get(t, "", "/v1/me").header.Get("X-Request-Id")
	w.asker.CloseIdleConnections() // otherwise nginx would wait for requests on unused connections
	access, errorLog := w.cdn.logs()
	secrets := append(slices.Collect(maps.Values(w.keys)), "Bearer", "sara_live_", "secretive", "filters", "shop.example", "203.0.113.")
	for _, secret := range secrets {
		if strings.Contains(access, secret) || strings.Contains(errorLog, secret) {
			t.Errorf("the logs of nginx contain %q", secret)
		}
	}
	lines := 0
	for line := range strings.Lines(access) {
		lines++
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
	if lines < 400 || !strings.Contains(access, id) {
		t.Errorf("%d lines; they contain the last request id %s: %t", lines, id, strings.Contains(access, id))
	}
}

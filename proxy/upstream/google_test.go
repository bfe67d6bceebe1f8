package upstream

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	site  = "https://www.example.com/"
	empty = `{"responseAggregationType":"byProperty"}`
)

var queryBody = []byte(`{"startDate":"2026-11-01","endDate":"2026-11-19"}`)

// google is a scripted Search Console with its token endpoint. Each API request takes the next step of the script; the
// last step repeats. The access tokens are access-1, access-2, …
type google struct {
	*httptest.Server
	script []http.HandlerFunc
	token  http.HandlerFunc // nil hands out a token

	mu       sync.Mutex
	requests []*http.Request // of the API, bodies read
	bodies   []string
	tokens   atomic.Int64
}

func newGoogle(t testing.TB, script ...http.HandlerFunc) *google {
	g := &google{script: script}
	g.Server = httptest.NewServer(g)
	t.Cleanup(g.Close)
	return g
}

func (g *google) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if r.URL.Path == "/token" {
		n := g.tokens.Add(1)
		if g.token != nil {
			g.token(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token":"access-%d","expires_in":3599,"token_type":"Bearer"}`, n)
		return
	}
	g.mu.Lock()
	g.requests = append(g.requests, r)
	g.bodies = append(g.bodies, string(body))
	step := g.script[min(len(g.requests), len(g.script))-1]
	g.mu.Unlock()
	step(w, r)
}

func (g *google) calls() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.requests)
}

func ok(body string) http.HandlerFunc { return status(http.StatusOK, body) }

func status(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body) // the client may be gone, on purpose
	}
}

// gzipped answers with several copies of body, each a gzip member of its own.
func gzipped(body []byte, times int) http.HandlerFunc {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(body); err != nil {
		panic(err)
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		for range times {
			_, _ = w.Write(b.Bytes()) // the client may be gone, on purpose
		}
	}
}

func drop(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// hang holds the request until the client leaves.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func (g *google) config() Config {
	return Config{BaseURL: g.URL, TokenURL: g.URL + "/token", Backoff: func(int) time.Duration { return 0 }}
}

func startClient(t testing.TB, cfg Config) *client {
	t.Helper()
	c, err := newClient(cfg.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

func account(t testing.TB, file map[string]any) Account {
	data := marshal(t, file)
	return Account{ID: "connection-1", Revision: 1, Credentials: func(context.Context) ([]byte, error) { return data, nil }}
}

func kindOf(t testing.TB, err error) Kind {
	t.Helper()
	failure, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("%v is not an *Error", err)
	}
	return failure.Kind
}

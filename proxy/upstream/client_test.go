package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"sara/translate"
)

func TestQueryRequest(t *testing.T) {
	f := func(name, prefix, site, wantURI string) {
		t.Run(name, func(t *testing.T) {
			g := newGoogle(t, ok(empty))
			cfg := g.config()
			cfg.BaseURL += prefix
			reply, err := startClient(t, cfg).searchAnalytics(t.Context(), account(t, authorizedUser()), site, queryBody, nil)
			if err != nil || string(reply) != empty {
				t.Fatalf("got %q, %v", reply, err)
			}
			r := g.requests[0]
			if r.Method != "POST" || r.RequestURI != wantURI || g.bodies[0] != string(queryBody) {
				t.Errorf("sent %s %s %s, want POST %s", r.Method, r.RequestURI, g.bodies[0], wantURI)
			}
			for name, want := range map[string]string{
				"Authorization": "Bearer access-1", "Accept-Encoding": "gzip", "Content-Type": "application/json",
			} {
				if got := r.Header.Get(name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			if !strings.Contains(r.UserAgent(), "gzip") {
				t.Errorf("user agent %q does not ask for gzip", r.UserAgent())
			}
		})
	}
	const query = "/searchAnalytics/query?prettyPrint=false&fields=rows(keys,clicks,impressions,position),responseAggregationType,metadata"
	f("URL prefix", "", site, "/webmasters/v3/sites/https%3A%2F%2Fwww.example.com%2F"+query)
	f("domain", "", "sc-domain:example.com", "/webmasters/v3/sites/sc-domain%3Aexample.com"+query)
	f("encoded and odd characters", "", "https://e.com/a%2Fb c+d/../é/",
		"/webmasters/v3/sites/https%3A%2F%2Fe.com%2Fa%252Fb%20c%2Bd%2F..%2F%C3%A9%2F"+query)
	f("base with a path", "/gw/google/", "sc-domain:example.com", "/gw/google/webmasters/v3/sites/sc-domain%3Aexample.com"+query)
}

func TestQueryOverTLS(t *testing.T) {
	g := &google{script: []http.HandlerFunc{ok(empty)}}
	g.Server = httptest.NewTLSServer(g)
	t.Cleanup(g.Close)
	plain := newGoogle(t, ok(empty))
	cfg := g.config()
	cfg.TokenURL = plain.URL + "/token"
	c := startClient(t, cfg)
	acct := account(t, authorizedUser())
	if _, err := c.searchAnalytics(t.Context(), acct, site, queryBody, nil); kindOf(t, err) != Unavailable || g.calls() != 0 {
		t.Fatalf("an unknown authority: %v after %d calls", err, g.calls())
	}

	trusting := startClient(t, cfg)
	trusting.transport.host.TLSConfig.RootCAs = g.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	for range 3 {
		if _, err := trusting.searchAnalytics(t.Context(), acct, site, queryBody, nil); err != nil {
			t.Fatal(err)
		}
	}
	if g.requests[0].RemoteAddr != g.requests[2].RemoteAddr {
		t.Error("the connection is not kept")
	}
}

func TestReplies(t *testing.T) {
	rows := `{"rows":[` + strings.Repeat(`{"keys":["a"],"clicks":1},`, 5000) + `{"keys":["b"],"clicks":1}]}`
	garbled := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, "not gzip") // reported by the client
	}
	huge := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(maxReply+1))
		w.WriteHeader(http.StatusOK)
	}
	f := func(name string, step http.HandlerFunc, want string, wantErr string, wantCalls int) {
		t.Run(name, func(t *testing.T) {
			g := newGoogle(t, step)
			reply, err := startClient(t, g.config()).searchAnalytics(t.Context(), account(t, authorizedUser()), site, queryBody, nil)
			if string(reply) != want || g.calls() != wantCalls {
				t.Errorf("got %d bytes after %d calls, want %d after %d", len(reply), g.calls(), len(want), wantCalls)
			}
			if wantErr == "" && err == nil {
				return
			}
			if kindOf(t, err) != Unavailable || !strings.Contains(err.Error(), wantErr) {
				t.Errorf("got %v, want unavailable with %q", err, wantErr)
			}
		})
	}
	f("plain", ok(rows), rows, "", 1)
	f("gzip is decoded", gzipped([]byte(rows), 1), rows, "", 1)
	f("bad gzip is retried", garbled, "", "does not decompress", 3)
	f("bad JSON is retried", ok(`{"rows":[`), "", "not JSON", 3)
	f("an empty body is not JSON", ok(""), "", "not JSON", 3)
	f("too large on the wire is final", huge, "", "more than", 1)
	f("too large when decoded is final", gzipped(bytes.Repeat([]byte(" "), 1<<20), maxReply>>20+1), "", "more than", 1)
}

func TestReplyBelongsToTheCaller(t *testing.T) {
	g := newGoogle(t, ok(`{"n":1}`), ok(`{"n":2}`))
	c, acct := startClient(t, g.config()), account(t, authorizedUser())
	first, err := c.searchAnalytics(t.Context(), acct, site, queryBody, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.searchAnalytics(t.Context(), acct, site, queryBody, nil); err != nil {
		t.Fatal(err)
	}
	if string(first) != `{"n":1}` {
		t.Errorf("the next call changed the first reply to %s", first)
	}
}

// A proxy may send an answer twice. The second one is not the answer to the next question.
func TestStrayAnswerIsNotTheNextOne(t *testing.T) {
	send, sent := make(chan struct{}), make(chan error, 1)
	twice := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			sent <- err
			return
		}
		defer func() { _ = conn.Close() }()
		const answer = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n" + `{"n":1}`
		_, err = io.WriteString(conn, answer)
		<-send
		_, again := io.WriteString(conn, answer)
		sent <- errors.Join(err, again)
		_, _ = io.Copy(io.Discard, conn) // until the client closes it
	}
	g := newGoogle(t, twice, ok(`{"n":2}`))
	c, acct := startClient(t, g.config()), account(t, authorizedUser())
	for n := range 2 {
		reply, err := c.searchAnalytics(t.Context(), acct, site, queryBody, nil)
		if want := fmt.Sprintf(`{"n":%d}`, n+1); err != nil || string(reply) != want {
			t.Errorf("the answer to question %d is %s, %v", n+1, reply, err)
		}
		if n == 0 {
			close(send)
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A proxy that answers for a slow upstream may send the late answer too.
func TestConnectionIsNotKeptAfterAnOutage(t *testing.T) {
	var mu sync.Mutex
	conns := make(map[string]bool)
	counting := func(step http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			conns[r.RemoteAddr] = true
			mu.Unlock()
			step(w, r)
		}
	}
	g := newGoogle(t, counting(status(504, "late")), counting(ok(`{"n":1}`)), counting(ok(`{"n":1}`)))
	c, acct := startClient(t, g.config()), account(t, authorizedUser())
	for range 2 {
		if _, err := c.searchAnalytics(t.Context(), acct, site, queryBody, nil); err != nil {
			t.Fatal(err)
		}
	}
	if len(conns) != 2 {
		t.Errorf("%d connections for three attempts, want another one after the 504 only", len(conns))
	}
}

func TestRetries(t *testing.T) {
	quota, forbidden := status(403, string(fixture(t, "quota_load.json"))), status(403, string(fixture(t, "forbidden_site.json")))
	bad, backend := status(400, string(fixture(t, "invalid_argument.json"))), status(503, string(fixture(t, "backend_error.json")))
	unauthorized := status(401, string(fixture(t, "unauthenticated.json")))
	later := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "60")
		backend(w, r)
	}
	none := Kind(255)
	f := func(name string, wantKind Kind, wantCalls int, wantTokens int64, script ...http.HandlerFunc) {
		t.Run(name, func(t *testing.T) {
			g := newGoogle(t, script...)
			_, err := startClient(t, g.config()).searchAnalytics(t.Context(), account(t, authorizedUser()), site, queryBody, nil)
			if wantKind == none && err != nil {
				t.Error(err)
			}
			if wantKind != none && kindOf(t, err) != wantKind {
				t.Errorf("got %v, want %v", err, wantKind)
			}
			if g.calls() != wantCalls || g.tokens.Load() != wantTokens {
				t.Errorf("%d calls and %d tokens, want %d and %d", g.calls(), g.tokens.Load(), wantCalls, wantTokens)
			}
		})
	}
	f("5xx twice, then an answer", none, 3, 1, backend, backend, ok(empty))
	f("5xx three times is enough", Unavailable, 3, 1, backend)
	f("dropped twice, then an answer", none, 3, 1, drop, drop, ok(empty))
	f("dropped three times is enough", Unavailable, 3, 1, drop)
	f("quota is not retried", Quota, 1, 1, quota, ok(empty))
	f("forbidden is not retried", Forbidden, 1, 1, forbidden, ok(empty))
	f("a rejected request is not retried", Rejected, 1, 1, bad, ok(empty))
	f("a long Retry-After is not waited for", Unavailable, 1, 1, later, ok(empty))
	f("401 gets a fresh token", none, 2, 2, unauthorized, ok(empty))
	f("401 with a fresh token is a revoked connection", Revoked, 2, 2, unauthorized)
	f("401 on the last attempt still gets a fresh token", none, 4, 2, backend, backend, unauthorized, ok(empty))
	f("quota after a fresh token", Quota, 2, 2, unauthorized, quota)
}

func TestClosedIdleConnectionsCostOneRetryWithoutPause(t *testing.T) {
	g := newGoogle(t, ok(empty))
	cfg := g.config()
	cfg.Backoff = func(int) time.Duration { return maxPause + 1 } // any pause would end the call
	c, acct := startClient(t, cfg), account(t, authorizedUser())

	var busy sync.WaitGroup // several connections in the pool
	for range 4 {
		busy.Go(func() {
			if _, err := c.searchAnalytics(t.Context(), acct, site, queryBody, nil); err != nil {
				t.Error(err)
			}
		})
	}
	busy.Wait()
	g.CloseClientConnections()
	if _, err := c.searchAnalytics(t.Context(), acct, site, queryBody, nil); err != nil {
		t.Error(err)
	}
}

func TestNoRetryAfterTheDeadline(t *testing.T) {
	g := newGoogle(t, status(503, "{}"))
	cfg := g.config()
	cfg.Backoff = func(int) time.Duration { return maxPause }
	ctx, cancel := context.WithTimeout(t.Context(), maxPause-100*time.Millisecond)
	defer cancel()
	_, err := startClient(t, cfg).searchAnalytics(ctx, account(t, authorizedUser()), site, queryBody, nil)
	if kindOf(t, err) != Unavailable || g.calls() != 1 || ctx.Err() != nil {
		t.Errorf("got %v after %d calls, context %v", err, g.calls(), ctx.Err())
	}
}

func TestContexts(t *testing.T) {
	f := func(name string, script, token http.HandlerFunc, end func(context.Context) (context.Context, context.CancelFunc), want error) {
		t.Run(name, func(t *testing.T) {
			g := newGoogle(t, script)
			g.token = token
			ctx, cancel := end(t.Context())
			defer cancel()
			c := startClient(t, g.config())
			t.Cleanup(g.CloseClientConnections)
			_, err := c.searchAnalytics(ctx, account(t, authorizedUser()), site, queryBody, nil)
			if kindOf(t, err) != Interrupted || !errors.Is(err, want) {
				t.Errorf("got %v, want interrupted by %v", err, want)
			}
		})
	}
	deadline := func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, 50*time.Millisecond)
	}
	cancelled := func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return ctx, cancel
	}
	f("deadline while the upstream thinks", hang, nil, deadline, context.DeadlineExceeded)
	f("deadline while a token comes", ok(empty), hang, deadline, context.DeadlineExceeded)
	f("cancelled before", ok(empty), nil, cancelled, context.Canceled)
}

func TestCancelReturnsAtOnceAndTheExchangeEndsLater(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	g := newGoogle(t, func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-release
		ok(empty)(w, r)
	})
	c := startClient(t, g.config())
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	_, err := c.searchAnalytics(ctx, account(t, authorizedUser()), site, queryBody, nil)
	if n := c.transport.host.PendingRequests(); n != 1 {
		t.Errorf("returned with %d exchanges in flight, want 1", n)
	}
	close(release)
	if kindOf(t, err) != Interrupted || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A caller that leaves no longer reserves memory for the rows.
func TestBodyIsNotReadOnAfterTheCallerLeft(t *testing.T) {
	t.Parallel()
	left := make(chan struct{})
	g := newGoogle(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "{") // the client may be gone, on purpose
		_ = http.NewResponseController(w).Flush()
		<-left
		_, _ = io.WriteString(w, "}")
	})
	c, acct := startClient(t, g.config()), account(t, authorizedUser())
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	read := func(body io.Reader) (*translate.Rows, error) {
		if _, err := io.ReadFull(body, make([]byte, 1)); err != nil {
			t.Error(err)
		}
		leave()
		<-left
		_, err := io.ReadAll(body)
		ended <- err
		return nil, err
	}
	if _, err := c.query(ctx, acct, queryCall{site: site, question: queryBody, most: maxReply, read: read}, nil); kindOf(t, err) != Interrupted {
		t.Error(err)
	}
	close(left)
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the rest of the body is read: %v", err)
	}
}

func TestSlowAttemptIsRetried(t *testing.T) {
	t.Parallel()
	g := newGoogle(t, hang, ok(empty))
	cfg := g.config()
	cfg.AttemptTimeout = 300 * time.Millisecond // a busy machine has the time of two attempts to answer in
	if _, err := startClient(t, cfg).searchAnalytics(t.Context(), account(t, authorizedUser()), site, queryBody, nil); err != nil {
		t.Error(err)
	}
}

func TestConnectionRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	g := newGoogle(t, ok(empty))
	cfg := g.config()
	cfg.BaseURL = "http://" + address
	_, err = startClient(t, cfg).searchAnalytics(t.Context(), account(t, authorizedUser()), site, queryBody, nil)
	if kindOf(t, err) != Unavailable {
		t.Errorf("got %v", err)
	}
}

func TestNewRefusesBadBaseURLs(t *testing.T) {
	for _, base := range []string{"searchconsole.googleapis.com", "ftp://x", "https://", "https://u:p@x/", "https://x/?a=b", "http://x/%zz"} {
		if _, err := New(Config{BaseURL: base, Connections: new(store)}); err == nil || strings.Contains(err.Error(), "u:p") {
			t.Errorf("New with base %q: %v", base, err)
		}
	}
}

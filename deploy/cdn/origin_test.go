package cdn_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// An origin stands in for two replicas, and behaves as sara seldom does.
type origin struct {
	cdn      *cdn
	asker    *http.Client
	received [2]atomic.Int64 // requests, by replica
	answer   atomic.Pointer[func(replica int, w http.ResponseWriter, r *http.Request)]
	replicas [2]*httptest.Server
}

func newOrigin(t *testing.T) *origin {
	t.Helper()
	return newOriginBehind(t, startCDN)
}

func newOriginBehind(t *testing.T, start func(t *testing.T, replicas [2]string) *cdn) *origin {
	t.Helper()
	findNginx(t)
	o := &origin{asker: client("127.0.0.1")}
	var addresses [2]string
	for i := range o.replicas {
		o.replicas[i] = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			o.received[i].Add(1)
			(*o.answer.Load())(i, w, r)
		}))
		t.Cleanup(o.replicas[i].Close)
		addresses[i] = o.replicas[i].Listener.Addr().String()
	}
	o.cdn = start(t, addresses)
	return o
}

// answers sets the handler of the replicas, and resets the counters.
func (o *origin) answers(handler func(replica int, w http.ResponseWriter, r *http.Request)) {
	o.answer.Store(&handler)
	for i := range o.received {
		o.received[i].Store(0)
	}
}

func (o *origin) wantReceived(t *testing.T, want int64) {
	t.Helper()
	if got := o.received[0].Load() + o.received[1].Load(); got != want {
		t.Errorf("%d requests reach the replicas, want %d", got, want)
	}
}

func (o *origin) ask(t *testing.T, method, path string, headers ...string) answer {
	t.Helper()
	a, err := ask(o.asker, method, o.cdn.base+path, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestOrigin checks what nginx does with a request and with its answer.
func TestOrigin(t *testing.T) {
	o := newOrigin(t)
	t.Run("requests reach a replica unchanged", o.testRequest)
	t.Run("errors pass through and are not retried", o.testRefusals)
	t.Run("messages of agents reach a replica once", o.testMessages)
	t.Run("requests with keys are not collapsed", o.testNoCollapsing)
	t.Run("only public answers are cached", o.testNotKept)
	t.Run("requests with keys bypass the cache", o.testKeysPassTheCache)
	t.Run("stale while revalidate", o.testStale)
	t.Run("a long answer is not written to disk", o.testLongAnswer)
	t.Run("a GET is retried on the other replica", o.testHangUp) // may mark a replica as failed
}

func (o *origin) testRequest(t *testing.T) {
	seen := make(chan *http.Request, 1)
	o.answers(func(_ int, _ http.ResponseWriter, r *http.Request) { seen <- r })
	target := "/v1/properties/https%3A%2F%2Fa.example%2F/queries?filters=%5B%7B%22value%22%3A%22a%2Bb%2F..%2F%22%7D%5D&x=&x=%20+"
	o.ask(t, http.MethodGet, target, "Authorization", "Bearer k",
		"Accept-Encoding", "gzip;q=0.5, br", "Cache-Control", "no-cache", "If-None-Match", `W/"1"`,
		"X-Real-IP", "203.0.113.1", "X-Real-IP", "203.0.113.2", "X-Forwarded-For", "203.0.113.3", "Forwarded", "for=203.0.113.4")
	r := <-seen
	if r.RequestURI != target || r.Proto != "HTTP/1.1" {
		t.Errorf("received %s %s", r.RequestURI, r.Proto)
	}
	for name, want := range map[string][]string{"Authorization": {"Bearer k"}, "Accept-Encoding": {"gzip;q=0.5, br"}, "Cache-Control": {"no-cache"},
		"If-None-Match": {`W/"1"`}, "X-Real-Ip": {"127.0.0.1"}, "X-Forwarded-For": nil, "Forwarded": nil, "Connection": nil} {
		if got := r.Header[name]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// testMessages posts to /mcp, with the longest body that sara reads there, and to a path that accepts none.
func (o *origin) testMessages(t *testing.T) {
	const most = 32 << 10
	for _, c := range []struct {
		path           string
		length, status int
	}{
		{"/mcp", most, http.StatusOK}, {"/mcp", most + 1, http.StatusRequestEntityTooLarge}, {"/mcpx", 2 << 10, http.StatusRequestEntityTooLarge},
		{"/v1/me", 2 << 10, http.StatusRequestEntityTooLarge},
	} {
		var got atomic.Int64
		o.answers(func(_ int, w http.ResponseWriter, r *http.Request) {
			n, _ := io.Copy(io.Discard, r.Body) // what is short shows below
			got.Store(n)
			w.Header().Set("Cache-Control", "public, max-age=300") // not even then
			_, _ = io.WriteString(w, r.Method+" "+r.Host)          // nginx reports errors
		})
		for range 2 {
			a := o.post(t, c.path, strings.Repeat("x", c.length))
			if a.status != c.status {
				t.Errorf("POST %s with %d bytes: %d, want %d", c.path, c.length, a.status, c.status)
			}
			if a.status != http.StatusOK {
				a.wantEnvelope(t, c.status, "REQUEST_TOO_LARGE")
				continue
			}
			if string(a.body) != "POST api.example.com" || got.Load() != int64(c.length) {
				t.Errorf("a replica received %s with %d bytes, want %d", a.body, got.Load(), c.length)
			}
		}
		if c.status == http.StatusOK {
			o.wantReceived(t, 2)
		}
	}
	o.answers(func(int, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	o.post(t, "/mcp", "{}").wantEnvelope(t, http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE")
	o.wantReceived(t, 1)
}

// post sends a body to a host that nginx is in front of.
func (o *origin) post(t *testing.T, path, body string) answer {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, o.cdn.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "api.example.com"
	a, err := read(o.asker, request)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (o *origin) testRefusals(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 405, 414, 429, 500, 502, 503, 504} {
		body := fmt.Sprintf(`{"success":false,"error":{"code":"CODE_%d"}}`, status)
		o.answers(func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "17")
			w.Header().Set("X-RateLimit-Reset", "1795305600")
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body)) // nginx reports errors
		})
		a := o.ask(t, http.MethodGet, "/v1/me", "Authorization", "Bearer k")
		if a.status != status || string(a.body) != body || a.header.Get("Retry-After") != "17" || a.header.Get("X-RateLimit-Reset") != "1795305600" {
			t.Errorf("%d became %d %v %s", status, a.status, a.header, a.body)
		}
		o.wantReceived(t, 1)
	}
}

// testNoCollapsing answers no request until all of them, each with a different key, have arrived.
func (o *origin) testNoCollapsing(t *testing.T) {
	const keys = 12
	for _, path := range []string{"/v1/me", openAPI} {
		var all sync.WaitGroup
		all.Add(keys)
		o.answers(func(_ int, w http.ResponseWriter, r *http.Request) {
			all.Done()
			all.Wait()
			w.Header().Set("Cache-Control", "public, max-age=300")
			_, _ = w.Write([]byte(r.Header.Get("Authorization"))) // nginx reports errors
		})
		var asking sync.WaitGroup
		for i := range keys {
			asking.Go(func() {
				key := fmt.Sprintf("Bearer %d", i)
				a, err := ask(o.asker, http.MethodGet, o.cdn.base+path, "Authorization", key)
				if err != nil || string(a.body) != key {
					t.Errorf("%s with %s: %s (%v)", path, key, a.body, err)
				}
			})
		}
		asking.Wait()
		o.wantReceived(t, keys)
	}
}

func (o *origin) testNotKept(t *testing.T) {
	const public = "public, max-age=300"
	for name, c := range map[string]struct {
		path, again, cacheControl string
		status                    int
		received                  int64
	}{
		"public document":              {"/docs/public", "/docs/public", public, 200, 1},
		"private document":             {"/docs/private", "/docs/private", "private, max-age=300", 200, 2},
		"no life":                      {"/docs/lifeless", "/docs/lifeless", "", 200, 2},
		"error":                        {"/docs/error", "/docs/error", "private, no-store", 404, 2},
		"another path":                 {"/v1/properties", "/v1/properties", public, 200, 2},
		"beside the documents":         {"/docsx", "/docsx", public, 200, 2},
		"no document when all is read": {"/docs/../v1/me", "/docs/../v1/me", public, 200, 2},
		"written in another way":       {"/docs/a/b", "/docs/a%2Fb", public, 200, 2},
		"another query":                {"/docs/q?a=1", "/docs/q?a=2", public, 200, 2},
	} {
		t.Run(name, func(t *testing.T) {
			o.answers(func(_ int, w http.ResponseWriter, _ *http.Request) {
				if c.cacheControl != "" {
					w.Header().Set("Cache-Control", c.cacheControl)
				}
				w.WriteHeader(c.status)
			})
			for _, path := range []string{c.path, c.again} {
				if a := o.ask(t, http.MethodGet, path); a.status != c.status {
					t.Errorf("%s answers %d", path, a.status)
				}
			}
			o.wantReceived(t, c.received)
		})
	}
}

// testKeysPassTheCache makes sure that an answer for a key neither gets into the cache nor comes from it.
func (o *origin) testKeysPassTheCache(t *testing.T) {
	o.answers(func(_ int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=300")
		_, _ = w.Write([]byte("for " + r.Header.Get("Authorization"))) // nginx reports errors
	})
	for _, key := range []string{"Bearer red", "", "Bearer red", "Bearer blue"} {
		if a := o.ask(t, http.MethodGet, "/docs/keyed", "Authorization", key); string(a.body) != "for "+key {
			t.Errorf("%q gets what is %s", key, a.body)
		}
	}
	o.wantReceived(t, 4)
}

// testStale uses a document with a TTL of one second, which is nginx's resolution.
func (o *origin) testStale(t *testing.T) {
	received, answering := make(chan string, 1), make(chan struct{})
	answerNow := sync.OnceFunc(func() { close(answering) })
	defer answerNow()
	o.answers(func(_ int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=1")
		w.Header().Set("ETag", `W/"1"`)
		if tag := r.Header.Get("If-None-Match"); tag != "" {
			select {
			case received <- tag:
			default: // the first one is enough
			}
			<-answering
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = w.Write([]byte("document")) // nginx reports errors
	})
	// nginx revalidates on the connection of the request that found the document stale, and blocks that connection meanwhile.
	asker := client("127.0.0.1")
	asker.Transport.(*http.Transport).DisableKeepAlives = true
	get := func() answer {
		a, err := ask(asker, http.MethodGet, o.cdn.base+"/docs/stale")
		if err != nil {
			t.Fatal(err)
		}
		if a.status != http.StatusOK || string(a.body) != "document" {
			t.Errorf("%d %s", a.status, a.body)
		}
		return a
	}
	get()
	poll(t, "the document is revalidated", func() bool {
		get()
		return len(received) > 0
	})
	if tag := <-received; tag != `W/"1"` {
		t.Errorf("revalidated with %s", tag)
	}
	if a := get(); a.header.Get("Cache-Status") != "nginx; hit; detail=updating" {
		t.Errorf("while it is revalidated: %v", a.header)
	}
	answerNow()
	poll(t, "the document is fresh", func() bool {
		for len(received) > 0 { // it may have become stale again
			<-received
		}
		return get().header.Get("Cache-Status") == "nginx; hit"
	})
}

// testLongAnswer reads more than nginx buffers in memory, more slowly than it arrives.
func (o *origin) testLongAnswer(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	o.answers(func(_ int, w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
	connection, err := net.Dial("tcp", strings.TrimPrefix(o.cdn.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	if err := connection.(*net.TCPConn).SetReadBuffer(256 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(connection, "GET /v1/properties HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(connection)
	if err != nil || !bytes.HasSuffix(got, body) {
		t.Errorf("%d bytes (%v), want %d after the header", len(got), err, len(body))
	}
	// nginx creates folders here for its first file, and leaves them behind.
	if entries, err := os.ReadDir(filepath.Join(o.cdn.folder, "proxy_temp")); err != nil || len(entries) > 0 {
		t.Errorf("there were temporary files: %v (%v)", entries, err)
	}
}

// testHangUp has one replica close every connection instead of answering.
func (o *origin) testHangUp(t *testing.T) {
	o.answers(func(replica int, w http.ResponseWriter, _ *http.Request) {
		if replica == 0 {
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write([]byte("alive")) // nginx reports errors
	})
	for i := range 20 {
		if a := o.ask(t, http.MethodGet, "/v1/me"); a.status != http.StatusOK || string(a.body) != "alive" {
			t.Errorf("request %d: %d %s", i, a.status, a.body)
		}
	}
	// Three failures mark the replica as failed. A few more requests may be in flight on connections that it has closed.
	if n := o.received[0].Load(); n < 1 || n > 10 {
		t.Errorf("%d requests reach the replica that closes connections", n)
	}
	o.replicas[1].Close()
	a := o.ask(t, http.MethodGet, "/v1/me")
	a.wantEnvelope(t, http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE")
	if !strings.Contains(string(a.body), `"docs_url":"`+o.cdn.base+`/docs"`) {
		t.Errorf("%s", a.body)
	}
}

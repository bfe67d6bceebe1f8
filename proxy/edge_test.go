package proxy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"sara/policy"
	"sara/proxy/openapi"
	"sara/translate"
)

// A rawConn is a TCP connection to the public API, to send what no HTTP client would.
type rawConn struct {
	t      testing.TB
	conn   net.Conn
	reader *bufio.Reader
}

func (w *world) dial() *rawConn {
	w.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.base, "http://"))
	w.must(err)
	w.must(conn.SetDeadline(time.Now().Add(time.Minute)))
	w.t.Cleanup(func() { _ = conn.Close() }) // the test may have closed it
	return &rawConn{t: w.t, conn: conn, reader: bufio.NewReader(conn)}
}

// send writes text. It ignores errors: the server may have closed the connection already.
func (c *rawConn) send(text string) { _, _ = io.WriteString(c.conn, text) }

// next reads one answer, and reports false when the server has closed the connection instead.
func (c *rawConn) next(method string) (response, bool) {
	c.t.Helper()
	answer, err := http.ReadResponse(c.reader, &http.Request{Method: method})
	if err != nil {
		return response{}, false
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		c.t.Fatalf("an answer that ends early: %v", err)
	}
	r := response{status: answer.StatusCode, header: answer.Header, body: body}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &r.json); err != nil {
			c.t.Fatalf("%d with no JSON object: %q", r.status, body)
		}
	}
	return r, true
}

// authorized is a request for /v1/me with a valid key and further headers.
func (w *world) authorized(headers string) string {
	return "GET /v1/me HTTP/1.1\r\nHost: sara\r\nAuthorization: Bearer " + w.keys["pro"] + "\r\n" + headers + "\r\n"
}

// Input that is not a request is answered in the envelope, if at all, and the server survives it.
func TestMalformedHTTP400(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := "Authorization: Bearer " + w.keys["pro"] + "\r\n"
	for name, text := range map[string]string{
		"no HTTP":                  "hello\r\n\r\n",
		"binary":                   "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
		"an empty request line":    " \r\n\r\n",
		"no version":               "GET /v1/me\r\n" + key + "\r\n",
		"another protocol":         "GET /v1/me FTP/1.1\r\nHost: sara\r\n" + key + "\r\n",
		"HTTP/2 preface":           "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"a space in the target":    "GET /v1/me x HTTP/1.1\r\nHost: sara\r\n" + key + "\r\n",
		"a NUL in a header":        "GET /v1/me HTTP/1.1\r\nHost: sara\r\nX-A: a\x00b\r\n" + key + "\r\n",
		"a NUL in the target":      "GET /v1/\x00me HTTP/1.1\r\nHost: sara\r\n" + key + "\r\n",
		"a header without a colon": "GET /v1/me HTTP/1.1\r\nHost: sara\r\nnonsense\r\n" + key + "\r\n",
		"a space before the colon": "GET /v1/me HTTP/1.1\r\nHost: sara\r\nX-A : b\r\n" + key + "\r\n",
		"a header without a name":  "GET /v1/me HTTP/1.1\r\nHost: sara\r\n: b\r\n" + key + "\r\n",
		"two lengths":              "POST /v1/me HTTP/1.1\r\nHost: sara\r\n" + key + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
		"a length and chunks": "POST /v1/me HTTP/1.1\r\nHost: sara\r\n" + key +
			"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nX",
		"a negative length":              "POST /v1/me HTTP/1.1\r\nHost: sara\r\n" + key + "Content-Length: -1\r\n\r\n",
		"a length that is no number":     "POST /v1/me HTTP/1.1\r\nHost: sara\r\n" + key + "Content-Length: 1x\r\n\r\nabc",
		"a length over all":              "POST /v1/me HTTP/1.1\r\nHost: sara\r\n" + key + "Content-Length: 99999999999999999999\r\n\r\nabc",
		"chunks that are none":           "POST /v1/me HTTP/1.1\r\nHost: sara\r\n" + key + "Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
		"an encoding that is not known":  "POST /v1/me HTTP/1.1\r\nHost: sara\r\n" + key + "Transfer-Encoding: gzip\r\n\r\nabc",
		"a bare line feed in the header": "GET /v1/me HTTP/1.1\nHost: sara\n" + strings.ReplaceAll(key, "\r", "") + "\n",
		"no host":                        "GET /v1/me HTTP/1.1\r\n" + key + "\r\n",
		"OPTIONS of all":                 "OPTIONS * HTTP/1.1\r\nHost: sara\r\n" + key + "\r\n",
		"CONNECT":                        "CONNECT example.com:443 HTTP/1.1\r\nHost: sara\r\n" + key + "\r\n",
		"a very long method":             strings.Repeat("G", 5000) + " /v1/me HTTP/1.1\r\nHost: sara\r\n" + key + "\r\n",
		"a method with HTML":             "<b> /v1/me HTTP/1.1\r\nHost: sara\r\n" + key + "\r\n",
	} {
		w.run(name, func(t *testing.T) {
			c := w.dial()
			c.send(text)
			c.send("GET /smuggled HTTP/1.1\r\nHost: sara\r\nConnection: close\r\n\r\n")
			answers := 0
			for {
				r, more := c.next(http.MethodGet)
				if !more {
					break
				}
				answers++
				if r.status >= 500 {
					t.Errorf("answers %d %s", r.status, r.body)
				}
				if r.status != http.StatusOK && len(r.body) > 0 {
					r.wantEnvelope(t)
				}
				if strings.Contains(string(r.body), w.keys["pro"]) {
					t.Errorf("the answer repeats the key: %s", r.body)
				}
			}
			if answers > 2 {
				t.Errorf("%d answers to two requests", answers)
			}
		})
	}
	w.get("pro", "/v1/me").ok(t)
	w.wantNoSecrets()
}

// Request smuggling: a request with ambiguous framing must not be read as two requests.
func TestMalformedHTTP400Smuggling(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	inner := "GET /v1/me HTTP/1.1\r\nHost: sara\r\n\r\n"
	for name, head := range map[string]string{
		"two lengths":          fmt.Sprintf("Content-Length: %d\r\nContent-Length: 0\r\n", len(inner)),
		"a length of a GET":    fmt.Sprintf("Content-Length: %d\r\n", len(inner)),
		"a length and chunks":  fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n", len(inner)),
		"chunks written oddly": "Transfer-Encoding: \tchunked\r\nContent-Length: 0\r\n",
	} {
		w.run(name, func(t *testing.T) {
			c := w.dial()
			c.send("GET /v1/openapi.json HTTP/1.1\r\nHost: sara\r\n" + head + "\r\n" + inner)
			w.must(c.conn.(*net.TCPConn).CloseWrite())
			for answers := 0; ; answers++ {
				r, more := c.next(http.MethodGet)
				if !more {
					break
				}
				if answers > 0 && r.status != http.StatusBadRequest {
					t.Errorf("the body was answered as a request of its own: %d %s", r.status, r.body)
				}
			}
		})
	}
}

func TestEveryEndpoint405(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, r := range table() {
		path := strings.Replace(r.Path, "{id}", w.properties["main"].ID, 1)
		methods := []string{"POST", "OPTIONS"}
		if r.Operation == "getSummary" {
			methods = []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get"}
		}
		for _, method := range methods {
			w.run(r.Operation+"/"+method, func(t *testing.T) {
				c := w.dial()
				c.send(method + " " + path + " HTTP/1.1\r\nHost: sara\r\nAuthorization: Bearer " + w.keys["pro"] + "\r\nContent-Length: 0\r\n\r\n")
				answer, there := c.next(method)
				if !there || answer.status != http.StatusMethodNotAllowed || answer.header.Get("Allow") != "GET, HEAD" {
					t.Fatalf("answers %d, Allow %q: %s", answer.status, answer.header.Get("Allow"), answer.body)
				}
				w.wantHeaders(t, answer)
				answer.want(t, http.StatusMethodNotAllowed, openapi.CodeMethodNotAllowed)
				if answer.header.Get("X-Ratelimit-Limit") == "0" {
					t.Error("the account's allowance is missing")
				}
			})
		}
	}
	w.get("pro", "/v1/nothing").want(t, http.StatusNotFound, policy.CodeNotFound)
}

// wantHeaders checks the headers of every answer under a key.
func (w *world) wantHeaders(t testing.TB, r response) {
	t.Helper()
	for name, want := range map[string]string{"Cache-Control": "private, no-store",
		"Content-Type": "application/json; charset=utf-8", "X-Content-Type-Options": "nosniff", "X-Cache": "bypass"} {
		if got := r.header.Get(name); got != want {
			t.Errorf("%d: %s is %q, not %q", r.status, name, got, want)
		}
	}
	wantMatch(t, "Vary", r.header.Get("Vary"), "^Authorization, (Accept, )?Accept-Encoding$") // by Accept where there are formats
	wantMatch(t, "X-Request-Id", r.header.Get("X-Request-Id"), "^req_[0-9a-f]{32}$")
	for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
		wantMatch(t, name, r.header.Get(name), "^[0-9]+$")
	}
}

func TestHeadersOnEveryAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.sim.SetFaults(faultQuota()))
	statuses := map[int]bool{}
	for _, c := range [][2]string{{"pro", "/v1/me"}, {"pro", "/v1/me?x=1"}, {"", "/v1/me"}, {"trial", "/v1/me"}, {"pro", "/v1/nothing"}, {"", "/v1"},
		{"pro", w.path("foreign", "")}, {"pro", w.path("disconnected", "/summary")}, {"pro", w.path("main", "/summary")},
		{"pro", "/v1/" + strings.Repeat("x", maxURL)}} {
		r := w.get(c[0], c[1])
		w.wantHeaders(t, r)
		statuses[r.status] = true
	}
	for _, status := range []int{200, 400, 401, 403, 404, 414, 429, 503} {
		if !statuses[status] {
			t.Errorf("no answer had the status %d", status)
		}
	}
}

// HEAD is GET without its body, charged alike.
func TestEveryEndpointHead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.get("pro", w.path("main", "/summary")).ok(t) // and a hit is memoized
	for _, path := range []string{"/v1/me", "/v1/nothing", openapi.Path, "/", w.path("main", "/summary"), w.path("main", "/queries?limit=0"),
		w.path("main", "/brand-terms")} {
		c := w.dial()
		request := path + " HTTP/1.1\r\nHost: sara\r\nAuthorization: Bearer " + w.keys["pro"] + "\r\n\r\n"
		c.send("GET " + request)
		get, there := c.next(http.MethodGet)
		if !there {
			t.Fatalf("GET %s is not answered", path)
		}
		c.send("HEAD " + request + "GET " + request)
		head, there := c.next(http.MethodHead)
		if !there || head.status != get.status || len(head.body) != 0 || path != "/v1/me" && head.header.Get("Etag") != get.header.Get("Etag") ||
			head.header.Get("Content-Type") != get.header.Get("Content-Type") || head.header.Get("X-RateLimit-Limit") != get.header.Get("X-RateLimit-Limit") {
			t.Errorf("HEAD %s is %d %v, GET %d %v", path, head.status, head.header, get.status, get.header)
		}
		if again, there := c.next(http.MethodGet); !there || again.status != get.status {
			t.Errorf("after HEAD %s the connection is not in step: %d", path, again.status)
		}
	}
	w.wantUsage(t, "pro", 14, 14, 1) // 1, three of each of four paths, and this request
}

// The root needs no key, and points to the API reference.
func TestRoot200(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.get("", "/")
	if r.status != http.StatusOK || r.data()["docs_url"] != publicURL+"/docs" || r.data()["openapi_url"] != publicURL+openapi.Path {
		t.Errorf("answers %d %s", r.status, r.body)
	}
}

// Two Authorization headers are ambiguous. The message is readable as it stands.
func TestMe401TwoAuthorizations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := "Bearer " + w.keys["pro"]
	r := w.ask(http.MethodGet, "/v1/me", key, key)
	r.want(t, http.StatusUnauthorized, policy.CodeInvalidKey, "2 Authorization headers")
	if !strings.Contains(string(r.body), "<API_KEY>") {
		t.Errorf("the message is escaped: %s", r.body)
	}
}

func TestEveryEndpoint414(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for operation, r := range w.keyedRoutes() {
		w.run(operation, func(t *testing.T) {
			r := w.get("pro", r.Path+"?x="+strings.Repeat("y", maxURL))
			r.want(t, http.StatusRequestURITooLong, openapi.CodeTooLarge)
			w.wantHeaders(t, r)
			if left := r.header.Get("X-RateLimit-Remaining"); left != "100000" {
				t.Errorf("with a valid key %s requests are left, want all", left)
			}
		})
	}
	fits := "/v1/me?" + strings.Repeat("&", maxURL-len("/v1/me?"))
	w.get("pro", fits).ok(t)
	w.get("pro", fits+"&").want(t, http.StatusRequestURITooLong, openapi.CodeTooLarge)
}

func TestEdge431And413(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.dial()
	c.send(w.authorized("X-Long: " + strings.Repeat("x", maxHeader) + "\r\n"))
	r, there := c.next(http.MethodGet)
	if !there {
		t.Fatal("no answer to a long header")
	}
	r.want(t, http.StatusRequestHeaderFieldsTooLarge, openapi.CodeTooLarge)
	if limit, ok := r.header["X-Ratelimit-Limit"]; ok || r.header.Get("X-Request-Id") == "" {
		t.Errorf("of a request that was not read, the allowance is %v", limit)
	}

	c = w.dial()
	c.send("POST /v1/me HTTP/1.1\r\nHost: sara\r\nAuthorization: Bearer " + w.keys["pro"] + "\r\nContent-Length: 100000\r\n\r\n" +
		strings.Repeat("x", 4096))
	if r, there = c.next(http.MethodPost); !there {
		t.Fatal("no answer to a long body")
	}
	r.want(t, http.StatusRequestEntityTooLarge, openapi.CodeTooLarge)
	if limit, ok := r.header["X-Ratelimit-Limit"]; ok || r.header.Get("X-Request-Id") == "" {
		t.Errorf("of a request that was not read, the allowance is %v", limit)
	}

	c = w.dial()
	head := "POST /v1/me HTTP/1.1\r\nHost: sara\r\nTransfer-Encoding: chunked\r\n\r\n1;"
	c.send(head + strings.Repeat("x", maxRequest+1-len(head)))
	if r, there = c.next(http.MethodPost); !there {
		t.Fatal("no answer to a long extension of a chunk")
	}
	r.want(t, http.StatusRequestEntityTooLarge, openapi.CodeTooLarge)
	w.wantNoSecrets()
}

// What one request may be long, many on the same connection may be together.
func TestEdge200LongRequestsOfOneConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.dial()
	long := w.authorized("X-Long: " + strings.Repeat("x", maxHeader-1024) + "\r\n")
	for sent := 0; sent <= 2*maxRequest; sent += 3 * len(long) {
		c.send(strings.Repeat(long, 3)) // pipelined
		for range 3 {
			if r, there := c.next(http.MethodGet); !there || r.status != http.StatusOK {
				t.Fatalf("after %d bytes: %v %d %s", sent, there, r.status, r.body)
			}
		}
	}
}

func TestMalformedHTTP400Version(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, version := range []string{"HTTP/0.9", "HTTP/1.2", "HTTP/2.0", "HTTP/3.7"} {
		c := w.dial()
		c.send(strings.Replace(w.authorized(""), "HTTP/1.1", version, 1))
		r, there := c.next(http.MethodGet)
		if !there {
			t.Fatalf("no answer to %s", version)
		}
		r.want(t, http.StatusBadRequest, translate.CodeValidation)
		if _, there = c.next(http.MethodGet); there || !strings.Contains(string(r.body), "a version of HTTP other than 1.0 and 1.1") {
			t.Errorf("%s: another answer %t, %s", version, there, r.body)
		}
	}
}

func TestConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wantOK := func(t *testing.T, c *rawConn, n int) {
		t.Helper()
		for i := range n {
			if r, there := c.next(http.MethodGet); !there || r.status != http.StatusOK {
				t.Fatalf("answer %d: %v %d %s", i, there, r.status, r.body)
			}
		}
	}
	w.run("kept alive", func(t *testing.T) {
		c := w.dial()
		for range 3 {
			c.send(w.authorized(""))
			wantOK(t, c, 1)
		}
	})
	w.run("kept alive past a refusal", func(t *testing.T) {
		c := w.dial()
		c.send("GET /v1/nothing HTTP/1.1\r\nHost: sara\r\n\r\n")
		if r, there := c.next(http.MethodGet); !there || r.status != http.StatusNotFound {
			t.Fatalf("answers %d", r.status)
		}
		c.send(w.authorized(""))
		wantOK(t, c, 1)
	})
	w.run("pipelined", func(t *testing.T) {
		c := w.dial()
		c.send(strings.Repeat(w.authorized(""), 5))
		wantOK(t, c, 5)
	})
	w.run("one byte at a time", func(t *testing.T) {
		c := w.dial()
		for _, b := range []byte(w.authorized("")) {
			c.send(string(b))
		}
		wantOK(t, c, 1)
	})
	w.run("closed on demand", func(t *testing.T) {
		c := w.dial()
		c.send(w.authorized("Connection: close\r\n"))
		wantOK(t, c, 1)
		if _, there := c.next(http.MethodGet); there {
			t.Error("the connection stays open")
		}
	})
	w.run("an absolute target", func(t *testing.T) {
		c := w.dial()
		c.send(strings.Replace(w.authorized(""), "/v1/me", "http://elsewhere.example/v1/me", 1))
		wantOK(t, c, 1)
	})
	w.run("targets that are not the path", func(t *testing.T) {
		for _, target := range []string{"//v1/me", "/v1//me", "/v1/me;x", "v1/me", "/v1/me%20"} {
			c := w.dial()
			c.send(strings.Replace(w.authorized(""), "/v1/me", target, 1))
			if r, there := c.next(http.MethodGet); !there || r.status != http.StatusNotFound && r.status != http.StatusBadRequest {
				t.Errorf("%s answers %d %s", target, r.status, r.body)
			}
		}
	})
	w.run("closed before a request", func(t *testing.T) {
		before := w.logged()
		w.must(w.dial().conn.Close())
		w.get("pro", "/v1/me").ok(t)
		if lines := strings.Count(w.logged(), "\n") - strings.Count(before, "\n"); lines != 1 {
			t.Errorf("%d lines in the log", lines)
		}
	})
}

// Every answer has a unique id, the same in its body, its header and the log.
func TestRequestIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seen := map[string]bool{}
	for _, path := range []string{"/v1/me", "/v1/openapi.json", "/v1/nothing", "/v1/me?x=1", w.path("main", ""), w.path("main", "/summary"),
		w.path("archived", "/summary")} {
		for range 20 {
			r := w.get("pro", path)
			id := r.header.Get("X-Request-Id")
			if failure, ok := r.json["error"].(map[string]any); ok && failure["request_id"] != id {
				t.Errorf("%s: the body has %v, the header %q", path, failure["request_id"], id)
			}
			if meta := r.meta(); meta != nil && meta["request_id"] != id {
				t.Errorf("%s: the body has %v, the header %q", path, meta["request_id"], id)
			}
			if seen[id] || strings.Count(w.logged(), `"msg":"request","request_id":"`+id+`"`) != 1 {
				t.Errorf("%s: the id %q came before, or is not in the log once", path, id)
			}
			seen[id] = true
		}
	}
}

// The log names operation, key and account, and quotes nothing that the client wrote.
func TestLogQuotesNoRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret := w.keys["agency"]
	filters := filtersOf("query", "contains", "medical condition")
	w.get("pro", w.path("main", "/queries"), "filters", filters).ok(t)
	w.get("pro", w.path("archived", "/queries"), "filters", filters)
	w.get("pro", "/v1/"+secret)
	w.get("pro", "/v1/properties/"+secret)
	w.get("pro", "/v1/me", secret, secret)
	w.must(w.sim.SetFaults(faultStatus(http.StatusBadRequest)))
	w.get("pro", w.path("prefix", "/queries"), "filters", filters)
	w.must(w.store.Close())
	w.get("pro", "/v1/properties/"+secret+"2").want(t, http.StatusServiceUnavailable, openapi.CodeServiceUnavailable)
	if log := w.logged(); strings.Contains(log, "medical") || !strings.Contains(log, `"key":"`+w.keyIDs["pro"]+`"`) ||
		!strings.Contains(log, `"property":"`+w.properties["main"].ID+`"`) {
		t.Errorf("the log is %s", log)
	}
	w.wantNoSecrets()
}

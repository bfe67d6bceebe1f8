package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"sara/proxy/openapi"
)

func TestConnectionLimitFollowsMemoryAndOpenFiles(t *testing.T) {
	f := func(memory int64, files, want int) {
		t.Helper()
		if got := (Capacity{MemoryLimit: memory, OpenFiles: files}).connections(); got != want {
			t.Errorf("with %d bytes and %d files: %d connections, want %d", memory, files, got, want)
		}
	}
	f(0, 0, 2184)
	f(1, 0, 256)
	f(640<<20, 0, 1365)
	f(1<<30, 0, 2184)
	f(1<<40, 0, 16384)
	f(0, 1<<20, 2184)
	f(0, 2000, 1744)
	f(0, 1024, 768)
	f(0, 256, 128)
	f(1, 100, 50)
}

// What package connections does with minConnections.
const (
	minPerNetwork = minConnections / 4
	evictAfter    = time.Second // of waiting, a connection may be closed
)

// crowded is a world with few connections.
func crowded(t *testing.T, adjust ...func(*Config)) *world {
	t.Helper()
	w := newWorld(t, append(adjust, func(c *Config) { c.Capacity.MemoryLimit = 1 })...)
	return w
}

// dialFrom connects from an address of this machine.
func (w *world) dialFrom(address string) *rawConn {
	w.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	conn, err := dialer.Dial("tcp", strings.TrimPrefix(w.base, "http://"))
	w.must(err)
	w.must(conn.SetDeadline(time.Now().Add(time.Minute)))
	w.t.Cleanup(func() { _ = conn.Close() })
	return &rawConn{t: w.t, conn: conn, reader: bufio.NewReader(conn)}
}

// fill opens n connections from an address that each send text, and waits until they wait for more.
func (w *world) fill(address string, n int, text string) (opened []*rawConn) {
	w.t.Helper()
	for range n {
		c := w.dialFrom(address)
		c.send(text)
		opened = append(opened, c)
	}
	return opened
}

// wantRefused checks that a connection is answered 503 in the envelope and closed. It returns the request id.
func (w *world) wantRefused(t *testing.T, c *rawConn) (id string) {
	t.Helper()
	c.send(w.authorized(""))
	r, there := c.next(http.MethodGet)
	if !there {
		t.Fatal("a connection that is refused gets no answer")
	}
	r.want(t, http.StatusServiceUnavailable, openapi.CodeServiceUnavailable)
	w.wantHeaders(t, r)
	if r.header.Get("Retry-After") != "2" {
		t.Errorf("headers %v", r.header)
	}
	if _, more := c.next(http.MethodGet); more {
		t.Error("a connection that is refused stays open")
	}
	id = r.header.Get("X-Request-Id")
	if failure, _ := r.json["error"].(map[string]any); failure["request_id"] != id {
		t.Errorf("the body has %v, the header %s", failure, id)
	}
	return id
}

func (w *world) openConnections(t *testing.T) int {
	t.Helper()
	return int(counted(t, w.config.Registry, "sara_connections"))
}

func (w *world) wantConnections(t *testing.T, want int) {
	t.Helper()
	w.await(t, fmt.Sprint(want, " connections"), func() bool { return w.openConnections(t) == want })
}

func TestConnections503ServiceUnavailableFromOneAddress(t *testing.T) {
	t.Parallel()
	w := crowded(t)
	open := w.fill("127.0.0.2", minPerNetwork, "")
	w.wantConnections(t, minPerNetwork)
	ids := map[string]bool{}
	for range 3 {
		ids[w.wantRefused(t, w.dialFrom("127.0.0.2"))] = true
	}
	if len(ids) != 3 {
		t.Errorf("three refusals have the ids %v", ids)
	}
	other := w.dialFrom("127.0.0.3")
	other.send(w.authorized(""))
	if r, there := other.next(http.MethodGet); !there || r.status != http.StatusOK {
		t.Errorf("another address is answered %d", r.status)
	}
	w.wantConnections(t, minPerNetwork+1)
	if got := counted(t, w.config.Registry, "sara_connections_refused_total"); got != 3 {
		t.Errorf("%v refusals are counted, want 3", got)
	}
	w.advance(evictAfter)
	c := w.dialFrom("127.0.0.2")
	c.send(w.authorized(""))
	if r, there := c.next(http.MethodGet); !there || r.status != http.StatusOK {
		t.Errorf("after a second: answered %d", r.status)
	}
	closed := 0
	for _, c := range open {
		w.must(c.conn.SetReadDeadline(time.Now().Add(time.Millisecond)))
		if _, err := c.conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			closed++
		}
	}
	if closed != 1 || counted(t, w.config.Registry, "sara_connections_evicted_total") != 1 {
		t.Errorf("%d connections were closed, want 1", closed)
	}
}

// However many heads are sent by halves, and from however many addresses, the memory that they take up is bounded.
func TestConnections503ServiceUnavailableHalfSentHeads(t *testing.T) {
	t.Parallel()
	w := crowded(t)
	half := "GET /v1/me HTTP/1.1\r\nHost: sara\r\nX-Long: " + strings.Repeat("a", 31<<10)
	for i := range 4 {
		w.fill(fmt.Sprint("127.0.0.", 2+i), minPerNetwork, half)
	}
	w.wantConnections(t, minConnections)
	w.wantRefused(t, w.dialFrom("127.0.0.9"))
	w.advance(evictAfter)
	for i := range 300 {
		w.fill(fmt.Sprint("127.0.1.", i%8), 1, half)
		w.await(t, "room", func() bool {
			return counted(t, w.config.Registry, "sara_connections_evicted_total") == float64(i+1)
		})
		w.advance(evictAfter)
		if open := w.openConnections(t); open > minConnections {
			t.Fatalf("%d connections are open", open)
		}
	}
	c := w.dialFrom("127.0.0.9")
	c.send(w.authorized(""))
	if r, there := c.next(http.MethodGet); !there || r.status != http.StatusOK {
		t.Errorf("another client is answered %d", r.status)
	}
}

// Behind a trusted proxy, all connections come from few addresses.
func TestConnections200BehindATrustedProxy(t *testing.T) {
	t.Parallel()
	w := crowded(t, func(c *Config) { c.TrustedProxyHeader = "X-Real-IP" })
	w.fill("127.0.0.2", minConnections-1, "")
	w.wantConnections(t, minConnections-1)
	c := w.dialFrom("127.0.0.2")
	c.send(w.authorized(""))
	if r, there := c.next(http.MethodGet); !there || r.status != http.StatusOK {
		t.Errorf("answered %d", r.status)
	}
	w.wantRefused(t, w.dialFrom("127.0.0.3"))
}

// While many refused connections do not even send a request, the next one is answered all the same, and accepting goes on.
func TestConnections503ServiceUnavailableToAFlood(t *testing.T) {
	t.Parallel()
	w := crowded(t)
	w.fill("127.0.0.2", minPerNetwork, "")
	w.wantConnections(t, minPerNetwork)
	silent := w.fill("127.0.0.2", 84, "") // 64 are refused with patience
	for _, c := range silent {
		if r, there := c.next(http.MethodGet); !there || r.status != http.StatusServiceUnavailable {
			t.Fatalf("answered %d", r.status)
		}
	}
	w.dialFrom("127.0.0.3").send(w.authorized(""))
	w.wantConnections(t, minPerNetwork+1)
}

// shutDown shuts the server down.
func (w *world) shutDown() (stopped <-chan error) {
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		done <- w.server.Shutdown(ctx)
	}()
	return done
}

// A connection that was opened in advance, and never used, does not hold up a shutdown. One that has sent half of a request gets its answer.
func TestShutdownClosesUnusedConnections(t *testing.T) {
	t.Parallel()
	w := crowded(t)
	unused := w.fill("127.0.0.2", 3, "")
	half := w.servePipes(w.server.edge)()
	request := w.authorized("")
	half.send(request[:5])
	half.send(request[5:10]) // is read when the first bytes have counted
	w.wantConnections(t, 4)
	stopped := w.shutDown()
	w.await(t, "the end of the unused connections", func() bool {
		w.advance(evictAfter) // whenever they begin to wait
		return w.openConnections(t) == 1
	})
	for _, c := range unused {
		if _, there := c.next(http.MethodGet); there {
			t.Error("a connection without a request is answered")
		}
	}
	half.send(request[10:])
	if r, there := half.next(http.MethodGet); !there || r.status != http.StatusOK {
		t.Errorf("half of a request, and then the rest: answered %d", r.status)
	}
	w.must(<-stopped)
}

// A connection that was opened just before a shutdown gets its answer.
func TestShutdownAnswersConnectionsOpenedJustNow(t *testing.T) {
	t.Parallel()
	w := crowded(t)
	late := w.dialFrom("127.0.0.2")
	w.wantConnections(t, 1)
	stopped := w.shutDown()
	w.await(t, "the end of the listener", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.base, "http://"))
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	late.send(w.authorized(""))
	if r, there := late.next(http.MethodGet); !there || r.status != http.StatusOK {
		t.Errorf("answered %d", r.status)
	}
	w.must(<-stopped)
}

// A proxy in front that is not configured is warned of once.
func TestAnyEndpoint200WarnsOfAProxy(t *testing.T) {
	t.Parallel()
	warnings := func(header string) int {
		w := newWorld(t, func(c *Config) { c.TrustedProxyHeader = header })
		w.get("pro", "/v1/me").ok(t)
		if strings.Contains(w.logged(), "came through a proxy") {
			t.Error("a warning without a proxy")
		}
		for range 3 {
			w.getWith("pro", "/v1/me", nil, "X-Forwarded-For", "203.0.113.7").ok(t)
		}
		return strings.Count(w.logged(), "came through a proxy")
	}
	if n := warnings(""); n != 1 {
		t.Errorf("%d warnings, want 1", n)
	}
	if n := warnings("X-Real-IP"); n != 0 {
		t.Errorf("with a trusted proxy: %d warnings", n)
	}
}

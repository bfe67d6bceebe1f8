package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestConnectionLimitFollowsMemoryAndOpenFiles(t *testing.T) {
	f := func(memory int64, files, want int) {
		t.Helper()
		if got := connectionLimit(memory, files); got != want {
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

// closable is a connection of which only the end matters.
type closable struct {
	net.Conn
	closed atomic.Bool
}

func (c *closable) Close() error { c.closed.Store(true); return nil }

func closableConnection(address string) *connection {
	return &connection{Conn: new(closable), address: address}
}

// manualConnections returns a set with a clock that the test moves.
func manualConnections(limit, perNetwork int) (s *connections, clock *time.Duration) {
	clock = new(time.Duration)
	s = newConnections(limit, perNetwork == 0, func() time.Time { return noon().Add(*clock) }, prometheus.NewRegistry())
	s.perNetwork = perNetwork
	return s, clock
}

func TestLongestWaitingConnectionMakesRoom(t *testing.T) {
	s, clock := manualConnections(3, 0)
	var open []*connection
	for i := range 3 {
		c := closableConnection(fmt.Sprint(i))
		if refused := s.admit(c); refused != "" {
			t.Fatal(refused)
		}
		c.waiting.Store(s.now())
		*clock += time.Second
		open = append(open, c)
	}
	open[0].waiting.Store(busy)
	if refused := s.admit(closableConnection("new")); refused != "" {
		t.Errorf("there is no room: %s", refused)
	}
	for i, c := range open {
		if closed := c.Conn.(*closable).closed.Load(); closed != (i == 1) {
			t.Errorf("connection %d is closed: %t", i, closed)
		}
	}
	open[2].waiting.Store(s.now())
	*clock += evictAfter - 1
	if refused := s.admit(closableConnection("early")); refused != refusedByTotal {
		t.Errorf("before a second has passed: %q", refused)
	}
	*clock++
	if refused := s.admit(closableConnection("in time")); refused != "" || !open[2].Conn.(*closable).closed.Load() {
		t.Errorf("after a second: %q", refused)
	}
}

// Against a slow reference: whatever opens, closes, waits and works, the longest waiting connection of the full group is closed,
// one with a valid key only if there is no other.
func TestEvictionAgreesWithAReference(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, 0))
		keyedOneIn := []int{1, 2, 50}[seed%3]
		s, clock := manualConnections(120, 50)
		var open []*connection
		for step := range 6000 {
			*clock += time.Duration(1 + random.IntN(4_000_000)) // no two wait since the same instant
			switch dice := random.IntN(10); {
			case dice < 6:
				c := closableConnection(fmt.Sprintf("10.0.0.%d", random.IntN(4)))
				victim, refused := expectedVictim(s, open, c.address)
				if got := s.admit(c); got != refused {
					t.Fatalf("seed %d, step %d: %q, want %q", seed, step, got, refused)
				}
				if refused == "" {
					c.waiting.Store(s.now())
					c.keyed.Store(random.IntN(keyedOneIn) == 0)
					open = append(open, c)
				}
				if victim >= 0 {
					if open[victim].waiting.Load() != evicted {
						t.Fatalf("seed %d, step %d: another connection was closed", seed, step)
					}
					open = append(open[:victim], open[victim+1:]...)
				}
			case dice < 7 && len(open) > 0:
				i := random.IntN(len(open))
				_ = open[i].Close()
				open = append(open[:i], open[i+1:]...)
			case len(open) > 0:
				c := open[random.IntN(len(open))]
				c.waiting.Store([]int64{busy, s.now()}[random.IntN(2)])
				if random.IntN(100*keyedOneIn) == 0 {
					c.markKeyed()
				}
			}
			if int(s.count()) != len(open) {
				t.Fatalf("seed %d, step %d: %v are open, want %d", seed, step, s.count(), len(open))
			}
		}
	}
}

// expectedVictim returns the index of the connection that must make room for one from an address, -1 if none; or the reason of
// a refusal.
func expectedVictim(s *connections, open []*connection, address string) (victim int, refused string) {
	same := 0
	for _, c := range open {
		if c.address == address {
			same++
		}
	}
	switch {
	case same >= s.perNetwork:
		refused = refusedByAddress
	case len(open) >= s.all.limit:
		refused = refusedByTotal
	default:
		return -1, ""
	}
	victim = -1
	for i, c := range open {
		since := c.waiting.Load()
		if since <= 0 || s.now()-since < int64(evictAfter) || refused == refusedByAddress && c.address != address {
			continue
		}
		if victim < 0 || !c.keyed.Load() && open[victim].keyed.Load() ||
			c.keyed.Load() == open[victim].keyed.Load() && since < open[victim].waiting.Load() {
			victim = i
		}
	}
	if victim >= 0 {
		refused = ""
	}
	return victim, refused
}

// crowded is a world with few connections.
func crowded(t *testing.T, adjust ...func(*Config)) *world {
	t.Helper()
	w := newWorld(t, append(adjust, func(c *Config) { c.MemoryLimit = 1 })...)
	if w.server.open.all.limit != minConnections {
		t.Fatalf("%d connections", w.server.open.all.limit)
	}
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
	r.want(t, http.StatusServiceUnavailable, codeServiceUnavailable)
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

func (w *world) wantConnections(t *testing.T, want int) {
	t.Helper()
	w.await(t, fmt.Sprint(want, " connections"), func() bool { return int(w.server.open.count()) == want })
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
	if got := counted(t, w.server.config.Registry, "sara_connections_refused_total"); got != 3 {
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
	if closed != 1 || counted(t, w.server.config.Registry, "sara_connections_evicted_total") != 1 {
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
			return counted(t, w.server.config.Registry, "sara_connections_evicted_total") == float64(i+1)
		})
		w.advance(evictAfter)
		if open := int(w.server.open.count()); open > minConnections {
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
	silent := w.fill("127.0.0.2", maxRefusals+20, "")
	for _, c := range silent {
		if r, there := c.next(http.MethodGet); !there || r.status != http.StatusServiceUnavailable {
			t.Fatalf("answered %d", r.status)
		}
	}
	w.dialFrom("127.0.0.3").send(w.authorized(""))
	w.wantConnections(t, minPerNetwork+1)
}

// A connection that was opened in advance, and never used, does not hold up a shutdown. One that was opened just before it still gets
// its answer.
func TestShutdownClosesUnusedConnections(t *testing.T) {
	t.Parallel()
	w := crowded(t)
	unused := w.fill("127.0.0.2", 3, "")
	half := w.dialFrom("127.0.0.3")
	request := w.authorized("")
	half.send(request[:10])
	w.await(t, "four connections that wait, one for the rest of a request", func() bool {
		waiting, used := w.server.open.states()
		return waiting == 4 && used == 1
	})
	w.advance(evictAfter)
	late := w.dialFrom("127.0.0.4")
	w.wantConnections(t, 5)
	stopped := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		stopped <- w.server.Shutdown(ctx)
	}()
	for _, c := range unused {
		if _, there := c.next(http.MethodGet); there {
			t.Error("a connection without a request is answered")
		}
	}
	late.send(request)
	half.send(request[10:])
	for name, c := range map[string]*rawConn{"half of a request": half, "an open connection": late} {
		if r, there := c.next(http.MethodGet); !there || r.status != http.StatusOK {
			t.Errorf("%s, and then the rest: answered %d", name, r.status)
		}
	}
	w.must(<-stopped)
}

// states returns how many connections wait for bytes, and how many have carried any.
func (s *connections) states() (waiting, used int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.all.members {
		if c.waiting.Load() > 0 {
			waiting++
		}
		if c.used.Load() {
			used++
		}
	}
	return waiting, used
}

// A failingListener fails to accept before it is closed.
type failingListener struct {
	failures int
	accepts  chan time.Time
	closed   chan struct{}
}

func (l *failingListener) Accept() (net.Conn, error) {
	l.accepts <- time.Now()
	if l.failures--; l.failures >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *failingListener) Close() error   { close(l.closed); return nil }
func (l *failingListener) Addr() net.Addr { return &net.TCPAddr{} }

func TestAcceptBacksOffAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &Server{config: Config{Log: slog.New(slog.NewTextHandler(&log, nil))}}
		registry := prometheus.NewRegistry()
		s.open = newConnections(1, true, time.Now, registry)
		inner := &failingListener{failures: 10, accepts: make(chan time.Time, 100), closed: make(chan struct{})}
		l := s.newListener(inner)
		ended := make(chan error)
		go func() {
			_, err := l.Accept()
			ended <- err
		}()
		last, want := <-inner.accepts, 5*time.Millisecond
		for range 10 {
			at := <-inner.accepts
			if got := at.Sub(last); got != want {
				t.Errorf("the next try comes after %v, want %v", got, want)
			}
			last, want = at, min(2*want, time.Second)
		}
		if err := errors.Join(l.Close(), l.Close()); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("it ended with %v", err)
		}
		if n := counted(t, registry, "sara_accept_errors_total"); n != 10 || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("%v failures are counted, and the log is %s", n, &log)
		}
	})
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

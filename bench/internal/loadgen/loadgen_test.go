package loadgen

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

func serve(t *testing.T, handler http.HandlerFunc) (address string) {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// script serves these answers, in pieces, on each connection, and then closes it.
func script(t *testing.T, answers ...[]string) (address string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go play(conn, answers)
		}
	}()
	return listener.Addr().String()
}

func play(conn net.Conn, answers [][]string) {
	defer func() { _ = conn.Close() }()
	requests := bufio.NewReader(conn)
	for _, pieces := range answers {
		request, err := http.ReadRequest(requests)
		if err != nil || request.URL.Path == "" {
			return
		}
		for _, piece := range pieces {
			if _, err := conn.Write([]byte(piece)); err != nil {
				return
			}
		}
	}
}

// fakeClock advances only by Sleep.
type fakeClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) Sleep(d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	return nil
}

func TestEveryRequestIsSentOnceAndCounted(t *testing.T) {
	var seen sync.Map
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if _, twice := seen.LoadOrStore(r.URL.Path, true); twice {
			http.Error(w, "again?", http.StatusConflict)
			return
		}
		if r.Header.Get("X-Word") != "a" {
			http.Error(w, "no word", http.StatusTeapot)
			return
		}
		w.Header().Set("X-Cache", "hit")
		_, _ = w.Write(make([]byte, 100_000)) // more than the buffer, so that it is chunked
	})
	source := func(request *fasthttp.Request, n int64) {
		word := "a"
		if n%4 == 0 {
			word = "b"
		}
		Get(fmt.Sprintf("/%d", n), "X-Word", word).CopyTo(request)
	}
	result, err := Load{Addresses: []string{address}, Source: source, Connections: 7, Requests: 100}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if result.Requests() != 100 || result.Statuses[200] != 75 || result.Statuses[418] != 25 || result.Cache["hit"] != 75 {
		t.Errorf("%d requests: %v, %v", result.Requests(), result.Statuses, result.Cache)
	}
	if !strings.Contains(result.Examples[418], "no word") || len(result.Examples) != 1 {
		t.Errorf("examples: %v", result.Examples)
	}
	if result.Received < 75*100_000 {
		t.Errorf("%d bytes received", result.Received)
	}
	if err := result.Unexpected(200, 418); err != nil {
		t.Error(err)
	}
	if err := result.Unexpected(200); err == nil || !strings.Contains(err.Error(), "25 of 100") || !strings.Contains(err.Error(), "no word") {
		t.Errorf("unexpected statuses: %v", err)
	}
	if p50, p99 := result.Percentile(50), result.Percentile(99); p50 <= 0 || p99 < p50 || result.Max() < p99 || result.Throughput() <= 0 {
		t.Errorf("p50 %v, p99 %v, max %v, %g a second", p50, p99, result.Max(), result.Throughput())
	}
}

func TestConnectionsAreDistributed(t *testing.T) {
	var received [2]atomic.Int64
	var addresses []string
	for i := range received {
		addresses = append(addresses, serve(t, func(http.ResponseWriter, *http.Request) { received[i].Add(1) }))
	}
	result, err := Load{Addresses: addresses, Source: Rotate(Get("/a"), Get("/b")), Connections: 4, Duration: 20 * time.Millisecond}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a, b := received[0].Load(), received[1].Load(); a == 0 || b == 0 || a+b != result.Requests() || result.Statuses[200] != a+b {
		t.Errorf("%d and %d requests reached the servers, %v counted", a, b, result.Statuses)
	}
}

// A server may close a kept-alive connection at any time between two answers: the request is sent once more.
func TestClosedConnectionsAreReopened(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
	for name, answers := range map[string][][]string{
		"announced":   {{"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"}},
		"unannounced": {{ok}},
		"after two":   {{ok}, {ok}},
	} {
		result, err := Load{Addresses: []string{script(t, answers...)}, Source: Rotate(Get("/")), Connections: 1, Requests: 5}.Run(t.Context())
		if err != nil || result.Requests() != 5 || result.Statuses[200] != 5 {
			t.Errorf("%s: %+v (%v)", name, result, err)
		}
	}
}

func TestIncompleteAnswersFailTheRun(t *testing.T) {
	for name, answer := range map[string]string{
		"no answer":              "",
		"half a header":          "HTTP/1.1 200 OK\r\nContent-Le",
		"half a body":            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbody",
		"half a body of a 500":   "HTTP/1.1 500 Oh\r\nContent-Length: 9\r\n\r\nbody",
		"another protocol":       "220 mail.example ESMTP\r\n",
		"a status of letters":    "HTTP/1.1 abc\r\n\r\n",
		"an invalid length":      "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
		"an invalid chunk size":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"a chunk that is longer": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
	} {
		result, err := Load{Addresses: []string{script(t, []string{answer})}, Source: Rotate(Get("/")), Connections: 1, Requests: 1}.Run(t.Context())
		if err == nil {
			t.Errorf("%s: no error, and the statuses %v", name, result.Statuses)
		}
	}
}

// Paths and queries are sent as they are written, encoded slashes and all.
func TestRequestTargetIsSentAsWritten(t *testing.T) {
	const target = "/v1/properties/https%3A%2F%2Fa.example%2F/queries?filters=%5B%7B%22a%22%3A%22b%2B..%2F%22%7D%5D&x=&x=%20+"
	address := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.RequestURI != target || r.Header.Get("Authorization") != "Bearer k" {
			t.Errorf("received %s %v", r.RequestURI, r.Header)
		}
	})
	if err := Once(t.Context(), address, Get(target, "Authorization", "Bearer k"), Get(target, "Authorization", "Bearer k")); err != nil {
		t.Error(err)
	}
}

func TestCancelEndsTheRunAtOnce(t *testing.T) {
	for _, rate := range []float64{0, 1000} {
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		address := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			cancel(enough)
			<-r.Context().Done() // until the client disconnects
		})
		_, err := Load{Addresses: []string{address}, Source: Rotate(Get("/")), Connections: 2, Rate: rate, Requests: 1000}.Run(ctx)
		if !errors.Is(err, enough) {
			t.Errorf("rate %g: %v", rate, err)
		}
	}
}

func TestMissingAnswersFailTheRun(t *testing.T) {
	address := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	_, err := Load{Addresses: []string{address}, Source: Rotate(Get("/")), Connections: 1, Duration: 200 * time.Millisecond, Patience: time.Millisecond}.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "answers are missing") {
		t.Errorf("a server that does not answer: %v", err)
	}
}

// One answer takes a second while a request is due every ten milliseconds. The requests behind it waited too: an open loop
// counts that, a closed loop omits it.
func TestOpenLoopCountsCoordinatedOmission(t *testing.T) {
	clock := &fakeClock{now: time.Unix(1_800_000_000, 0)}
	var received atomic.Int64
	address := serve(t, func(http.ResponseWriter, *http.Request) {
		if received.Add(1) == 1 {
			_ = clock.Sleep(time.Second)
		}
	})
	load := Load{Addresses: []string{address}, Source: Rotate(Get("/")), Connections: 1, Requests: 200, Rate: 100}
	result, err := load.run(t.Context(), clock)
	if err != nil {
		t.Fatal(err)
	}
	// A hundred requests were due in that second. The clock may be one request ahead of a worker.
	for percent, want := range map[float64]time.Duration{45: 0, 75: 500 * time.Millisecond, 100: time.Second} {
		if got := result.Percentile(percent); got < want-30*time.Millisecond || got > want+30*time.Millisecond {
			t.Errorf("percentile %g is %v, want about %v", percent, got, want)
		}
	}
	if result.Requests() != 200 {
		t.Errorf("%d of 200 requests", result.Requests())
	}
	load.Rate = 0
	received.Store(0)
	if result, err = load.run(t.Context(), clock); err != nil || result.Percentile(99) != 0 || result.Max() < 990*time.Millisecond {
		t.Errorf("a closed loop: p99 %v, max %v (%v)", result.Percentile(99), result.Max(), err)
	}
}

func TestArrivals(t *testing.T) {
	for _, c := range []struct {
		rate     float64
		requests int64
		duration time.Duration
		want     int64
	}{
		{100, 7, 0, 7},
		{100, 0, time.Second, 100},
		{100, 7, time.Second, 7},
		{100, 700, time.Second, 100},
		{0.5, 0, 3 * time.Second, 2}, // at 0 and at 2 seconds
	} {
		l := Load{Rate: c.rate, Requests: c.requests, Duration: c.duration}
		if got := l.arrivals(); got != c.want {
			t.Errorf("%+v: %d arrivals, want %d", c, got, c.want)
		}
	}
	if due := dueAfter(30, 20); due != 1500*time.Millisecond {
		t.Errorf("the 30th of 20 a second is due after %v", due)
	}
}

func TestTimerSleepsLongEnough(t *testing.T) {
	clock, err := newTimer()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = clock.Close() }()
	for range 2 {
		const nap = 100 * time.Microsecond
		began := clock.Now()
		if err := clock.Sleep(nap); err != nil || clock.Now().Sub(began) < nap {
			t.Errorf("slept %v (%v)", clock.Now().Sub(began), err)
		}
	}
}

func TestInvalidLoads(t *testing.T) {
	for _, l := range []Load{
		{},
		{Addresses: []string{"x"}, Source: Rotate(nil), Connections: 1},
		{Addresses: []string{"x"}, Source: Rotate(nil), Requests: 1},
		{Addresses: []string{"x"}, Source: Rotate(nil), Connections: 1, Requests: 1, Rate: -1},
	} {
		if _, err := l.Run(t.Context()); err == nil {
			t.Errorf("%+v: no error", l)
		}
	}
}

// The client shares the machine with what it measures: it should allocate next to nothing.
func TestExchangeAllocs(t *testing.T) {
	answer := []byte("HTTP/1.1 200 OK\r\nX-Cache: hit\r\nContent-Length: 8000\r\n\r\n" + strings.Repeat("x", 8000))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	w, err := newWorker(t.Context(), listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	go func() { // a server that allocates nothing
		request := make([]byte, 1000)
		for {
			if _, err := conn.Read(request); err != nil {
				return
			}
			if _, err := conn.Write(answer); err != nil {
				return
			}
		}
	}()
	const times = 200
	source := Rotate(Get("/"))
	perExchange := testing.AllocsPerRun(times, func() {
		source(&w.request, 0)
		if err := w.exchange(); err != nil {
			t.Fatal(err)
		}
	})
	if w.received != (times+1)*int64(len(answer)) {
		t.Errorf("%d bytes received", w.received)
	}
	if perExchange > 2 {
		t.Errorf("%g allocations for an exchange", perExchange)
	}
}

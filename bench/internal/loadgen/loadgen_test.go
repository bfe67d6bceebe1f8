package loadgen

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func serve(t *testing.T, handler http.HandlerFunc) (address string) {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// script serves these answers, in pieces, on each connection, and then closes it. It counts the requests that it reads.
func script(t *testing.T, answers ...[]string) (address string, requests *atomic.Int64) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	requests = new(atomic.Int64)
	var group sync.WaitGroup
	t.Cleanup(group.Wait)
	t.Cleanup(func() { _ = listener.Close() })
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() { play(t, conn, answers, requests) })
		}
	})
	return listener.Addr().String(), requests
}

// Pieces of an answer that are not sent.
const (
	reset   = "(reset)"   // the server resets the connection
	goodbye = "(goodbye)" // the client has to close the connection
)

func play(t *testing.T, conn net.Conn, answers [][]string, requests *atomic.Int64) {
	defer func() { _ = conn.Close() }()
	reader := bufio.NewReader(conn)
	for _, pieces := range answers {
		request, err := http.ReadRequest(reader)
		if err != nil || request.URL.Path == "" {
			return
		}
		requests.Add(1)
		for _, piece := range pieces {
			switch piece {
			case reset:
				_ = conn.(*net.TCPConn).SetLinger(0)
				return
			case goodbye:
				const patience = 10 * time.Second
				_ = conn.SetReadDeadline(time.Now().Add(patience))
				if _, err := reader.ReadByte(); err != io.EOF {
					t.Errorf("the client keeps a connection whose end was announced (%v)", err)
				}
				return
			}
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
	source := func(n int64) Request {
		word := "a"
		if n%4 == 0 {
			word = "b"
		}
		return Get(fmt.Sprintf("/%d", n), "X-Word", word)
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

// A server may close a kept-alive connection at any time between two answers: the request is sent again once.
func TestClosedConnectionsAreReopened(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
	for name, answers := range map[string][][]string{
		"announced":   {{"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", goodbye}},
		"older":       {{"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", goodbye}},
		"unannounced": {{ok}},
		"after two":   {{ok}, {ok}},
		"reset":       {{ok, reset}},
	} {
		address, requests := script(t, answers...)
		result, err := Load{Addresses: []string{address}, Source: Rotate(Get("/")), Connections: 1, Requests: 50}.Run(t.Context())
		if err != nil || result.Requests() != 50 || result.Statuses[200] != 50 || requests.Load() != 50 {
			t.Errorf("%s: %d requests, %+v (%v)", name, requests.Load(), result, err)
		}
	}
}

// Nothing is sent again after the first byte of an answer, and only once before it.
func TestIncompleteAnswersFailTheRun(t *testing.T) {
	const chunked, cut, more = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "EOF", "after the end of the answer"
	for name, c := range map[string]struct {
		answer  []string
		problem string
	}{
		"no answer":                    {nil, cut},
		"a reset":                      {[]string{reset}, "reset by peer"},
		"half a header":                {[]string{"HTTP/1.1 200 OK\r\nContent-Le"}, cut},
		"half a header and a reset":    {[]string{"HTTP/1.1 200 OK\r\nContent-Le", reset}, "reset by peer"},
		"half a body":                  {[]string{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbody"}, cut},
		"half a body and a reset":      {[]string{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbody", reset}, "reset by peer"},
		"half a body of a 500":         {[]string{"HTTP/1.1 500 Oh\r\nContent-Length: 9\r\n\r\nbody"}, cut},
		"half of an announced end":     {[]string{"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\nbody"}, cut},
		"half a chunk":                 {[]string{chunked + "9\r\nbody"}, cut},
		"no last chunk":                {[]string{chunked + "4\r\nbody\r\n"}, cut},
		"only an interim answer":       {[]string{"HTTP/1.1 100 Continue\r\n\r\n"}, cut},
		"no length":                    {[]string{"HTTP/1.1 200 OK\r\n\r\nbody"}, "without a length"},
		"no length, and announced end": {[]string{"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nbody"}, "without a length"},
		"another protocol":             {[]string{"220 mail.example ESMTP\r\n"}, "status code"},
		"a status of letters":          {[]string{"HTTP/1.1 abc\r\n\r\n"}, "status code"},
		"an invalid length":            {[]string{"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"}, "content-length"},
		"two lengths":                  {[]string{"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}"}, "content-length"},
		"an invalid chunk size":        {[]string{chunked + "zz\r\n"}, "hex number"},
		"a chunk that is longer":       {[]string{chunked + "1\r\nab\r\n"}, "end of chunk"},
		"a body that is longer":        {[]string{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}\n"}, more},
		"a body of a 304":              {[]string{"HTTP/1.1 304 Same\r\nContent-Length: 2\r\n\r\n{}"}, more},
		"more after the last chunk":    {[]string{chunked + "1\r\na\r\n0\r\n\r\nb"}, more},
		"two answers":                  {[]string{"HTTP/1.1 204 No\r\n\r\nHTTP/1.1 204 No\r\n\r\n"}, more},
	} {
		address, requests := script(t, c.answer)
		result, err := Load{Addresses: []string{address}, Source: Rotate(Get("/")), Connections: 1, Requests: 1}.Run(t.Context())
		if err == nil {
			t.Errorf("%s: no error, and the statuses %v", name, result.Statuses)
			continue
		}
		if !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%s: %v, want an error about %q", name, err, c.problem)
		}
		want := int64(1)
		if len(c.answer) == 0 || c.answer[0] == reset {
			want = 2
		}
		if n := requests.Load(); n != want {
			t.Errorf("%s: the request was sent %d times, want %d", name, n, want)
		}
	}
}

// All forms of a complete answer are read to their end, and their bytes are counted, however they arrive.
func TestCompleteAnswers(t *testing.T) {
	long := strings.Repeat("0123456789", 10_000)
	for name, c := range map[string]struct {
		answer string
		status int
		cache  string
	}{
		"a length":                {"HTTP/1.1 200 OK\r\nx-cache: hit\r\nContent-Length: 4\r\n\r\nbody", 200, "hit"},
		"more than the buffer":    {"HTTP/1.1 200 OK\r\nX-Cache: miss\r\nContent-Length: 100000\r\n\r\n" + long, 200, "miss"},
		"no body":                 {"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", 503, ""},
		"without one":             {"HTTP/1.1 204 Nothing\r\nX-Cache: hit\r\n\r\n", 204, "hit"},
		"the length of another":   {"HTTP/1.1 304 Same\r\nContent-Length: 100000\r\n\r\n", 304, ""},
		"chunks":                  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbo\r\n186a0\r\n" + long + "\r\n0\r\n\r\n", 200, ""},
		"a trailer":               {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n", 200, ""},
		"after an interim answer": {"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nX-Cache: hit\r\nContent-Length: 1\r\n\r\na", 200, "hit"},
		"the older protocol":      {"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", 200, ""},
	} {
		for _, pieces := range [][]string{{c.answer}, strings.SplitAfter(c.answer, "\r\n")} {
			address, _ := script(t, pieces, pieces)
			const times = 4
			result, err := Load{Addresses: []string{address}, Source: Rotate(Get("/")), Connections: 1, Requests: times}.Run(t.Context())
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if result.Statuses[c.status] != times || result.Received != times*int64(len(c.answer)) {
				t.Errorf("%s: the statuses %v, %d bytes of %d", name, result.Statuses, result.Received, times*len(c.answer))
			}
			if c.cache != "" && result.Cache[c.cache] != times || c.cache == "" && len(result.Cache) > 0 {
				t.Errorf("%s: the cache %v", name, result.Cache)
			}
		}
	}
}

func TestRequestBytes(t *testing.T) {
	const want = "GET /a%2Fb?c=+d HTTP/1.1\r\nHost: sara.example\r\nAuthorization: Bearer k\r\nX-Word: w\r\n\r\n"
	if got := string(Get("/a%2Fb?c=+d", "Authorization", "Bearer k", "X-Word", "w")); got != want {
		t.Errorf("%q", got)
	}
}

// Paths and queries are sent as they are written, including encoded slashes.
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
	_, err := Load{Addresses: []string{address}, Source: Rotate(Get("/")), Connections: 1, Duration: 200 * time.Millisecond,
		Patience: time.Millisecond}.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "answers are missing") {
		t.Errorf("a server that does not answer: %v", err)
	}
}

// One answer takes a second while a request is due every ten milliseconds. The requests behind it also waited: an open loop
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

// The client shares the machine with what it measures: it should allocate nothing.
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
	defer w.close()
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
		if err := w.send(source(0)); err != nil {
			t.Fatal(err)
		}
	})
	if w.received != (times+1)*int64(len(answer)) {
		t.Errorf("%d bytes received", w.received)
	}
	if perExchange > 0 {
		t.Errorf("%g allocations for an exchange", perExchange)
	}
}

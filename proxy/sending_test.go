package proxy

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"sara/proxy/connections"
)

// A closedConn is a connection that counts how often it is closed.
type closedConn struct {
	net.Conn
	closed int
}

func (c *closedConn) Close() error {
	c.closed++
	return nil
}

func TestOldestAnswersOfTheLargestAccountEnd(t *testing.T) {
	t.Parallel()
	s := newSendings(100, prometheus.NewRegistry())
	var conns []*closedConn
	begin := func(account string, head []byte) *sending {
		conns = append(conns, new(closedConn))
		return s.begin(&connections.Conn{Conn: conns[len(conns)-1]}, account, head)
	}
	want := func(when string, bytes int64, closed ...int) {
		t.Helper()
		var got []int
		for i, c := range conns {
			if c.closed > 0 {
				got = append(got, i)
			}
		}
		if s.bytes != bytes || !slices.Equal(got, closed) {
			t.Errorf("%s: %d bytes are being sent, and %v are closed; want %d and %v", when, s.bytes, got, bytes, closed)
		}
	}
	shared := make([]byte, 30)
	begin("small", make([]byte, 20))          // 0, the oldest of all
	first := begin("large", make([]byte, 25)) // 1
	begin("large", shared)                    // 2
	second := begin("large", shared)          // 3
	want("with room", 75)
	begin("small", make([]byte, 30)) // 4
	want("without room", 80, 1)
	first.end()
	want("after the end of what was closed", 80, 1)
	second.end()
	want("after the end of one of two with the same head", 80, 1)
	huge := begin("huge", make([]byte, 500)) // 5
	want("with one that never fits beside others", 80, 1, 5)
	huge.end()
	for _, one := range slices.Clone(s.all) {
		one.end()
	}
	want("after the end of all", 0, 1, 5)
	begin("huge", make([]byte, 500)) // 6
	want("with one that is alone", 500, 1, 5)
	begin("large", make([]byte, 20)) // 7
	want("with one beside that", 20, 1, 5, 6)
	begin("small", make([]byte, 80)) // 8
	want("at the limit", 100, 1, 5, 6)
	for _, one := range slices.Clone(s.all) {
		one.end()
	}
	begin("first", shared)            // 9
	begin("second", shared)           // 10
	begin("second", make([]byte, 40)) // 11
	begin("third", make([]byte, 45))  // 12
	want("with a head that counts for the first account only", 70, 1, 5, 6, 12)
}

func TestSendingLimitFollowsMemory(t *testing.T) {
	t.Parallel()
	for memory, want := range map[int64]int64{0: 64 << 20, 1: leastSendingBytes, 640 << 20: 40 << 20} {
		if got := (Capacity{MemoryLimit: memory}).sendings(); got != want {
			t.Errorf("%d bytes of memory: %d, want %d", memory, got, want)
		}
	}
}

// A pipeListener accepts connections without buffers: what the client does not read cannot be written.
type pipeListener struct {
	net.Listener // only its address
	accepted     chan net.Conn
	closed       chan struct{}
	close        func()
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.accepted:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.close()
	return nil
}

// servePipes serves the world's routes over pipes too, and returns how to connect.
func (w *world) servePipes(edge *fasthttp.Server) (dial func() *rawConn) {
	w.t.Helper()
	l := &pipeListener{accepted: make(chan net.Conn), closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	served := make(chan error, 1)
	go func() { served <- edge.Serve(w.server.newListener(l)) }()
	w.t.Cleanup(func() {
		w.must(edge.Shutdown())
		w.must(<-served)
	})
	return func() *rawConn {
		client, server := net.Pipe()
		l.accepted <- server
		w.t.Cleanup(func() { _ = client.Close() })
		return &rawConn{t: w.t, conn: client, reader: bufio.NewReader(client)}
	}
}

// Clients that ask for long answers, and do not read them, fill no memory, and get in the way of no other account.
func TestLongAnswers200BesideClientsThatDoNotRead(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]func(w *world, key string, n int) string{
		"a table": func(w *world, key string, n int) string {
			return fmt.Sprintf("GET %s?limit=1000&offset=%d HTTP/1.1\r\nHost: sara\r\nAuthorization: Bearer %s\r\n\r\n",
				w.path("large", "/queries"), n, w.keys[key])
		},
		"a tool of agents": func(w *world, key string, _ int) string {
			call := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"query_performance",`+
				`"arguments":{"property":%q,"dimension":"query","limit":250}}}`, w.properties["large"].ID)
			return fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nAccept: application/json, text/event-stream\r\n"+
				"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
				strings.TrimPrefix(w.base, "http://"), w.keys[key], len(call), call)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkUnread(t, newWorld(t), request)
		})
	}
}

// checkUnread sends requests of an account that reads no answer, and one of another account before.
func checkUnread(t *testing.T, w *world, request func(w *world, key string, n int) string) {
	t.Helper()
	dial := w.servePipes(w.server.newEdge(table()))
	ask := func(key string, n int) *rawConn {
		c := dial()
		c.send(request(w, key, n))
		return c
	}
	first, _ := ask("agency", 0).next(http.MethodPost)
	long := len(first.body)
	const most, asked = 3, 10
	w.server.sendings.limit = most * int64(long)
	reading := ask("agency", 0)
	w.await(t, "the first answer", func() bool { return w.server.sendings.size() > 0 })
	var silent []*rawConn
	for i := range asked {
		silent = append(silent, ask("pro", 1+i))
		w.await(t, "an answer", func() bool {
			ended := counted(t, w.config.Registry, "sara_unread_answers_total")
			return int(ended) == max(0, i+1+1-most)
		})
		if bytes := w.server.sendings.size(); bytes > float64(most*long) {
			t.Fatalf("%.0f bytes are being sent, of at most %d", bytes, most*long)
		}
	}
	if r, there := reading.next(http.MethodPost); !there || r.status != http.StatusOK || len(r.body) < long-100 {
		t.Errorf("another account gets %d and %d bytes, want %d", r.status, len(r.body), long)
	}
	if r, there := silent[asked-1].next(http.MethodPost); !there || r.status != http.StatusOK {
		t.Errorf("the newest answer is %d", r.status)
	}
	for _, c := range silent {
		_ = c.conn.Close()
	}
	w.await(t, "all answers to end", func() bool { return w.server.sendings.size() == 0 })
}

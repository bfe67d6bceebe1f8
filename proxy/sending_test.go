package proxy

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
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
		return s.begin(&connection{Conn: conns[len(conns)-1]}, account, head)
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
}

func TestSendingLimitFollowsMemory(t *testing.T) {
	t.Parallel()
	for memory, want := range map[int64]int64{0: 64 << 20, 1: leastSendingBytes, 640 << 20: 40 << 20} {
		if got := sendingLimit(memory); got != want {
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
func (w *world) servePipes() (dial func() *rawConn) {
	w.t.Helper()
	l := &pipeListener{accepted: make(chan net.Conn), closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	edge := w.server.newEdge(w.server.routes())
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
func TestQueries200BesideClientsThatDoNotRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dial := w.servePipes()
	ask := func(key string, offset int) *rawConn {
		c := dial()
		c.send(fmt.Sprintf("GET %s?limit=1000&offset=%d HTTP/1.1\r\nHost: sara\r\nAuthorization: Bearer %s\r\n\r\n",
			w.path("large", "/queries"), offset, w.keys[key]))
		return c
	}
	long := len(w.get("agency", w.path("large", "/queries"), "limit", "1000").ok(t).body)
	const most, asked = 3, 10
	w.server.sendings.limit = most * int64(long)
	reading := ask("agency", 0)
	w.await(t, "the first answer", func() bool { return w.server.sendings.size() > 0 })
	var silent []*rawConn
	for i := range asked {
		silent = append(silent, ask("pro", 1+i))
		w.await(t, "an answer", func() bool {
			ended := counted(t, w.server.config.Registry, "sara_unread_answers_total")
			return int(ended) == max(0, i+1+1-most)
		})
		if bytes := w.server.sendings.size(); bytes > float64(most*long) {
			t.Fatalf("%.0f bytes are being sent, of at most %d", bytes, most*long)
		}
	}
	if r, there := reading.next(http.MethodGet); !there || r.status != http.StatusOK || len(r.body) < long-100 {
		t.Errorf("another account gets %d and %d bytes, want %d", r.status, len(r.body), long)
	}
	if r, there := silent[asked-1].next(http.MethodGet); !there || r.status != http.StatusOK {
		t.Errorf("the newest answer is %d", r.status)
	}
	for _, c := range silent {
		_ = c.conn.Close()
	}
	w.await(t, "all answers to end", func() bool { return w.server.sendings.size() == 0 })
}

package proxy

import (
	"net"
	"strings"
	"testing"
	"time"
)

// serveWith serves the world's routes again, with other timeouts.
func (w *world) serveWith(read, idle time.Duration) {
	w.t.Helper()
	edge := w.server.newEdge(table())
	if edge.ReadTimeout != readTimeout || edge.WriteTimeout != writeTimeout || edge.IdleTimeout != idleTimeout {
		w.t.Error("the timeouts of the edge differ from the constants")
	}
	edge.ReadTimeout, edge.IdleTimeout = read, idle
	l, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	w.base = "http://" + l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- edge.Serve(w.server.newListener(l)) }()
	w.t.Cleanup(func() {
		w.must(edge.Shutdown())
		w.must(<-served)
	})
}

// A client that sends its request slowly, or sends none, is disconnected; an answer, if there is one, is in the envelope.
func TestEdge408SlowClients(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serveWith(150*time.Millisecond, idleTimeout)
	t.Run("headers", func(t *testing.T) {
		c := w.dial()
		go func() {
			for _, b := range w.authorized("X-Slow: " + strings.Repeat("a", 10_000)) {
				if _, err := c.conn.Write([]byte{byte(b)}); err != nil {
					return
				}
				<-time.After(time.Millisecond) // the pace of the slow client
			}
		}()
		if r, answered := c.next("GET"); answered {
			if r.status == 200 {
				t.Errorf("a request that took ten seconds to send is answered: %s", r.body)
			}
			r.wantEnvelope(t)
		}
	})
	t.Run("body", func(t *testing.T) {
		c := w.dial()
		c.send(w.authorized("Content-Length: 10\r\n") + "12345")
		if r, answered := c.next("GET"); answered {
			if r.status == 200 {
				t.Errorf("a request whose body never came is answered: %s", r.body)
			}
			r.wantEnvelope(t)
		}
	})
	w.serveWith(time.Minute, 150*time.Millisecond)
	t.Run("idle", func(t *testing.T) {
		c := w.dial()
		c.send(w.authorized(""))
		if r, answered := c.next("GET"); !answered || r.status != 200 {
			t.Fatalf("the first request is answered %d", r.status)
		}
		if r, answered := c.next("GET"); answered {
			t.Errorf("an idle connection gets %d", r.status)
		}
	})
	t.Run("a request in time", func(t *testing.T) { w.get("pro", "/v1/me").ok(t) })
}

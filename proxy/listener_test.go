package proxy

import (
	"net"
	"sync"
)

// A trackedListener knows the connections that it accepted, so that a world can end them before it shuts its server down: the
// HTTP library polls every 100 ms for their end, and for its own that of the accept loop, longer than most tests take.
type trackedListener struct {
	net.Listener
	closing func() error // closes the Listener once

	mu    sync.Mutex
	gone  sync.Cond                       // signalled for each connection that the server has closed
	open  map[*trackedConnection]struct{} // guarded by mu
	ended bool                            // guarded by mu
}

func listen() (*trackedListener, error) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &trackedListener{Listener: tcp, closing: sync.OnceValue(tcp.Close), open: map[*trackedConnection]struct{}{}}
	l.gone.L = &l.mu
	return l, nil
}

func (l *trackedListener) Close() error { return l.closing() }

func (l *trackedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &trackedConnection{Conn: conn, of: l}
	l.open[c] = struct{}{}
	if l.ended {
		return c, conn.Close()
	}
	return c, nil
}

// end disconnects all clients, and waits until the server has noticed.
func (l *trackedListener) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	for c := range l.open {
		_ = c.Conn.Close() // the client may have been first
	}
	for len(l.open) > 0 {
		l.gone.Wait()
	}
}

type trackedConnection struct {
	net.Conn
	of *trackedListener
}

func (c *trackedConnection) Close() error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	delete(c.of.open, c)
	c.of.gone.Signal()
	return c.Conn.Close()
}

// CloseWrite makes the connection one that can be closed by halves, as TCP's are.
func (c *trackedConnection) CloseWrite() error { return c.Conn.(*net.TCPConn).CloseWrite() }

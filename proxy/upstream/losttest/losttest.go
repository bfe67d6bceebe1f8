// Package losttest is an in-process network that loses a connection, as a real one does when it drops the connection's state: nothing
// sent on it arrives, and no end is signalled. In a synctest bubble, blocking on it counts as waiting.
package losttest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
)

// Host is the name of the server, at https://.
const Host = "example.com"

// A Network has one server, which speaks HTTP/2.
type Network struct {
	server *httptest.Server
	conns  chan net.Conn
	closed chan struct{}
	close  sync.Once
	dials  atomic.Int32
	lost   atomic.Bool
}

var _ net.Listener = (*Network)(nil)

// Serve starts the server. The caller stops it.
func Serve(handler http.Handler) (n *Network, stop func()) {
	n = &Network{conns: make(chan net.Conn), closed: make(chan struct{}), server: httptest.NewUnstartedServer(handler)}
	_ = n.server.Listener.Close() // it is replaced
	n.server.Listener, n.server.EnableHTTP2 = n, true
	n.server.StartTLS()
	return n, n.server.Close
}

// Join makes a transport connect to the server.
func (n *Network) Join(t testing.TB, transport http.RoundTripper) {
	t.Helper()
	joined, ok := transport.(*http.Transport)
	if !ok {
		t.Fatalf("%T cannot join a network", transport)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(n.server.Certificate())
	joined.TLSClientConfig = &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
	joined.DialContext = n.dial
}

func (n *Network) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, accepted := net.Pipe()
	select {
	case n.conns <- accepted:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if n.dials.Add(1) > 1 {
		return client, nil
	}
	return conn{client, &n.lost}, nil
}

// Lose loses the first connection.
func (n *Network) Lose() { n.lost.Store(true) }

// Dials returns how many connections were made.
func (n *Network) Dials() int { return int(n.dials.Load()) }

// Accept implements net.Listener.
func (n *Network) Accept() (net.Conn, error) {
	select {
	case accepted := <-n.conns:
		return accepted, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (n *Network) Close() error {
	n.close.Do(func() { close(n.closed) })
	return nil
}

// Addr implements net.Listener.
func (n *Network) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }

// A conn is a connection that may be lost.
type conn struct {
	net.Conn
	lost *atomic.Bool
}

func (c conn) Write(p []byte) (int, error) {
	if c.lost.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

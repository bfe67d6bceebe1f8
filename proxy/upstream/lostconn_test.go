package upstream

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
	"testing/synctest"
	"time"
)

// A pipeListener accepts connections within the process, which synctest can tell from waiting for the network.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	close  sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }

// A muteConn loses all that is written to it, once it is mute, as a network does that has forgotten a connection.
type muteConn struct {
	net.Conn
	mute *atomic.Bool
}

func (c muteConn) Write(p []byte) (int, error) {
	if c.mute.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// A connection over HTTP/2 that the network has lost is closed: a request that times out does not close it, so that all later ones would
// wait on it as well, until the operating system gives it up after a quarter of an hour.
func TestLostConnectionIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
		server := httptest.NewUnstartedServer(&google{})
		_ = server.Listener.Close() // it is replaced
		server.Listener, server.EnableHTTP2 = listener, true
		server.StartTLS()
		defer server.Close()
		c := startClient(t, Config{TokenURL: "https://example.com/token"})
		transport := c.tokens.httpClient.Transport.(*http.Transport)
		trusted := x509.NewCertPool()
		trusted.AddCert(server.Certificate())
		transport.TLSClientConfig = &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
		dials, lost := 0, new(atomic.Bool)
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			client, accepted := net.Pipe()
			select {
			case listener.conns <- accepted:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			if dials++; dials > 1 {
				return client, nil
			}
			return muteConn{client, lost}, nil
		}
		acct := account(t, authorizedUser())
		refresh := func() error {
			access, err := c.tokens.get(t.Context(), acct)
			c.tokens.drop(acct, access)
			return err
		}
		for range 2 {
			if err := refresh(); err != nil || dials != 1 {
				t.Fatalf("over %d connections: %v", dials, err)
			}
		}
		lost.Store(true)
		began := time.Now()
		for refresh() != nil && time.Since(began) < time.Minute {
		}
		if took := time.Since(began); took > 20*time.Second || dials != 2 {
			t.Errorf("a token comes after %v, over %d connections", took, dials)
		}
		c.close()
	})
}

package upstream

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// corked is a connection that holds back what is written to it, and then sends it at once.
type corked struct {
	net.Conn
	corked bool
	held   bytes.Buffer
}

func (c *corked) Write(p []byte) (int, error) {
	if c.corked {
		return c.held.Write(p)
	}
	return c.Conn.Write(p)
}

func (c *corked) uncork() error {
	c.corked = false
	_, err := c.held.WriteTo(c.Conn)
	return err
}

// answerTwice answers each request on a connection with its number. The first one it answers twice, at once, in two TLS records.
func answerTwice(socket net.Conn, config *tls.Config, requests *atomic.Int64) error {
	under := &corked{Conn: socket}
	conn := tls.Server(under, config)
	defer func() { _ = conn.Close() }()
	for reader := bufio.NewReader(conn); ; {
		request, err := http.ReadRequest(reader)
		if err != nil {
			return nil // the client has closed it
		}
		if _, err := io.Copy(io.Discard, request.Body); err != nil {
			return err
		}
		n := requests.Add(1)
		under.corked = true
		for range max(1, 3-n) {
			if _, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"n\":%d}", n); err != nil {
				return err
			}
		}
		if err := under.uncork(); err != nil {
			return err
		}
	}
}

// TLS reads ahead of the first answer, so no second one is left in the socket.
func TestStrayAnswerOverTLSIsNotTheNextOne(t *testing.T) {
	authority := httptest.NewTLSServer(nil)
	defer authority.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	var requests atomic.Int64
	go func() {
		for {
			socket, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				if err := answerTwice(socket, authority.TLS, &requests); err != nil {
					t.Error(err)
				}
			}()
		}
	}()
	cfg := newGoogle(t, ok(empty)).config()
	cfg.BaseURL = "https://" + listener.Addr().String()
	c, acct := startClient(t, cfg), account(t, authorizedUser())
	c.transport.host.TLSConfig.RootCAs = authority.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	for n := 1; n <= 3; n++ {
		reply, err := c.searchAnalytics(t.Context(), acct, site, queryBody, nil)
		if want := fmt.Sprintf(`{"n":%d}`, n); err != nil || string(reply) != want {
			t.Errorf("the answer to question %d is %s, %v", n, reply, err)
		}
	}
}

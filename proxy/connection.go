package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"time"

	"github.com/valyala/fasthttp"

	"sara/policy"
	"sara/proxy/connections"
	"sara/proxy/openapi"
)

// A connection is a client's connection, with what a request on it leaves for the next. It carries one at a time, so that it needs no lock.
type connection struct {
	*connections.Conn
	spare *exchange // the memory of the exchange of an earlier request; nil: there is none
	begun *exchange // of the request in progress, whose route is not known yet; nil: it is, or there is none

	// The last Authorization field with a key, and the hash of the key: most clients have one key.
	authorization []byte
	keyHash       policy.Hash
}

// connectionOf returns the connection of a request: the listener makes them all.
func connectionOf(http *fasthttp.RequestCtx) *connection { return http.Conn().(*connection) }

// takeExchange returns memory for the exchange of a request.
func (c *connection) takeExchange() *exchange {
	taken := c.spare
	if c.spare = nil; taken == nil {
		taken = new(exchange)
	}
	return taken
}

// keepExchange keeps the exchange of an answered request for the next one, unless it is held. Its body is not sent yet, but will be before the
// next request is read.
func (c *connection) keepExchange(answered *exchange) {
	if !answered.held {
		answered.release()
		c.spare = answered
	}
}

// hashKey is policy.HashKey, for a field of a request on the connection.
func (c *connection) hashKey(authorization string) policy.Hash {
	if len(c.authorization) > 0 && string(c.authorization) == authorization {
		return c.keyHash
	}
	hash := policy.HashKey(authorization)
	if hash != (policy.Hash{}) && len(authorization) <= maxKeptAuthorization {
		c.authorization, c.keyHash = append(c.authorization[:0], authorization...), hash
	}
	return hash
}

// maxKeptAuthorization bounds what a connection keeps; the field with a key of usual form is shorter.
const maxKeptAuthorization = 128

// A listener makes the connections of the server.
type listener struct{ *connections.Listener }

func (s *Server) newListener(l net.Listener) net.Listener {
	return listener{s.open.Listen(l, s.newRefusals())}
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &connection{Conn: c}, nil
}

// newRefusals returns a function that returns the answer to a connection for which there is no room. In a flood of them it is written once a
// second: only the id differs.
func (s *Server) newRefusals() func() []byte {
	var second int64
	var written string // the id in text
	var text []byte
	return func() []byte {
		id := newRequestID().String()
		if now := s.now().Unix(); text == nil || now != second {
			second, written, text = now, id, s.refusalOfConnection(id)
		}
		return bytes.ReplaceAll(text, []byte(written), []byte(id))
	}
}

// refusalRetry is the Retry-After of a refused connection: others become idle, or end, at any moment.
const refusalRetry = 2 * time.Second

// refusalOfConnection returns the answer to a connection for which there is no room.
func (s *Server) refusalOfConnection(id string) []byte {
	http := new(fasthttp.RequestCtx)
	x := &exchange{call: call{id: id, started: s.now()}, route: &route{Path: "refused"}, http: http}
	s.errors.send(x, &apiError{code: openapi.CodeServiceUnavailable, retryAfter: refusalRetry,
		message: "too many connections are open: close those that are idle, or use fewer"})
	http.Response.SetConnectionClose()
	http.Response.Header.SetServer(serverName)
	var text bytes.Buffer
	w := bufio.NewWriter(&text)
	if err := errors.Join(http.Response.Write(w), w.Flush()); err != nil {
		panic("BUG: an answer cannot be written into memory: " + err.Error())
	}
	return text.Bytes()
}

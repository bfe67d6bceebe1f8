package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// A connectionRefusal is the answer to connections for which there is no room. In a flood of them it is written once a second: only the
// id differs.
type connectionRefusal struct {
	second int64
	id     string
	text   []byte
}

// maxRefusals bounds the connections that are refused at the same time with patience.
const maxRefusals = 64

// refuse answers a connection for which there is no room, and closes it. It does not block.
func (l *listener) refuse(conn net.Conn) {
	answer := l.nextRefusal()
	select {
	case l.patient <- struct{}{}:
		go func() {
			defer func() { <-l.patient }()
			refusePatiently(conn, answer)
		}()
	default:
		if r := (hastyRefusal{conn, answer}); !l.hasty.add(r) {
			r.send()
		}
	}
}

// hastyRefusals are the connections of a flood. A goroutine refuses one after the other, because sending an answer and closing take
// much longer than accepting: the connections of customers, which are in the same queue of the kernel, would wait for it. The zero
// value is ready to use.
type hastyRefusals struct {
	mu      sync.Mutex
	waiting []hastyRefusal // guarded by mu
	running bool           // guarded by mu: the goroutine, which ends when none waits
}

type hastyRefusal struct {
	conn   net.Conn
	answer []byte
}

// maxHasty bounds the connections that wait to be refused. The goroutine has taken as many more, at most: each has an answer of
// less than a kilobyte, and a descriptor.
const maxHasty = 1 << 10

// add takes a connection, unless too many wait.
func (q *hastyRefusals) add(r hastyRefusal) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) >= maxHasty {
		return false
	}
	q.waiting = append(q.waiting, r)
	if !q.running {
		q.running = true
		go q.run()
	}
	return true
}

func (q *hastyRefusals) run() {
	for {
		q.mu.Lock()
		taken := q.waiting
		q.waiting, q.running = nil, len(taken) > 0
		q.mu.Unlock()
		if len(taken) == 0 {
			return
		}
		for _, r := range taken {
			r.send()
		}
	}
}

// send sends the answer and closes. The send buffer of a new connection takes the answer at once.
func (r hastyRefusal) send() {
	_ = r.conn.SetWriteDeadline(time.Now().Add(minAcceptDelay))
	_, _ = r.conn.Write(r.answer)
	_ = r.conn.Close()
}

// nextRefusal returns an answer with an id of its own.
func (l *listener) nextRefusal() []byte {
	id, r := newRequestID().String(), &l.refusal
	if second := l.server.config.Now().Unix(); r.text == nil || r.second != second {
		*r = connectionRefusal{second, id, l.server.refusalOfConnection(id)}
	}
	return bytes.ReplaceAll(r.text, []byte(r.id), []byte(id))
}

// refusePatiently sends an answer once the request has arrived: clients do not expect it earlier. Then it reads what else arrives,
// because the answer would get lost if the connection were closed with bytes unread. All of it takes a second at most.
func refusePatiently(conn net.Conn, answer []byte) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	_, _ = conn.Read(make([]byte, 1<<10))
	// The deadline may have passed without a request.
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write(answer); err != nil {
		return
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_, _ = io.CopyN(io.Discard, conn, maxHeader)
}

// refusalRetry is the Retry-After of a refused connection: others become idle, or end, at any moment.
const refusalRetry = 2 * time.Second

// refusalOfConnection returns the answer to a connection for which there is no room.
func (s *Server) refusalOfConnection(id string) []byte {
	http := new(fasthttp.RequestCtx)
	c := &call{id: id, route: &route{Path: "refused"}, started: s.config.Now(), http: http}
	s.sendError(c, &apiError{code: codeServiceUnavailable, retryAfter: refusalRetry,
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

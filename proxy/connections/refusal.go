package connections

import (
	"io"
	"net"
	"sync"
	"time"
)

// maxRefusals bounds the connections that are refused at the same time with patience.
const maxRefusals = 64

// refuse answers a connection for which there is no room, and closes it. It does not block.
func (l *Listener) refuse(conn net.Conn) {
	answer := l.refusal()
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
	const most = 32 << 10
	_, _ = io.CopyN(io.Discard, conn, most)
}

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sys/unix"
)

// A surge is many connections that an abuser opens at once.
type surge struct {
	size  int
	from  func(n int) net.IP // the address of the n-th
	send  func(n int) []byte // what it sends at once; nil for nothing
	hold  time.Duration      // how long they stay open
	crowd bool               // from so many addresses that no limit per address helps
}

// The abuser's addresses. Quiet tenants come from 127.0.0.1.
func oneAddress(int) net.IP { return net.IPv4(127, 0, 0, 2) }

// manyAddresses are sixteen thousand.
func manyAddresses(n int) net.IP {
	const half = 128
	return net.IPv4(127, 1, byte(n/half%half), byte(1+n%half))
}

// halfSentHeads opens connections that send nearly as much of a head as sara accepts, but never its end.
func halfSentHeads(ctx context.Context, s *stage) error {
	head := append([]byte("GET /v1/me HTTP/1.1\r\nHost: sara.example\r\nX-Filler: "), bytes.Repeat([]byte("a"), s.headBytes)...)
	return s.surge(ctx, surge{size: s.heads, from: oneAddress, send: func(int) []byte { return head }, hold: s.hold})
}

// idleFromOne opens idle connections from one address. Every other one has received an answer, because then sara may keep buffers.
func idleFromOne(ctx context.Context, s *stage) error {
	return s.idleConnections(ctx, oneAddress, false)
}

// idleFromMany opens them from many addresses, a few from each.
func idleFromMany(ctx context.Context, s *stage) error {
	return s.idleConnections(ctx, manyAddresses, true)
}

func (s *stage) idleConnections(ctx context.Context, from func(int) net.IP, crowd bool) error {
	request := []byte("GET /v1/me HTTP/1.1\r\nHost: sara.example\r\n\r\n")
	send := func(n int) []byte {
		if n%2 == 0 {
			return nil
		}
		return request
	}
	return s.surge(ctx, surge{size: s.idle, from: from, send: send, hold: s.hold, crowd: crowd})
}

// surge opens the connections, holds them, and counts what became of them.
func (s *stage) surge(ctx context.Context, c surge) error {
	began := time.Now()
	if c.crowd {
		s.crowd.begin()
	}
	open := s.openAll(ctx, c)
	if c.crowd {
		s.crowd.end()
	}
	defer func() {
		for _, conn := range open {
			_ = conn.Close()
		}
	}()
	s.note("%d connections within %.1f s", len(open), time.Since(began).Seconds())
	pause(ctx, c.hold)
	for _, conn := range open {
		if err := s.settle(conn); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// openAll opens the connections, many concurrently.
func (s *stage) openAll(ctx context.Context, c surge) (open []*net.TCPConn) {
	const atOnce = 64
	var group sync.WaitGroup
	var mu sync.Mutex // guards open
	work := make(chan int)
	for range atOnce {
		group.Go(func() {
			for n := range work {
				conn, err := s.open(ctx, c, n)
				if err != nil {
					s.tally.add("not connected", 1)
					continue
				}
				mu.Lock()
				open = append(open, conn)
				mu.Unlock()
			}
		})
	}
	for n := range c.size {
		if hasEnded(s.replica) || ctx.Err() != nil {
			break
		}
		work <- n
	}
	close(work)
	group.Wait()
	return open
}

func (s *stage) open(ctx context.Context, c surge, n int) (*net.TCPConn, error) {
	const timeout = 5 * time.Second
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: c.from(n)}, Timeout: timeout, KeepAlive: -1, Control: choosePortLate}
	conn, err := dialer.DialContext(ctx, "tcp", s.replica.Address)
	if err != nil {
		return nil, err
	}
	if text := c.send(n); text != nil {
		_ = conn.SetWriteDeadline(time.Now().Add(timeout))
		_, _ = conn.Write(text) // one that is already refused is counted by what it has received
	}
	return conn.(*net.TCPConn), nil
}

// dialFromOne connects from the abuser's address.
func dialFromOne(address string) (net.Conn, error) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: oneAddress(0)}, Timeout: quietPatience, Control: choosePortLate}
	return dialer.Dial("tcp", address)
}

// choosePortLate lets the kernel choose a port when it connects: when it binds, it has to search ever longer for a free one.
func choosePortLate(_, _ string, conn syscall.RawConn) (err error) {
	failure := conn.Control(func(descriptor uintptr) {
		err = unix.SetsockoptInt(int(descriptor), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	})
	return errors.Join(failure, err)
}

// settle counts what an abuser's connection has received, without waiting.
func (s *stage) settle(conn *net.TCPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	const most = 8 << 10
	received, length := make([]byte, most), 0
	var failure error
	err = raw.Read(func(descriptor uintptr) (done bool) {
		for length < len(received) {
			n, _, err := unix.Recvfrom(int(descriptor), received[length:], unix.MSG_DONTWAIT)
			if failure = err; err != nil || n == 0 {
				break
			}
			length += n
		}
		return true
	})
	if err != nil {
		return err
	}
	s.settled(received[:length], failure)
	return nil
}

// settled counts a connection by all that it has received, and by how its last read ended: nil at its end.
func (s *stage) settled(received []byte, last error) {
	reader := bufio.NewReader(bytes.NewReader(received))
	for {
		var response fasthttp.Response
		if err := response.Read(reader); err != nil {
			break
		}
		s.tally.answer(&response)
	}
	switch {
	case bytes.Contains(received, []byte("HTTP/1.")) || len(received) == 0:
	default:
		s.problem("a connection received what is not HTTP: %.60q", strings.ToValidUTF8(string(received), "?"))
	}
	switch {
	case errors.Is(last, syscall.EAGAIN):
		s.tally.add("still open", 1)
	case last != nil:
		s.tally.add("reset", 1)
	default:
		s.tally.add("closed", 1)
	}
}

package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestLate(t *testing.T) {
	t.Parallel()
	deadline := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	for after, want := range map[time.Duration]time.Duration{
		-time.Hour: 0, 0: 0, tolerated - 1: 0,
		tolerated: tolerated, 60 * time.Millisecond: 60 * time.Millisecond,
		StepTimeout: StepTimeout, time.Hour: StepTimeout, // the machine slept
	} {
		if got := Late(deadline, deadline.Add(after)); got != want {
			t.Errorf("noticed after %v: waits for %v more, want %v", after, got, want)
		}
	}
}

// eventually returns nil as soon as one of many attempts succeeds, else the last error. What is late gets only a little more time, which a busy
// machine may not give the test.
func eventually(attempt func() error) (err error) {
	for range 100 {
		if err = attempt(); err == nil {
			break
		}
	}
	return err
}

// connected returns a patient connection and its other end.
func connected(t *testing.T) (c, other net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	c, err = patient(&redis.Options{DialTimeout: time.Minute})(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if other, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	return c, other
}

// arrived waits until a connection has bytes to read.
func arrived(t *testing.T, c net.Conn) {
	t.Helper()
	socket, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := socket.Read(func(fd uintptr) bool {
		n, _, _ := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return n > 0
	}); err != nil {
		t.Fatal(err)
	}
}

// A reply that has arrived is read, though its reader comes too late, by much or by little.
func TestLateReaderReadsWhatHasArrived(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(net.Conn, time.Time) error{"read": net.Conn.SetReadDeadline, "both": net.Conn.SetDeadline} {
		for _, late := range []time.Duration{time.Minute, time.Nanosecond} {
			t.Run(fmt.Sprint(name, " ", late), func(t *testing.T) {
				t.Parallel()
				c, other := connected(t)
				if _, err := io.WriteString(other, "+OK\r\n"); err != nil {
					t.Fatal(err)
				}
				arrived(t, c)
				reply := make([]byte, 5)
				if err := eventually(func() error {
					if err := set(c, time.Now().Add(-late)); err != nil {
						t.Fatal(err)
					}
					_, err := c.Read(reply)
					return err
				}); err != nil || string(reply) != "+OK\r\n" {
					t.Errorf("read %q: %v", reply, err)
				}
				if n, err := c.Read(reply); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("read %d bytes that never came: %v", n, err)
				}
			})
		}
	}
}

func TestLateWriterWritesTheRest(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(net.Conn, time.Time) error{"write": net.Conn.SetWriteDeadline, "both": net.Conn.SetDeadline} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, other := connected(t)
			if err := set(c, time.Now().Add(-time.Minute)); err != nil {
				t.Fatal(err)
			}
			if n, err := io.WriteString(c, "PING\r\n"); n != 6 || err != nil {
				t.Fatalf("wrote %d bytes: %v", n, err)
			}
			request := make([]byte, 6)
			if _, err := io.ReadFull(other, request); err != nil || string(request) != "PING\r\n" {
				t.Errorf("%q arrived: %v", request, err)
			}
		})
	}
	t.Run("after a part", func(t *testing.T) {
		t.Parallel()
		half := &halfWriter{}
		c := &patientConn{Conn: half, writeBy: time.Now().Add(-time.Minute)}
		if n, err := io.WriteString(c, "abcdef"); n != 6 || err != nil || string(half.written) != "abcdef" {
			t.Errorf("wrote %d bytes, %q: %v", n, half.written, err)
		}
	})
}

// A silentConn fails each read and write, and has the deadlines that were set last.
type silentConn struct {
	net.Conn
	err         error
	read, write time.Time
}

func (c *silentConn) Read([]byte) (int, error)  { return 0, c.err }
func (c *silentConn) Write([]byte) (int, error) { return 0, c.err }
func (c *silentConn) SetReadDeadline(t time.Time) error {
	c.read = t
	return nil
}

func (c *silentConn) SetWriteDeadline(t time.Time) error {
	c.write = t
	return nil
}

func (c *silentConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// A connection waits longer by what its user was late, but by a millisecond at least. After any other error, it does not.
func TestDeadlineOfConnectionIsExtendedByLateness(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(net.Conn, time.Time) error{
		"both": net.Conn.SetDeadline,
		"each": func(c net.Conn, t time.Time) error { return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t)) },
	} {
		for _, test := range []struct {
			late time.Duration
			err  error
			want time.Duration // from now
		}{
			{0, os.ErrDeadlineExceeded, time.Millisecond}, {tolerated - 1, os.ErrDeadlineExceeded, time.Millisecond},
			{tolerated, os.ErrDeadlineExceeded, tolerated}, {time.Hour, os.ErrDeadlineExceeded, StepTimeout},
			{time.Hour, io.EOF, -time.Hour},
		} {
			synctest.Test(t, func(t *testing.T) {
				silent := &silentConn{err: test.err}
				c := &patientConn{Conn: silent}
				if err := set(c, time.Now().Add(-test.late)); err != nil {
					t.Fatal(err)
				}
				_, readErr := c.Read(make([]byte, 1))
				_, writeErr := io.WriteString(c, "a")
				if read, write := time.Until(silent.read), time.Until(silent.write); read != test.want || write != test.want ||
					!errors.Is(readErr, test.err) || !errors.Is(writeErr, test.err) {
					t.Errorf("%s, %+v: waits for %v and %v, then %v and %v", name, test, read, write, readErr, writeErr)
				}
			})
		}
	}
}

// A halfWriter writes half of what it gets first, until its deadline.
type halfWriter struct {
	net.Conn
	written []byte
}

func (w *halfWriter) SetWriteDeadline(time.Time) error { return nil }

func (w *halfWriter) Write(p []byte) (int, error) {
	if w.written == nil {
		w.written = append(w.written, p[:len(p)/2]...)
		return len(p) / 2, os.ErrDeadlineExceeded
	}
	w.written = append(w.written, p...)
	return len(p), nil
}

// serve answers PING as Redis does, and HELLO as an old Redis, until the listener is closed.
func serve(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go answerPings(conn)
	}
}

func answerPings(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	for buffer := make([]byte, 4096); ; {
		n, err := conn.Read(buffer)
		if err != nil {
			return
		}
		commands := string(buffer[:n])
		reply := strings.Repeat("-ERR unknown command\r\n", strings.Count(commands, "hello")) + strings.Repeat("+PONG\r\n", strings.Count(commands, "ping"))
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
	}
}

// openAt returns a client of a listener that serve has got, and a context that ended a minute ago.
func openAt(t *testing.T, listener net.Listener, format string) (c Client, late context.Context) {
	t.Helper()
	c, err := Open(fmt.Sprintf(format, listener.Addr()), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Minute))
	t.Cleanup(func() {
		cancel()
		_, _ = c.Close(), listener.Close()
	})
	go serve(listener)
	return c, late
}

// A command whose time was up before it was sent, because this process was paused, is sent. One whose caller has left is not.
func TestLateCommandIsSent(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	client, late := openAt(t, listener, "redis://%s?protocol=2")
	if err := eventually(func() error { return client.Ping(late).Err() }); err != nil {
		t.Errorf("alone: %v", err)
	}
	if err := eventually(func() error {
		_, err := client.Pipelined(late, func(pipe redis.Pipeliner) error { pipe.Ping(late); pipe.Ping(late); return nil })
		return err
	}); err != nil {
		t.Errorf("in a pipeline: %v", err)
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	left, end := context.WithDeadline(left, time.Now().Add(-time.Minute))
	defer end()
	if err := client.Ping(left).Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("of a caller that has left: %v", err)
	}
}

// A connection with TLS is patient, too, and go-redis does not look into its socket.
func TestPatientConnectionWithTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", server.TLS)
	if err != nil {
		t.Fatal(err)
	}
	client, late := openAt(t, listener, "rediss://%s?protocol=2&skip_verify=true")
	for _, ctx := range []context.Context{t.Context(), late, t.Context()} {
		if err := eventually(func() error { return client.Ping(ctx).Err() }); err != nil {
			t.Error(err)
		}
	}
}

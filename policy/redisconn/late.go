package redisconn

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// tolerated is how late a goroutine may learn that its deadline has passed. One that learns it later was not running: its process was
// paused, by a CPU quota that is used up or the migration of a virtual machine, or the machine is too busy.
const tolerated = 5 * time.Millisecond

// Late returns for how much longer to wait for Redis when a deadline has passed, at now: for as long as the caller was late to notice
// it, but not longer than for a step. It is 0 if the caller was on time, so that Redis has not answered. A pause of this process must not
// count as an outage of Redis: until the circuit closes again, all that is not in memory would be asked of Search Console.
func Late(deadline, now time.Time) time.Duration {
	late := now.Sub(deadline)
	if late < tolerated {
		return 0
	}
	return min(late, StepTimeout)
}

// A patientHook gives a command whose context ended before it was sent, because this process was not running, as much more time.
type patientHook struct{}

// DialHook implements redis.Hook.
func (patientHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (patientHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		ctx, end := extended(ctx)
		defer end()
		return next(ctx, command)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (patientHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		ctx, end := extended(ctx)
		defer end()
		return next(ctx, commands)
	}
}

// extended returns a context that lasts for as much longer than ctx as this process was late to notice that it ended at its deadline.
func extended(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(ctx), Late(deadline, time.Now()))
}

// patient makes the connections of a dialer patient.
func patient(o *redis.Options) func(ctx context.Context, network, address string) (net.Conn, error) {
	dial := dialer(o)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if socket, ok := conn.(syscall.Conn); ok {
			return &patientSocket{patientConn{Conn: conn}, socket}, nil
		}
		return &patientConn{Conn: conn}, nil
	}
}

// A patientConn extends a deadline that has passed, by what this process was late to notice it and a millisecond at least. Otherwise, Go
// would report that the deadline has passed though the reply has arrived in time. One goroutine may read and another one write.
type patientConn struct {
	net.Conn
	readBy, writeBy time.Time
}

// Read implements net.Conn.
func (c *patientConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n == 0 && extends(err, c.readBy, c.SetReadDeadline) {
		return c.Conn.Read(p)
	}
	return n, err
}

// Write implements net.Conn.
func (c *patientConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if extends(err, c.writeBy, c.SetWriteDeadline) {
		var more int
		more, err = c.Conn.Write(p[n:])
		n += more
	}
	return n, err
}

// extends sets a later deadline after a read or a write that failed, and reports whether to try it again.
func extends(err error, deadline time.Time, set func(time.Time) error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	now := time.Now()
	return set(now.Add(max(Late(deadline, now), time.Millisecond))) == nil
}

// SetDeadline implements net.Conn.
func (c *patientConn) SetDeadline(t time.Time) error {
	c.readBy, c.writeBy = t, t
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *patientConn) SetReadDeadline(t time.Time) error {
	c.readBy = t
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn.
func (c *patientConn) SetWriteDeadline(t time.Time) error {
	c.writeBy = t
	return c.Conn.SetWriteDeadline(t)
}

// A patientSocket is a patientConn without TLS. go-redis looks into its socket to find out whether the server has closed it meanwhile.
type patientSocket struct {
	patientConn
	socket syscall.Conn
}

// SyscallConn implements syscall.Conn.
func (c *patientSocket) SyscallConn() (syscall.RawConn, error) { return c.socket.SyscallConn() }

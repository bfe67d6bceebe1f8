package sqlstore

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// losses knows when a connection of a store was last found to be lost. When PostgreSQL restarts, all of them are, and the driver checks
// only those that were idle for a second: after a loss, it checks each that was last used before. The clock is the driver's own. It is safe for
// concurrent use.
type losses struct{ last atomic.Int64 } // in nanoseconds since 1970; 0: none

// note records the loss of a connection, and reports whether err is one.
func (l *losses) note(err error) bool {
	if err == nil || l == nil || !isLost(err) {
		return false
	}
	l.last.Store(time.Now().UnixNano())
	return true
}

// mustPing reports whether a connection may have been lost since its last use.
func (l *losses) mustPing(_ context.Context, p stdlib.ShouldPingParams) bool {
	return p.IdleDuration > time.Second || time.Now().Add(-p.IdleDuration).UnixNano() <= l.last.Load()
}

// isLost reports whether an error means that the connection ended before the answer. What was asked may have been done. A connection that
// could not be opened is not lost: there is an outage, which a second try would only add to.
func isLost(err error) bool {
	if _, failed := errors.AsType[*pgconn.ConnectError](err); failed {
		return false
	}
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok {
		return refusal.Code == "57P01" || refusal.Code == "57P02" // PostgreSQL, or an operator, ends the session
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// In an outage, the proxy in front of PostgreSQL may accept connections and close them. To connect once more would double what it has to do.
func TestConnectionThatCannotBeOpenedIsNotLost(t *testing.T) {
	t.Parallel()
	listener := value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { wantNil(t, listener.Close()) }()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadFull(conn, make([]byte, 8)) // of the first message
			_ = conn.Close()
		}
	}()
	conn, err := pgconn.Connect(t.Context(), "postgres://sara@"+listener.Addr().String()+"/sara?sslmode=disable")
	if err == nil {
		t.Fatal(conn.Close(t.Context()))
	}
	if isLost(err) {
		t.Errorf("%v counts as the loss of a connection", err)
	}
}

// A lostDriver opens connections that are lost whenever a query is sent, and counts these.
type lostDriver struct{ queries int }

func (d *lostDriver) Connect(context.Context) (driver.Conn, error) { return lostConn{d: d}, nil }
func (d *lostDriver) Driver() driver.Driver                        { return nil }

type lostConn struct {
	driver.Conn
	d *lostDriver
}

func (c lostConn) Close() error { return nil }

func (c lostConn) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	c.d.queries++
	return nil, io.ErrUnexpectedEOF
}

// The server may have executed a query whose answer was lost, so one that changes something is not made again.
func TestOnlyReadsAreMadeAgainAfterALoss(t *testing.T) {
	t.Parallel()
	for reads, want := range map[bool]int{true: 2, false: 1} {
		d := new(lostDriver)
		db := sql.OpenDB(d)
		open := newOpening()
		open.succeed()
		l := lane{DB: db, opening: open, losses: new(losses), reads: reads}
		if _, err := all(t.Context(), l, scalar[int64], "SELECT 1"); !errors.Is(err, io.ErrUnexpectedEOF) || d.queries != want {
			t.Errorf("in a lane with reads %t, %d queries end with %v", reads, d.queries, err)
		}
		wantNil(t, db.Close())
	}
}

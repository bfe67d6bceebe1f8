package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"sara/archive/sqlstore/pgtest"
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

// The change may have been made even if the reply to its commit is lost, so caches must not serve what they have.
func testLostCommit(t *testing.T, server *pgtest.Server) {
	f := newFixture(t, server.NewDatabase(t))
	p, c := f.acme()
	key := f.key(p.Email, "text")
	config := value(pgx.ParseConfig(f.url))(t)
	config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &noReplyToCommit{Conn: conn}, err
	}
	f.changes.DB = stdlib.OpenDB(*config)
	t.Cleanup(func() { wantNil(t, f.changes.DB.Close()) })

	generation := f.Generation()
	_, err := f.RevokeKey(f.ctx, key.ID)
	if err == nil {
		t.Errorf("a revocation without a reply to its commit ends with %v", err)
	}
	equal(t, value(f.findKey(keySpec("", "text").Hash))(t).RevokedAt, f.time)
	equal(t, f.Generation(), generation+1)

	changed, err := f.SetConnectionHealth(f.ctx, c.ID, c.Revision, "revoked")
	if changed || err == nil {
		t.Errorf("a change of health without a reply to its commit ends with %t, %v", changed, err)
	}
	equal(t, value(f.Connection(f.ctx, c.ID))(t).Healthy, false)
	equal(t, f.Generation(), generation+2)
}

// A noReplyToCommit is a connection that is lost when the server has committed.
type noReplyToCommit struct {
	net.Conn
	committing bool
}

func (c *noReplyToCommit) Write(message []byte) (int, error) {
	c.committing = bytes.Contains(message, []byte("commit"))
	return c.Conn.Write(message)
}

func (c *noReplyToCommit) Read(reply []byte) (int, error) {
	n, err := c.Conn.Read(reply)
	if c.committing && err == nil {
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

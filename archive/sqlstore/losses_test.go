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
	"time"

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

// A lostDriver opens connections that are lost whenever a query is sent. It counts these queries.
type lostDriver struct {
	queries  int
	deadline time.Time // of the last one
}

func (d *lostDriver) Connect(context.Context) (driver.Conn, error) { return lostConn{d: d}, nil }
func (d *lostDriver) Driver() driver.Driver                        { return nil }

type lostConn struct {
	driver.Conn
	d *lostDriver
}

func (c lostConn) Close() error { return nil }

func (c lostConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) { return lostTx{}, nil }

func (c lostConn) QueryContext(ctx context.Context, _ string, _ []driver.NamedValue) (driver.Rows, error) {
	c.d.queries++
	c.d.deadline, _ = ctx.Deadline()
	return nil, io.ErrUnexpectedEOF
}

type lostTx struct{ driver.Tx }

func (lostTx) Rollback() error { return nil }

// lane returns a lane of connections that are lost.
func (d *lostDriver) lane(t *testing.T, reads bool) lane {
	t.Helper()
	open := newOpening()
	open.succeed()
	l := lane{DB: sql.OpenDB(d), opening: open, losses: new(losses), reads: reads}
	t.Cleanup(func() { wantNil(t, l.Close()) })
	return l
}

// The server may have executed a query whose answer was lost, so one that changes something is not made again.
func TestOnlyReadsAreMadeAgainAfterALoss(t *testing.T) {
	t.Parallel()
	for reads, want := range map[bool]int{true: 2, false: 1} {
		d := new(lostDriver)
		if _, err := all(t.Context(), d.lane(t, reads), scalar[int64], "SELECT 1"); !errors.Is(err, io.ErrUnexpectedEOF) || d.queries != want {
			t.Errorf("in a lane with reads %t, %d queries end with %v", reads, d.queries, err)
		}
	}
}

// A query of a transaction may wait for a lock, or read many rows, for as long as the transaction may last.
func TestQueriesHaveTheTimeOfTheirTransaction(t *testing.T) {
	t.Parallel()
	d := new(lostDriver)
	err := transactWithin(t.Context(), d.lane(t, false), bulkLimit, nil, func(ctx context.Context, tx *sql.Tx) error {
		_, err := all(ctx, tx, scalar[int64], "SELECT 1")
		end, _ := ctx.Deadline()
		equal(t, d.deadline, end)
		return err
	})
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
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

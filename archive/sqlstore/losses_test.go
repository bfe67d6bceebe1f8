package sqlstore

import (
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

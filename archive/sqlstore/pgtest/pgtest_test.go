package pgtest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestEveryDatabaseIsFreshAndSortsByLanguage(t *testing.T) {
	server := Start(t)
	for range 2 {
		conn, err := pgx.Connect(context.Background(), server.NewDatabase(t))
		if err != nil {
			t.Fatal(err)
		}
		var lowerFirst bool
		if err := conn.QueryRow(context.Background(), "SELECT 'a' < 'B'").Scan(&lowerFirst); err != nil || !lowerFirst {
			t.Errorf("'a' < 'B' is %v, %v", lowerFirst, err)
		}
		if _, err := conn.Exec(context.Background(), "CREATE TABLE once (id INTEGER)"); err != nil {
			t.Error(err)
		}
		if err := conn.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

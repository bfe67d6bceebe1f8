package pgtest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestDatabasesAreEmptyAndSortByLanguage(t *testing.T) {
	server := Start(t)
	for range 2 {
		conn := connect(t, server.NewDatabase(t))
		var lowerFirst bool
		if err := conn.QueryRow(context.Background(), "SELECT 'a' < 'B'").Scan(&lowerFirst); err != nil || !lowerFirst {
			t.Errorf("'a' < 'B' is %v, %v", lowerFirst, err)
		}
		if _, err := conn.Exec(context.Background(), "CREATE TABLE once (id INTEGER)"); err != nil {
			t.Error(err)
		}
	}
}

func TestTemplateCopiesTablesAndRows(t *testing.T) {
	newDatabase := Start(t).Template(t, func(url string) {
		statements := "CREATE TABLE a (id INTEGER PRIMARY KEY); INSERT INTO a VALUES (7); CREATE TABLE b (a INTEGER REFERENCES a (id))"
		conn := connect(t, url)
		if _, err := conn.Exec(context.Background(), statements); err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
	for range 2 {
		conn := connect(t, newDatabase(t))
		if _, err := conn.Exec(context.Background(), "INSERT INTO b VALUES (7)"); err != nil {
			t.Error(err)
		}
		if _, err := conn.Exec(context.Background(), "INSERT INTO b VALUES (8)"); err == nil {
			t.Error("the foreign key was not copied")
		}
		var rows int
		if err := conn.QueryRow(context.Background(), "SELECT count(*) FROM b").Scan(&rows); err != nil || rows != 1 {
			t.Errorf("%d rows, %v, want the one of this copy", rows, err)
		}
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return conn
}

package command

import (
	"context"
	"io"
	"testing"

	"sara/archive/sqlstore/pgtest"
	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/internal/console"
)

func TestMain(m *testing.M) { clitest.Main(m) }

// sara runs a command line.
func sara(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return Program{Name: console.ProgramName}.Run(ctx, args, environ, stdin, stdout, stderr)
}

// TestWithPostgreSQL runs the tests that share a PostgreSQL server.
func TestWithPostgreSQL(t *testing.T) {
	t.Parallel()
	postgres := pgtest.Start(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *pgtest.Server)
	}{
		{"refusals name the setting and the fix", testPreflight},
		{"status reads one row", testStatusReadsOneRow},
		{"a wait for a migration is announced", testAnnouncedMigration},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, postgres)
		})
	}
}

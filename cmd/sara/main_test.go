package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sara/archive/sqlstore/pgtest"
	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/internal/command"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/saratest"
)

// TestMain runs the tests, or sara if it was started by that name: linking sara a second time, for the tests of its processes,
// would take longer than most of them.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == console.ProgramName {
		main()
		return
	}
	clitest.Main(m)
}

// sara runs a command line in this process.
func sara(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return command.Program{Name: console.ProgramName}.Run(ctx, args, environ, stdin, stdout, stderr)
}

// program returns the path of sara: the binary that SARA_BINARY names, or this one.
func program(t *testing.T) string {
	t.Helper()
	if os.Getenv("SARA_BINARY") != "" {
		return saratest.Binary(t)
	}
	this, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), console.ProgramName)
	if err := os.Symlink(this, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestProcess runs sara as a user does. Go starts parallel tests from the first one and then from the last ones, so those that wait longest
// are there: most tests hardly need the processor, and one that starts late ends late.
func TestProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts dozens of processes")
	}
	t.Parallel()
	binary := program(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, string)
	}{
		{"replicas share their budgets", testReplicas},
		{"wrong usage", testWrongUsage},
		{"a default that cannot be used", testUnusableDefault},
		{"a database that cannot be written", testReadOnlyDatabase},
		{"a folder that cannot be written", testUnwritableFolder},
		{"its memory is protected", testMemoryIsProtected},
		{"mcp ends with its input or by an interrupt", testMCPEnds},
		{"a trace arrives", testTraceArrives},
		{"serve reports to systemd", testNotifies},
		{"serve with a moved clock", testClock},
		{"a restart keeps the counts of the day", testRestartKeepsTheDay},
		{"a restore refuses a database that a server uses", testRestoreBesideServer},
		{"a second signal ends it at once", testSecondSignal},
		{"a small heap may grow", testHeapGoal},
		{"an archive that refuses", testArchiveRefuses},
		{"serve", testServe},
		{"serve inspects", testServeInspects},
		{"serve stops during an inspection", testServeStopsInspecting},
		{"agents lose a revoked key", testMCPRevoked},
		{"not ready while draining", testDrain},
		{"serve collects", testServeCollects},
		{"a killed collector resumes", testCollectKilled},
		{"a killed inspector resumes", testInspectKilled},
		{"inspection results are served", testInspectServed},
		{"an outage of one Redis leaves the other", testSeparateRedis},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, binary)
		})
	}
}

// TestProcessWithPostgreSQL runs sara on databases of one PostgreSQL server, which starts before all parallel tests: those of it wait longest.
func TestProcessWithPostgreSQL(t *testing.T) {
	postgres := pgtest.Start(t)
	t.Parallel()
	binary := program(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, string, *pgtest.Server)
	}{
		{"a replica starts without it", testColdStart},
		{"removals and rotations take effect on all replicas", testRemoveTakesEffect},
		{"the secret key is changed under load", testSecretKeyRotation},
		{"the archive and the database are restored", testRestoreDrill},
		{"a restore refuses a database that a server uses", testRestoreBesideReplica},
		{"secrets do not leak", testSecretsDoNotLeak},
		{"a replica starts without it and a snapshot", testColdStartRefused},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, binary, postgres)
		})
	}
}

func testWrongUsage(t *testing.T, binary string) {
	err := exec.Command(binary, "frobnicate").Run()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != command.ExitUsage {
		t.Errorf("sara frobnicate: %v, want status %d", err, command.ExitUsage)
	}
}

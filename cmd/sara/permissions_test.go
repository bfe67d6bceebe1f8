package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/internal/command"
)

// A restricted is a folder in which commands run as a user that is not root, whom permissions do not bind.
type restricted struct {
	t       *testing.T
	program string
}

func (r *restricted) run(args ...string) (status int, said string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), clitest.Hurry)
	defer cancel()
	sara := asUser(exec.CommandContext(ctx, r.program, args...))
	sara.Dir, sara.Env = filepath.Dir(r.program), []string{"SARA_COLLECT=off", "SARA_INSPECT=off"}
	out, err := sara.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		r.t.Fatal(err)
	}
	return sara.ProcessState.ExitCode(), string(out)
}

func (r *restricted) fails(args []string, want ...string) {
	r.t.Helper()
	status, said := r.run(args...)
	if status != command.ExitError {
		r.t.Errorf("sara %v ends with %d, want %d", args, status, command.ExitError)
	}
	for _, part := range want {
		if !strings.Contains(said, part) {
			r.t.Errorf("sara %v: the error lacks %q:\n%s", args, part, said)
		}
	}
}

// SQLite opens a file that it may only read, so a server would run and lose what it counts. Commands that only read still work.
func testReadOnlyDatabase(t *testing.T, binary string) {
	r := &restricted{t, publicCopy(t, binary)}
	if status, said := r.run("account", "add", "Acme", "--plan", "pro"); status != 0 {
		t.Fatal(said)
	}
	file := filepath.Join(filepath.Dir(r.program), "sara-data", "sara.db")
	if err := os.Chmod(file, 0o400); err != nil {
		t.Fatal(err)
	}
	for _, args := range clitest.Preflights() {
		r.fails(args, "sara: SARA_DATABASE_URL (by default): sqlite:sara-data/sara.db: the file cannot be written: permission denied; "+
			"let this user write there, or name another file")
	}
	r.fails([]string{"workspace", "add", "Acme", "Main"}, "sara: SARA_DATABASE_URL (by default): sqlite:sara-data/sara.db: ",
		"readonly database", "this user must be able to read and write the file and its folder")
	if status, said := r.run("account", "list"); status != 0 || !strings.Contains(said, "Acme") {
		t.Errorf("sara account list ends with %d:\n%s", status, said)
	}
	if _, said := r.run("status"); !strings.Contains(said, "0 of 0 connections work.") {
		t.Errorf("sara status does not read the database:\n%s", said)
	}
}

// The default folder is below the working directory, which may be that of another user. Every command names the remedy.
func testUnwritableFolder(t *testing.T, binary string) {
	r := &restricted{t, publicCopy(t, binary)}
	if err := os.Chmod(filepath.Dir(r.program), 0o555); err != nil {
		t.Fatal(err)
	}
	const remedy = "permission denied; let this user write there, or name another "
	for _, args := range append(clitest.Preflights(), []string{"account", "add", "Acme", "--plan", "pro"}) {
		r.fails(args, "sara: SARA_DATABASE_URL (by default): ", remedy+"file, such as sqlite:sara-data/sara.db")
	}
	r.fails([]string{"serve", "--check"}, "sara: SARA_ARCHIVE_URL (by default): ", remedy+"folder, such as sara-data/archive")
}

package service

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// While usage cannot be saved, a restart would grant it again: the server is degraded, and the log says so once.
func TestUnsavedUsageIsAProblemUntilItIsSaved(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	saves := &usageSaves{log: slog.New(slog.NewTextHandler(&log, nil))}
	for _, step := range []struct {
		err     error
		problem string
		logged  int
	}{
		{nil, "", 0},
		{errors.New("the disk is full"), "the disk is full", 1},
		{errors.New("I/O error"), "I/O error", 1},
		{nil, "", 1},
		{errors.New("I/O error"), "I/O error", 2},
	} {
		saves.note(step.err)
		problem, logged := saves.problem(), strings.Count(log.String(), "level=ERROR")
		if !strings.HasSuffix(problem, step.problem) || (problem == "") != (step.problem == "") || logged != step.logged {
			t.Errorf("after %v: %q, and %d lines are logged, want %q and %d", step.err, problem, logged, step.problem, step.logged)
		}
	}
}

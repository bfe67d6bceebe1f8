package backend

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"sara/cmd/sara/internal/settings"
)

// SQLite says this, by numbers that few know: the first is a full disk too (SQLITE_IOERR_SHMSIZE), the last a file of another user.
func TestErrorsOfSQLiteNameTheFix(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"disk I/O error (4874)": "free space", "database or disk is full (13)": "free space",
		"unable to open database file (14)": "run the command as the user of the server",
	} {
		err := fmt.Errorf("reach the SQLite database: %w", errors.New(text))
		if fix := databaseFix(err); !strings.Contains(fix, want) {
			t.Errorf("the fix of %q is %q", text, fix)
		}
	}
}

// Who interrupts a command while it opens the database reads "interrupted", as command.Run says for this error, and not of a wrong setting.
func TestAnInterruptionIsNoErrorOfTheDatabase(t *testing.T) {
	t.Parallel()
	err := databaseError(settings.Database{}, fmt.Errorf("reach the SQLite database: %w", context.Canceled))
	if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "SARA_DATABASE_URL") {
		t.Errorf("the error is %v", err)
	}
}

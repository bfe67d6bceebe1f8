package backend

import (
	"errors"
	"fmt"
	"strings"
	"testing"
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

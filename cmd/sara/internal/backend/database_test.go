package backend

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// SQLite says this on a full disk, by a number that few know (SQLITE_IOERR_SHMSIZE).
func TestDiskErrorNamesTheFix(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("reach the SQLite database: %w", errors.New("disk I/O error (4874)"))
	if fix := databaseFix(err); !strings.Contains(fix, "free space") {
		t.Errorf("the fix is %q", fix)
	}
}

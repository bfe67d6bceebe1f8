package backend

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"testing"

	"sara/cmd/sara/internal/settings"
)

// A server starts without what does not answer, since waiting may fix that. It does not start with a folder or a file that refuses.
func TestAFolderThatRefusesIsNotUnavailable(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	file := func(number syscall.Errno) error { return &fs.PathError{Op: "open", Path: "x", Err: number} }
	for _, test := range []struct {
		err                              error
		archiveUnavailable, databaseAway bool
		archive, database                string // parts of the fixes
	}{
		{refused, true, true, "check that the store runs", "check that PostgreSQL runs"},
		{&net.DNSError{Err: "no such host", Name: "store"}, true, true, "check that the store runs", "check that PostgreSQL runs"},
		{file(syscall.EACCES), false, false, "let this user write there", "let this user write there"},
		{file(syscall.ENAMETOOLONG), false, false, "", ""},
		{file(syscall.ENOENT), false, false, "", ""},
		{file(syscall.ENOSPC), true, false, "free space", "free space"},
		{file(syscall.EIO), true, false, "no errors", "no errors"},
	} {
		err := fmt.Errorf("check: %w", test.err)
		archive, database := attributeToArchive(settings.LocalArchive("a"), err), databaseError(settings.SQLite("a"), err)
		if got := errors.As(archive, new(*UnavailableError)); got != test.archiveUnavailable {
			t.Errorf("the archive is unavailable with %v: %t, want %t", test.err, got, test.archiveUnavailable)
		}
		if got := errors.As(database, new(*UnavailableError)); got != test.databaseAway {
			t.Errorf("the database is away with %v: %t, want %t", test.err, got, test.databaseAway)
		}
		for _, fix := range []struct{ got, want string }{{archiveFix(err), test.archive}, {databaseFix(err), test.database}} {
			if !strings.Contains(fix.got, fix.want) || fix.want == "" && fix.got != "" {
				t.Errorf("the fix of %v is %q, want %q", test.err, fix.got, fix.want)
			}
		}
	}
}

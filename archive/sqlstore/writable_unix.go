//go:build unix

package sqlstore

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// CheckWritable returns an error if this process may not write to a store's SQLite file. SQLite itself opens such a file, and refuses
// only writes. The file is not opened: closing it would release the POSIX locks that SQLite holds on it in this process.
func CheckWritable(path string) error {
	if err := unix.Access(path, unix.W_OK); err != nil {
		return fmt.Errorf("the file cannot be written: %w", err)
	}
	return nil
}

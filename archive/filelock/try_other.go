//go:build !unix

package filelock

import (
	"errors"
	"os"
)

// Try returns errors.ErrUnsupported: files are not locked on this system.
func Try(*os.File) (bool, error) { return false, errors.ErrUnsupported }

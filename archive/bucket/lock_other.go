//go:build !unix

package bucket

import (
	"errors"
	"os"
)

func tryLock(*os.File) (bool, error) {
	return false, errors.New("a folder cannot be locked on this system: use an s3:// bucket")
}

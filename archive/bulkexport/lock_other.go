//go:build !unix

package bulkexport

import "os"

// tryLock does nothing where there are no advisory locks.
func tryLock(*os.File) error { return nil }

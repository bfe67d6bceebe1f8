//go:build !unix

package sqlstore

// FileInUse is not known where there are no locks of POSIX.
func FileInUse(string) (inUse bool, err error) { return false, nil }

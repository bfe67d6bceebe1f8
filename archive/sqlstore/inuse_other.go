//go:build !unix

package sqlstore

// FileInUse always returns false where there are no POSIX locks.
func FileInUse(string) (inUse bool, err error) { return false, nil }

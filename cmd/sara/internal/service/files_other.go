//go:build !unix

package service

// OpenFiles returns 0: there is no limit.
func OpenFiles() int { return 0 }

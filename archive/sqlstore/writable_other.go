//go:build !unix

package sqlstore

// CheckWritable always returns nil where there is no access(2).
func CheckWritable(string) error { return nil }

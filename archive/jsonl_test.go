package archive

import (
	"errors"
	"testing"
)

// A cutFile ends with a disk error.
type cutFile string

var errDisk = errors.New("the disk fails")

func (f cutFile) ReadAt(p []byte, at int64) (n int, err error) {
	if at < int64(len(f)) {
		n = copy(p, f[at:])
	}
	if n < len(p) {
		err = errDisk
	}
	return n, err
}

// A line that is cut off by a read error is not reported as an invalid record.
func TestReadRecordsReturnsTheErrorOfTheDisk(t *testing.T) {
	const line = `{"date":"2024-01-01","dimension":"total","key":"","clicks":1,"impressions":1,"position":1}` + "\n"
	var last error
	for _, err := range ReadRecords(cutFile(line+line[:20]), 1<<20, JSONL) {
		last = err
	}
	if !errors.Is(last, errDisk) {
		t.Errorf("the error is %v", last)
	}
}

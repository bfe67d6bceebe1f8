package archive

import (
	"errors"
	"fmt"
	"iter"

	"sara/archive/tablefile"
)

// ReadShards reads the records of several files, such as a sharded query export, in any of the formats of package tablefile, with the six
// columns in any order. It is more lenient than ReadRecords: numbers may be text, and extra columns are ignored.
func ReadShards(paths []string) iter.Seq2[FileRecord, error] {
	return func(yield func(FileRecord, error) bool) {
		for _, path := range paths {
			if err := readShard(path, yield); err != nil {
				if !errors.Is(err, errStopped) {
					yield(FileRecord{}, err)
				}
				return
			}
		}
	}
}

func readShard(path string, yield func(FileRecord, error) bool) (err error) {
	file, err := tablefile.Open(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return readTable(file, Place{IsRow: true, File: path}, yield)
}

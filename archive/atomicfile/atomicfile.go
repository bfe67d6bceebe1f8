// Package atomicfile replaces files as a whole: a reader finds either all of the old content or all of the new, even after a crash.
package atomicfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// TemporaryPrefix is the beginning of the names of files that are not complete. Programs that read a folder as one table, such as Spark, skip
// names that begin with a dot. A process that is killed leaves such a file behind: see RemoveAbandoned.
const TemporaryPrefix = ".tmp-"

// RemoveAbandoned removes the temporary files of processes that were killed. Each pattern is one of fs.Glob, for directories of root. No other
// process may be writing there.
func RemoveAbandoned(root *os.Root, patterns ...string) error {
	for _, pattern := range patterns {
		found, err := fs.Glob(root.FS(), path.Join(pattern, TemporaryPrefix+"*"))
		if err != nil {
			return err
		}
		for _, name := range found {
			if !isTemporary(path.Base(name)) {
				continue
			}
			if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// isTemporary reports whether Create makes such names. Other files may begin with the prefix, too.
func isTemporary(name string) bool {
	text := strings.TrimPrefix(name, TemporaryPrefix)
	return len(text) == len(rand.Text()) && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// Replace replaces a file of root, or creates it, with the output of write. Only its owner can read it. If Replace fails, the file is what it
// was, and no other is left. The new content is on the disk before it gets the name, but the name itself may not be: after a crash, the old
// file may be back, unless the caller has synced the directory.
func Replace(root *os.Root, name string, write func(io.Writer) error) error {
	temporary, err := Create(root, path.Dir(name), write)
	if err != nil {
		return err
	}
	if err := root.Rename(temporary, name); err != nil {
		return errors.Join(fmt.Errorf("replace %s: %w", filepath.Join(root.Name(), name), err), root.Remove(temporary))
	}
	return nil
}

// Create writes the output of write into a new file of a directory, syncs it, and returns its temporary name, which the caller renames. It is
// for callers who change more than the content; all others use Replace.
func Create(root *os.Root, directory string, write func(io.Writer) error) (temporary string, err error) {
	temporary = path.Join(directory, TemporaryPrefix+rand.Text())
	file, err := root.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", fmt.Errorf("create a file in %s: %w", filepath.Join(root.Name(), directory), err)
	}
	err = write(file)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, root.Remove(temporary))
	}
	return temporary, nil
}

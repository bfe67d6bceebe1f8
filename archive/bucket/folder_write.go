package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"sara/archive/atomicfile"
	"sara/archive/filelock"
)

// withLock runs change under the lock on the directory of the object, which it creates if necessary.
func (f *folder) withLock(ctx context.Context, name string, change func(root *os.Root, dir *os.File) error) error {
	root, err := os.OpenRoot(f.root)
	if err != nil {
		return err
	}
	defer closeRead(root)
	parent := path.Dir(name)
	if err := makeDurable(root, parent); err != nil {
		return err
	}
	dir, err := root.Open(parent)
	if err != nil {
		return err
	}
	defer closeRead(dir) // releases the lock
	if err := lock(ctx, dir); err != nil {
		return err
	}
	if err := removeAbandoned(root, dir, parent); err != nil {
		return err
	}
	return change(root, dir)
}

// lock acquires the lock on a directory, with exponential backoff while another open file holds it.
func lock(ctx context.Context, dir *os.File) error {
	const first, longest = time.Millisecond, 20 * time.Millisecond
	for pause := first; ; pause = min(2*pause, longest) {
		if err := ctx.Err(); err != nil {
			return err
		}
		acquired, err := filelock.Try(dir)
		if errors.Is(err, errors.ErrUnsupported) {
			return errors.New("a folder cannot be locked on this system: use an s3:// bucket")
		}
		if err != nil {
			return fmt.Errorf("lock %s: %w", dir.Name(), err)
		}
		if acquired {
			return nil
		}
		// Polling, because a blocking lock cannot be canceled.
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// makeDurable creates a directory and its parents, and syncs them so that they survive a crash.
func makeDurable(root *os.Root, directory string) error {
	info, err := root.Stat(directory)
	if err == nil && !info.IsDir() {
		return fmt.Errorf("%s is not a directory", directory)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := path.Dir(directory)
	if err := makeDurable(root, parent); err != nil {
		return err
	}
	if err := root.Mkdir(directory, folderMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	above, err := root.Open(parent)
	if err != nil {
		return err
	}
	return errors.Join(above.Sync(), above.Close())
}

func removeAbandoned(root *os.Root, dir *os.File, parent string) error {
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, atomicfile.TemporaryPrefix) {
			if err := root.Remove(path.Join(parent, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// expect returns the state of an object, nil if it does not exist, or ErrChanged if it does not have the revision.
func expect(root *os.Root, name, revision string) (fs.FileInfo, error) {
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && revision == "":
		return nil, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, ErrChanged
	case err != nil:
		return nil, err
	}
	if err := checkFile(info); err != nil {
		return nil, err
	}
	if revisionOf(info) != revision {
		return nil, ErrChanged
	}
	return info, nil
}

// replace writes data in place of the object before, and syncs it, so a crash cannot undo it.
func replace(root *os.Root, dir *os.File, name string, data []byte, before fs.FileInfo) (revision string, err error) {
	temporary, err := atomicfile.Create(root, path.Dir(name), func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
	if err != nil {
		return "", err
	}
	info, err := advanceTime(root, temporary, before)
	if err == nil {
		err = root.Rename(temporary, name)
	}
	if err != nil {
		_ = root.Remove(temporary) // if this fails, the next writer removes it
		return "", err
	}
	return revisionOf(info), dir.Sync()
}

// advanceTime makes the modification time of a file later than that of the file it replaces. The clock of a file system ticks
// only every few milliseconds, and may be set back.
func advanceTime(root *os.Root, name string, before fs.FileInfo) (fs.FileInfo, error) {
	info, err := root.Stat(name)
	if err != nil || before == nil {
		return info, err
	}
	// Some file systems store times to the microsecond, some to two seconds.
	for _, step := range []time.Duration{time.Nanosecond, time.Microsecond, 2 * time.Second} {
		if info.ModTime().After(before.ModTime()) {
			return info, nil
		}
		next := before.ModTime().Add(step)
		if err := root.Chtimes(name, next, next); err != nil {
			return nil, err
		}
		if info, err = root.Stat(name); err != nil {
			return nil, err
		}
	}
	if !info.ModTime().After(before.ModTime()) {
		return nil, errors.New("the file system does not store modification times")
	}
	return info, nil
}

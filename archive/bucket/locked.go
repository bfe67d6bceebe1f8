package bucket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"
)

// locked runs change while it holds the lock on the directory of the object, which it makes if need be.
func (f *folder) locked(ctx context.Context, name string, change func(root *os.Root, dir *os.File) error) error {
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
	defer closeRead(dir) // which gives the lock back
	if err := lock(ctx, dir); err != nil {
		return err
	}
	if err := removeAbandoned(root, dir, parent); err != nil {
		return err
	}
	return change(root, dir)
}

// lock waits until no other open file holds the lock on the same directory.
func lock(ctx context.Context, dir *os.File) error {
	const first, longest = time.Millisecond, 20 * time.Millisecond
	for pause := first; ; pause = min(2*pause, longest) {
		if err := ctx.Err(); err != nil {
			return err
		}
		taken, err := tryLock(dir)
		if err != nil {
			return fmt.Errorf("lock %s: %w", dir.Name(), err)
		}
		if taken {
			return nil
		}
		// A blocking lock could not be given up when ctx ends.
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// makeDurable makes a directory and those above it, so that they outlive a crash.
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
	if err := root.Mkdir(directory, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	above, err := root.Open(parent)
	if err != nil {
		return err
	}
	return errors.Join(above.Sync(), above.Close())
}

const temporaryPrefix = ".tmp-"

func removeAbandoned(root *os.Root, dir *os.File, parent string) error {
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, temporaryPrefix) {
			if err := root.Remove(path.Join(parent, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// expect returns the state of an object, nil for none, or ErrChanged if it is not the one that revision stands for.
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

// replace puts data in the place of the object before, and returns when a crash can no longer undo it.
func replace(root *os.Root, dir *os.File, name string, data []byte, before fs.FileInfo) (revision string, err error) {
	// The lock makes the name unique.
	temporary := path.Join(path.Dir(name), temporaryPrefix+path.Base(name))
	defer func() {
		if err != nil {
			_ = root.Remove(temporary) // whoever takes the lock next removes what is left
		}
	}()
	file, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return "", err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return "", err
	}
	info, err := later(root, temporary, before)
	if err != nil {
		return "", err
	}
	if err := root.Rename(temporary, name); err != nil {
		return "", err
	}
	return revisionOf(info), dir.Sync()
}

// later makes sure that a file is younger than the one it replaces: the clock of the file system ticks every few
// milliseconds and may be set back.
func later(root *os.Root, name string, before fs.FileInfo) (fs.FileInfo, error) {
	info, err := root.Stat(name)
	if err != nil || before == nil {
		return info, err
	}
	// Some file systems keep times to the microsecond, some to two seconds.
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
		return nil, errors.New("the file system does not keep modification times")
	}
	return info, nil
}

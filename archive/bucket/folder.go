package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// A folder keeps every object in a file of its own. A writer holds an advisory lock on the directory of the object, writes
// a temporary file beside it, and renames it into place, so that readers need no lock. Temporary files start with a dot,
// which no object's name does; one that is there while nobody else holds the lock was left by a writer that died.
// Directories stay when they have become empty, because a lock on a directory that is gone would guard nothing.
//
// An object's revision is its modification time and its size. Every write makes the time later than it was, so an object
// never has the same revision twice, and a listing reads no object.
type folder struct {
	root string
}

var _ Bucket = (*folder)(nil)

func openFolder(root string) (Bucket, error) {
	if root == "" {
		return nil, errors.New("open bucket: the path of the folder is empty")
	}
	absolute, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("open bucket: %w", err)
	}
	if err := os.MkdirAll(absolute, 0o755); err != nil {
		return nil, fmt.Errorf("open bucket: %w", err)
	}
	return &folder{root: absolute}, nil
}

func (f *folder) Get(ctx context.Context, name string) (data []byte, revision string, err error) {
	defer func() { err = attempt("get", name, err) }()
	if err := errors.Join(ctx.Err(), checkName(name)); err != nil {
		return nil, "", err
	}
	root, err := os.OpenRoot(f.root)
	if err != nil {
		return nil, "", err
	}
	defer closeRead(root)
	file, err := root.Open(name)
	if err != nil {
		return nil, "", notFound(err)
	}
	defer closeRead(file)
	info, err := file.Stat()
	if err != nil {
		return nil, "", err
	}
	if err := checkFile(info); err != nil {
		return nil, "", err
	}
	// The file is never written again: what replaces it is another one.
	data = make([]byte, info.Size())
	if _, err := io.ReadFull(file, data); err != nil {
		return nil, "", err
	}
	return data, revisionOf(info), nil
}

func (f *folder) Put(ctx context.Context, name string, data []byte, revision string) (written string, err error) {
	err = checkObject(name, data)
	if err == nil {
		err = f.locked(ctx, name, func(root *os.Root, dir *os.File) error {
			before, err := expect(root, name, revision)
			if err != nil {
				return err
			}
			written, err = replace(root, dir, name, data, before)
			return err
		})
	}
	return written, attempt("put", name, err)
}

func (f *folder) Delete(ctx context.Context, name, revision string) error {
	err := checkName(name)
	if err == nil && revision == "" {
		err = ErrChanged // an empty revision stands for an object that does not exist
	}
	if err == nil {
		err = f.locked(ctx, name, func(root *os.Root, dir *os.File) error {
			if _, err := expect(root, name, revision); err != nil {
				return err
			}
			return errors.Join(root.Remove(name), dir.Sync())
		})
	}
	return attempt("delete", name, err)
}

func (f *folder) List(ctx context.Context, prefix string) ([]Entry, error) {
	if prefix != "" {
		if err := checkName(strings.TrimSuffix(prefix, "/")); err != nil {
			return nil, attempt("list", prefix, err)
		}
	}
	root, err := os.OpenRoot(f.root)
	if err != nil {
		return nil, attempt("list", prefix, err)
	}
	defer closeRead(root)
	within := "."
	if cut := strings.LastIndexByte(prefix, '/'); cut > 0 {
		within = prefix[:cut]
	}
	var entries []Entry
	err = fs.WalkDir(root.FS(), within, func(name string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile, or nothing has this prefix
			return nil
		case err != nil:
			return err
		case d.IsDir() && name != within && (!isPrefixOf(prefix, name+"/") || d.Name()[0] == '.'):
			return fs.SkipDir
		case !d.Type().IsRegular() || !strings.HasPrefix(name, prefix) || d.Name()[0] == '.':
			return nil
		}
		info, err := d.Info()
		if err == nil {
			entries = append(entries, Entry{Name: name, Revision: revisionOf(info), Size: info.Size()})
		}
		return notExistIsNil(err)
	})
	if err != nil {
		return nil, attempt("list", prefix, err)
	}
	// The walk goes by directory, where a.b comes after a/b.
	sortEntries(entries)
	return entries, nil
}

// isPrefixOf reports whether a directory may hold objects that start with the prefix.
func isPrefixOf(prefix, directory string) bool {
	return strings.HasPrefix(directory, prefix) || strings.HasPrefix(prefix, directory)
}

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

func checkFile(info fs.FileInfo) error {
	switch {
	case !info.Mode().IsRegular():
		return errors.New("it is not a regular file")
	case info.Size() > MaxObject:
		return fmt.Errorf("it has %d bytes: at most %d are allowed", info.Size(), MaxObject)
	}
	return nil
}

func revisionOf(info fs.FileInfo) string {
	return fmt.Sprintf("%x-%x", info.ModTime().UnixNano(), info.Size())
}

func notFound(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNotFound
	}
	return err
}

func notExistIsNil(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// closeRead closes what was only read from, where there is nothing to lose.
func closeRead(c io.Closer) { _ = c.Close() }

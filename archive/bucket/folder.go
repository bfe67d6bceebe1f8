package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A folder keeps every object in its own file. Writes are copy-on-write: under an advisory lock on the object's directory,
// a writer writes a temporary file and renames it into place, so readers need no lock. Temporary files, unlike objects, start
// with a dot; any found under the lock was left by a writer that died. Empty directories are kept, because a lock
// on a removed directory has no effect. Only the user of the process can read what it creates.
//
// An object's revision is its modification time and its size. Every overwrite advances the time, so a revision is not reused
// while the object exists, and a listing need not read the objects. An object that is deleted and written again with
// the same size, before the file system's clock has ticked, may get its old revision.
type folder struct {
	root string
}

var _ Bucket = (*folder)(nil)

const folderMode = 0o700

func openFolder(root string) (Bucket, error) {
	if root == "" {
		return nil, errors.New("open bucket: the path of the folder is empty")
	}
	absolute, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("open bucket: %w", err)
	}
	if err := os.MkdirAll(absolute, folderMode); err != nil {
		return nil, fmt.Errorf("open bucket: %w", err)
	}
	return &folder{root: absolute}, nil
}

func (f *folder) Get(ctx context.Context, name string) (data []byte, revision string, err error) {
	defer attempt("get", name, &err)
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
	// The open file never changes: a write replaces it with another file.
	data = make([]byte, info.Size())
	if _, err := io.ReadFull(file, data); err != nil {
		return nil, "", err
	}
	return data, revisionOf(info), nil
}

func (f *folder) Put(ctx context.Context, name string, data []byte, revision string) (written string, err error) {
	defer attempt("put", name, &err)
	if err := checkObject(name, data); err != nil {
		return "", err
	}
	err = f.withLock(ctx, name, func(root *os.Root, dir *os.File) error {
		before, err := expect(root, name, revision)
		if err != nil {
			return err
		}
		written, err = replace(root, dir, name, data, before)
		return err
	})
	if errors.Is(err, ErrChanged) {
		return writtenAlready(ctx, f, name, data)
	}
	return written, err
}

func (f *folder) Delete(ctx context.Context, name, revision string) (err error) {
	defer attempt("delete", name, &err)
	if err := checkName(name); err != nil {
		return err
	}
	if revision == "" {
		return ErrChanged // an empty revision means that the object does not exist
	}
	return f.withLock(ctx, name, func(root *os.Root, dir *os.File) error {
		if _, err := expect(root, name, revision); err != nil {
			return err
		}
		return errors.Join(root.Remove(name), dir.Sync())
	})
}

func (f *folder) List(ctx context.Context, prefix string) (_ []Entry, err error) {
	defer attempt("list", prefix, &err)
	if err := checkPrefix(prefix); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(f.root)
	if err != nil {
		return nil, err
	}
	defer closeRead(root)
	within := "."
	if cut := strings.LastIndexByte(prefix, '/'); cut > 0 {
		within = prefix[:cut]
	}
	w := walk{ctx: ctx, within: within, prefix: prefix}
	if err := fs.WalkDir(root.FS(), within, w.visit); err != nil {
		return nil, err
	}
	// The walk is ordered by directory: it visits a/b before a.b.
	sortEntries(w.entries)
	return w.entries, nil
}

// walk collects the objects under a prefix.
type walk struct {
	ctx            context.Context
	within, prefix string
	entries        []Entry
}

// visit is a fs.WalkDirFunc.
func (w *walk) visit(name string, d fs.DirEntry, err error) error {
	if err == nil {
		err = w.ctx.Err()
	}
	switch {
	case errors.Is(err, fs.ErrNotExist): // removed during the walk, or no directory has this prefix
		return nil
	case err != nil:
		return err
	case d.IsDir() && name != w.within && (checkName(name) != nil || !mayHold(name+"/", w.prefix)):
		return fs.SkipDir
	case !d.Type().IsRegular() || checkName(name) != nil || !strings.HasPrefix(name, w.prefix):
		return nil // not an object of ours, such as a temporary file
	}
	info, err := d.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		w.entries = append(w.entries, Entry{Name: name, Revision: revisionOf(info), Size: info.Size()})
	}
	return err
}

// mayHold reports whether a directory may contain objects with the prefix.
func mayHold(directory, prefix string) bool {
	return strings.HasPrefix(directory, prefix) || strings.HasPrefix(prefix, directory)
}

func checkFile(info fs.FileInfo) error {
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: it is not a regular file", ErrUnusable)
	case info.Size() > MaxObject:
		return fmt.Errorf("%w: it has %d bytes, and at most %d are allowed", ErrUnusable, info.Size(), MaxObject)
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

// closeRead closes a file opened for reading, where an error loses nothing.
func closeRead(c io.Closer) { _ = c.Close() }

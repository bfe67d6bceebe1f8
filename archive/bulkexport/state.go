package bulkexport

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"sara/archive/atomicfile"
	"sara/archive/filelock"
	"sara/translate"
)

// A fileID identifies a file and whether it has changed.
type fileID struct {
	Path     string `json:"path"`
	Size     int64  `json:"size"`
	Modified int64  `json:"modified"` // in nanoseconds since 1970
}

func identify(path string) (fileID, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return fileID{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return fileID{}, err
	}
	return fileID{Path: path, Size: info.Size(), Modified: info.ModTime().UnixNano()}, nil
}

// Counts are the rows of the files: all, and those that do not belong to this import, each under the first reason that applies.
type Counts struct {
	RowsRead        int64            `json:"rows_read"`
	OtherProperties int64            `json:"other_properties"`
	OtherTypes      int64            `json:"other_types"` // of search, such as images
	TooLate         int64            `json:"too_late"`    // after Options.Until
	Unlogged        int64            `json:"unlogged"`    // of days that the export log lacks
	OtherSites      map[string]int64 `json:"other_sites"` // rows of other properties by their site_url, of the first maxOtherSites
}

const maxOtherSites = 50

// state is the progress of an import. It is stored in the temporary folder, and replaced as a whole when a run is complete.
type state struct {
	Version  int            `json:"version"`
	Property string         `json:"property"`
	Site     string         `json:"site"`
	Until    translate.Date `json:"until"`
	Log      *fileID        `json:"log"`
	Replace  bool           `json:"replace"`

	Done     []fileID `json:"done"`    // files whose rows are all in the runs
	Current  *partial `json:"current"` // the file that was being read
	Runs     []run    `json:"runs"`
	NextRun  int      `json:"next_run"`
	Counts   Counts   `json:"counts"`
	SiteDays days     `json:"site_days"` // that the tables have rows of the property for
	URLDays  days     `json:"url_days"`

	Months map[string]monthResult `json:"months"` // archived
}

// partial is a file whose first rows are in the runs.
type partial struct {
	fileID
	Rows int64 `json:"rows"`
}

const (
	stateVersion = 1
	stateFile    = "state.json"
)

// folder is the temporary folder of one property.
type folder struct {
	path string
	lock *os.File
}

// openFolder creates the folder unless it exists, and locks it. It tries again when another import deletes the folder meanwhile.
func openFolder(path string) (*folder, error) {
	const attempts = 100
	var lock *os.File
	var err error
	for range attempts {
		lock, err = lockFolder(path)
		if err == nil {
			return &folder{path: path, lock: lock}, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return nil, err
}

// lockFolder returns the locked file of a folder. The error is fs.ErrNotExist, or fs.ErrExist, if another import deletes the folder meanwhile.
func lockFolder(path string) (_ *os.File, err error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	switch taken, err := filelock.Try(lock); {
	case errors.Is(err, errors.ErrUnsupported): // then nothing is locked
	case err != nil:
		return nil, fmt.Errorf("lock %s: %w", path, err)
	case !taken:
		return nil, fmt.Errorf("%s: another import of this property is running", path)
	}
	// The lock of a file that was deleted in between keeps nobody out: the next import locks a new file.
	locked, err := lock.Stat()
	if err != nil {
		return nil, err
	}
	present, err := os.Stat(lock.Name())
	if err == nil && !os.SameFile(locked, present) {
		err = fs.ErrNotExist
	}
	return lock, err
}

func (f *folder) file(name string) string { return filepath.Join(f.path, name) }

func (f *folder) close() error { return f.lock.Close() }

// remove deletes the folder, and its lock last: as soon as that is gone, another import can use the folder, which then stays.
func (f *folder) remove() error {
	if err := errors.Join(f.clean(nil), os.Remove(f.lock.Name())); err != nil {
		return err
	}
	if err := os.Remove(f.path); !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// load returns the state of an interrupted import if it has the same files and its runs are still there, and otherwise that of a new
// import. It deletes what is left of others.
func (f *folder) load(fresh *state, files []fileID) (*state, error) {
	old := &state{}
	text, err := os.ReadFile(f.file(stateFile))
	if err == nil && json.Unmarshal(text, old) == nil && old.continues(fresh, files) && f.has(old.Runs) {
		if old.Replace != fresh.Replace || len(old.Done) < len(files) {
			old.Replace, old.Months = fresh.Replace, nil
		}
		return old, f.clean(old.Runs)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return fresh, f.clean(nil)
}

// has reports whether the folder still has the runs as they were written. Cache folders may be cleaned up file by file.
func (f *folder) has(runs []run) bool {
	return !slices.ContainsFunc(runs, func(r run) bool {
		info, err := os.Stat(f.file(r.Name))
		return err != nil || info.Size() != r.size()
	})
}

// continues reports whether an import of the files can resume from the state. Its last day stays, even if a later one is available by now.
func (s *state) continues(fresh *state, files []fileID) bool {
	sameLog := s.Log == nil && fresh.Log == nil || s.Log != nil && fresh.Log != nil && *s.Log == *fresh.Log
	if s.Version != fresh.Version || s.Property != fresh.Property || s.Site != fresh.Site || !sameLog || s.Until > fresh.Until {
		return false
	}
	if s.Current != nil && !slices.Contains(files, s.Current.fileID) {
		return false
	}
	return !slices.ContainsFunc(s.Done, func(id fileID) bool { return !slices.Contains(files, id) })
}

// clean deletes all files of the folder except the runs that are in use.
func (f *folder) clean(used []run) error {
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		inUse := len(used) > 0 && e.Name() == stateFile || e.Name() == filepath.Base(f.lock.Name()) ||
			slices.ContainsFunc(used, func(r run) bool { return r.Name == e.Name() })
		if inUse || e.IsDir() {
			continue
		}
		if err := os.Remove(f.file(e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// save replaces the state. After a crash the one before may be back; if its runs are gone by then, the import starts over.
func (f *folder) save(s *state) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(f.path)
	if err != nil {
		return err
	}
	err = atomicfile.Replace(root, stateFile, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	return errors.Join(err, root.Close())
}

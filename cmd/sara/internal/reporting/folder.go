package reporting

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"sara/archive/atomicfile"
	"sara/archive/filelock"
)

// saveEvery is the interval at which the record is written during a run: a killed run loses what it recorded within this time.
const saveEvery = 2 * time.Second

// A Mode is how a report treats a folder that has files.
type Mode int

// The modes.
const (
	New     Mode = iota // an error
	Resume              // keep the files of the same report
	Replace             // remove the files of the report before
)

// Folder is the place of a report.
type Folder struct {
	Path string

	mode  Mode
	root  *filelock.Folder // nothing is written outside
	mu    sync.Mutex
	saved time.Time
}

// IsEmpty reports whether a folder has no files, or does not exist.
func IsEmpty(path string) (bool, error) {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return len(entries) == 0, err
}

// OpenFolder opens a folder, and makes it if it does not exist. It is an error if another run is writing into it: their files would be mixed. The
// caller closes the folder.
func OpenFolder(path string, mode Mode) (*Folder, error) {
	root, err := filelock.OpenFolder(path)
	if err != nil {
		return nil, err
	}
	if err := atomicfile.RemoveAbandoned(root.Root, ".", "*"); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &Folder{Path: path, mode: mode, root: root}, nil
}

// Close closes the folder.
func (f *Folder) Close() error { return f.root.Close() }

// begin returns the record that a run continues, or a new one.
func (f *Folder) begin(q Question) (*record, error) {
	made := &record{Question: q, Files: []fileRecord{}, Failed: []fileRecord{}, Missing: []fileRecord{}, Properties: []Property{}}
	if f.mode != Resume {
		return made, nil
	}
	before, err := f.read()
	if errors.Is(err, fs.ErrNotExist) {
		return made, nil
	}
	if err != nil {
		return nil, err
	}
	if before.Question.String() != q.String() {
		return nil, fmt.Errorf("%s has another report, of %s: name another folder, or replace it with --replace", f.Path, before.Question)
	}
	return before, nil
}

// String describes the question as the flags that ask it.
func (q Question) String() string {
	text := "--date-range " + q.Preset
	if q.Preset == "" {
		text = "--from " + q.From + " --to " + q.To
	}
	selection := "--all"
	if len(q.Select) > 0 {
		selection = strings.Join(q.Select, " ")
	}
	return fmt.Sprintf("%s --compare %s --limit %d --format %s %s", text, q.Compare, q.Limit, q.Format, selection)
}

func (f *Folder) read() (*record, error) {
	text, err := f.root.ReadFile(recordFile)
	if err != nil {
		return nil, err
	}
	r := new(record)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s is not the record of a report: %w", path.Join(f.Path, recordFile), err)
	}
	return r, nil
}

// has reports whether a file need not be written: it is there, and whole.
func (f *Folder) has(r *record, name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := func(file fileRecord) bool { return file.File == name }
	if !slices.ContainsFunc(r.Files, of) || slices.ContainsFunc(r.Failed, of) {
		return false
	}
	_, err := f.root.Stat(name)
	return err == nil
}

// replace removes the files of the report that was in the folder before, so that none of them stays beside those of the new one, and then its
// record: with it, a run that resumes this one would take new files for old ones. It is called when the new one has begun.
func (f *Folder) replace() error {
	if f.mode != Replace {
		return nil
	}
	before, err := f.read()
	if err != nil {
		return nil // no record, or none of ours: the files of the same names are overwritten
	}
	for _, file := range append(before.Files, fileRecord{File: notesFile}, fileRecord{File: recordFile}) {
		if err := f.root.Remove(file.File); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return &fileError{err}
		}
	}
	return nil
}

// A fileError is a failure to write, which ends the run.
type fileError struct{ err error }

func (e *fileError) Error() string { return e.err.Error() }
func (e *fileError) Unwrap() error { return e.err }

// write atomically replaces a file with rows.
func (f *Folder) write(name string, format Format, columns []string, rows [][]byte) error {
	return f.replaceFile(name, func(w io.Writer) error { return writeRows(w, format, columns, rows) })
}

// replaceFile atomically replaces a file with the output of write, which only its owner can read, and makes its folder.
func (f *Folder) replaceFile(name string, write func(io.Writer) error) error {
	if folder := path.Dir(name); folder != "." {
		if err := f.root.MkdirAll(folder, 0o700); err != nil {
			return err
		}
	}
	return atomicfile.Replace(f.root.Root, name, write)
}

// saveSometimes saves the record unless that was done a moment ago.
func (f *Folder) saveSometimes(r *record, now time.Time) error {
	f.mu.Lock()
	due := now.Sub(f.saved) >= saveEvery
	f.mu.Unlock()
	if !due {
		return nil
	}
	return f.save(r, now)
}

// save writes the record, and the notes.
func (f *Folder) save(r *record, now time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	f.saved = now
	return errors.Join(f.replaceFile(recordFile, r.writeTo), f.replaceFile(notesFile, r.writeNotes))
}

func (r *record) writeTo(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	return encoder.Encode(r)
}

// writeNotes writes a line for each file: how complete and how current it is.
func (r *record) writeNotes(w io.Writer) error {
	var rows [][]byte
	for _, list := range []struct {
		state string
		files []fileRecord
	}{{"written", r.Files}, {"failed", r.Failed}, {"missing", r.Missing}} {
		for _, file := range list.files {
			rows = append(rows, prefixed(object(struct {
				State string `json:"state"`
			}{list.state}), string(object(file))))
		}
	}
	slices.SortStableFunc(rows, func(a, b []byte) int {
		return strings.Compare(gjson.GetBytes(a, "file").String(), gjson.GetBytes(b, "file").String())
	})
	columns := []string{"file", "state", "table", "property", "rows", "source", "stale_reason", "truncated_by", "has_more", "notes", "error"}
	return writeCSV(w, columns, rows)
}

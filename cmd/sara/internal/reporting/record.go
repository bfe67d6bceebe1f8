package reporting

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize/english"
)

// recordFile is the record of a folder.
const recordFile = "report.json"

// portfolioTable is the table with a row for each property.
const portfolioTable = "portfolio"

// notesFile is the record as a table, for people with a spreadsheet.
const notesFile = "notes.csv"

// A fileRecord is what is known about one file.
type fileRecord struct {
	File       string `json:"file"`
	Table      string `json:"table"`
	PropertyID string `json:"property_id"` // empty: of all properties
	Property   string `json:"property"`    // its slug
	Rows       int    `json:"rows"`
	meta
	WrittenAt string `json:"written_at"`
	Error     string `json:"error"` // why the file, or in a portfolio the property, has no figures
}

// A record has the question of a report, and its files.
type record struct {
	Question   Question     `json:"question"`
	Range      dates        `json:"date_range"`
	Complete   bool         `json:"complete"`
	Stopped    string       `json:"stopped"`  // why; empty: it ended by itself
	GoOnAt     *string      `json:"go_on_at"` // when a limit resets that stopped it
	Properties []Property   `json:"properties"`
	Files      []fileRecord `json:"files"`   // that are written
	Failed     []fileRecord `json:"failed"`  // and are not written; of a portfolio: properties without figures
	Missing    []fileRecord `json:"missing"` // not tried yet

	mu    sync.Mutex // guards the lists
	until time.Time
}

// same reports whether two are about one file, or in a portfolio about one property.
func (f fileRecord) same(other fileRecord) bool {
	return f.File == other.File && (f.Table != portfolioTable || f.PropertyID == other.PropertyID)
}

func without(list []fileRecord, file fileRecord) []fileRecord {
	return slices.DeleteFunc(list, file.same)
}

// missing records a file that the run is to write.
func (r *record) missing(file fileRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Files, r.Failed = without(r.Files, file), without(r.Failed, file)
	r.Missing = append(without(r.Missing, file), file)
}

func (r *record) wrote(file fileRecord, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	file.WrittenAt = now.UTC().Format(time.RFC3339)
	r.Missing, r.Failed = without(r.Missing, file), without(r.Failed, file)
	if file.Table == portfolioTable {
		r.Failed = slices.DeleteFunc(r.Failed, func(f fileRecord) bool { return f.File == file.File })
	}
	r.Files = append(without(r.Files, file), file)
}

func (r *record) failed(file fileRecord, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	file.Error = err.Error()
	r.Missing = without(r.Missing, file)
	r.Failed = append(without(r.Failed, file), file)
}

// stopped records how the run ended.
func (r *record) stopped(err error, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Stopped, r.GoOnAt = "", nil
	if err != nil {
		r.Stopped = err.Error()
	}
	if limit, ok := errors.AsType[*stopError](err); ok && limit.until.After(now) {
		r.until = limit.until
		r.GoOnAt = new(limit.until.UTC().Format(time.RFC3339))
	}
	r.Complete = len(r.Failed) == 0 && len(r.Missing) == 0 && err == nil
}

// err returns what is wrong with the report; nil if it is complete.
func (r *record) err(stopped error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if stopped == nil && len(r.Failed) == 0 && len(r.Missing) == 0 {
		return nil
	}
	e := &IncompleteError{Missing: slices.Clone(r.Missing), GoOnAt: r.until, Cause: stopped}
	for _, f := range r.Failed {
		if f.Table == portfolioTable {
			e.Properties++
		} else {
			e.Tables++
		}
	}
	return e
}

// A Result is the outcome of a run.
type Result struct {
	Properties int
	Files      int // that are there
	From, To   string
	Failures   []string // a line each
	Notes      []string // what the server says about the portfolio
}

func (r *record) result() *Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	result := &Result{Properties: len(r.Properties), Files: len(r.Files), From: r.Range.Start, To: r.Range.End}
	for _, f := range r.Failed {
		result.Failures = append(result.Failures, fmt.Sprintf("%s, %s: %s", f.Property, f.Table, f.Error))
	}
	for _, f := range r.Files {
		if f.Table == portfolioTable {
			result.Notes = f.Notes
		}
	}
	return result
}

// An IncompleteError is that of a report that lacks files or figures.
type IncompleteError struct {
	Properties int // without figures in the portfolio
	Tables     int // that could not be read
	Missing    []fileRecord
	GoOnAt     time.Time // zero: unknown
	Cause      error     // why the run stopped; nil: it did not
}

func (e *IncompleteError) Unwrap() error { return e.Cause }

// IsRefused reports whether the server refuses the key, or the properties are not its own: trying again is no use.
func (e *IncompleteError) IsRefused() bool {
	refusal, ok := errors.AsType[*APIError](e.Cause)
	_, choice := errors.AsType[*choiceError](e.Cause)
	return choice || ok && refusal.Status < http.StatusInternalServerError && refusal.Status != http.StatusTooManyRequests
}

func (e *IncompleteError) Error() string {
	var parts []string
	if e.Cause != nil {
		parts = append(parts, e.Cause.Error())
	}
	if e.Properties > 0 {
		parts = append(parts, english.Plural(e.Properties, "property has", "properties have")+" no figures in the portfolio")
	}
	if e.Tables > 0 {
		parts = append(parts, english.Plural(e.Tables, "table", "")+" could not be read")
	}
	if len(e.Missing) > 0 {
		parts = append(parts, e.missing())
	}
	return strings.Join(parts, "; ")
}

// missing counts the files that were not tried, by table.
func (e *IncompleteError) missing() string {
	var tables []string
	count := make(map[string]int)
	for _, f := range e.Missing {
		name := cmp.Or(f.Table, f.File)
		if count[name] == 0 {
			tables = append(tables, name)
		}
		count[name]++
	}
	for i, table := range tables {
		if n := count[table]; n > 1 {
			tables[i] = fmt.Sprintf("%s of %s", table, english.Plural(n, "property", ""))
		}
	}
	return english.Plural(len(e.Missing), "file is", "files are") + " missing: " + strings.Join(tables, ", ")
}

// Package reporting writes the figures of many properties into files. It is a client of the public API: each figure comes through a
// server's cache, and is charged to the budgets of the key.
//
// Client sends the requests, and obeys Retry-After: it waits for a limit that resets soon, and stops at one that does not. Run reads the
// portfolio and, for each property, the chosen tables. Folder replaces files atomically, and keeps a record of them (report.json, and
// notes.csv for people), by which a later run resumes. What fails is in the record; all other files are written.
//
// Nothing here shows the key, or writes outside the folder.
package reporting

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"
)

// A Question is what a report is about. The same question in the same folder is the same report.
type Question struct {
	Preset  string `json:"preset"` // empty: From and To
	From    string `json:"from"`   // YYYY-MM-DD
	To      string `json:"to"`
	Compare string `json:"compare"`
	Limit   int    `json:"limit"` // rows of each table
	Format  Format `json:"format"`
	// Select has names, or patterns with a star, in order; empty: all properties of the key.
	Select []string `json:"select"`
}

// Config describes a run.
type Config struct {
	Client *Client
	Question
	Tables   []string // endpoints of a property, such as queries
	Progress Progress
	Now      func() time.Time
}

// Progress learns how far a run is. Several goroutines call it.
type Progress interface {
	Planned(files map[string]int) // how many files each property lacks, by id
	Wrote(p Property, file string)
	Ended(p Property)                                     // all files of the property are tried
	Waiting(server string, until time.Time, reason error) // for a limit
}

// A Property is one of the key's.
type Property struct {
	ID   string `json:"property_id"`
	Slug string `json:"property"`
	Name string `json:"name"`
	Site string `json:"gsc_property"`
}

// workers is how many requests are under way at once: half of the calls to Search Console that a server makes for an account.
const workers = 4

// A run writes one report.
type run struct {
	Config
	folder *Folder
	record *record
}

// Write writes a report into a folder. It returns the record of the files, and an error if any is missing.
func Write(ctx context.Context, c Config, folder *Folder) (*Result, error) {
	r := &run{Config: c, folder: folder}
	var err error
	if r.record, err = folder.begin(c.Question); err != nil {
		return nil, err
	}
	if c.Question.Preset != "" && r.record.Range.Start != "" { // of the run that this one resumes
		r.From, r.To, r.Preset = r.record.Range.Start, r.record.Range.End, ""
	}
	stopped := r.write(ctx)
	if stopped == nil {
		stopped = c.Client.end()
	}
	r.record.stopped(stopped, c.Now())
	if len(r.record.Files) == 0 {
		return nil, r.record.err(stopped)
	}
	return r.record.result(), errors.Join(r.folder.save(r.record, c.Now()), r.record.err(stopped))
}

func (r *run) write(ctx context.Context) error {
	portfolioFile := portfolioTable + "." + r.Format.extension()
	if !r.folder.has(r.record, portfolioFile) {
		p, err := r.portfolio(ctx)
		if err != nil {
			r.record.missing(fileRecord{File: portfolioFile})
			return err
		}
		if err := r.folder.replace(); err != nil {
			return err
		}
		r.record.Properties = p.properties()
		r.record.Range = p.dates
		if err := r.writePortfolio(p, portfolioFile); err != nil {
			return err
		}
	}
	// From here on by dates: a preset would mean other days after midnight.
	r.Preset, r.From, r.To = "", r.record.Range.Start, r.record.Range.End
	return r.writeTables(ctx)
}

// A task is the files that one property lacks.
type task struct {
	Property
	tables []string
	files  []string
}

// tasks returns the files that the folder lacks, by property, with their numbers by property id. It records each as missing until it is
// written.
func (r *run) tasks() (tasks []task, steps map[string]int) {
	names := fileNames(r.record.Properties)
	steps = make(map[string]int)
	for i, p := range r.record.Properties {
		t := task{Property: p}
		for _, table := range r.Tables {
			file := table + "/" + names[i] + "." + r.Format.extension()
			if r.folder.has(r.record, file) {
				continue
			}
			t.tables, t.files = append(t.tables, table), append(t.files, file)
			r.record.missing(fileRecord{File: file, Table: table, PropertyID: p.ID, Property: p.Slug})
		}
		if len(t.tables) > 0 {
			tasks, steps[p.ID] = append(tasks, t), len(t.tables)
		}
	}
	return tasks, steps
}

// writeTables writes the tables of all properties, a few properties at a time, until one error stops the run. Requests under way are then
// still answered: they are charged.
func (r *run) writeTables(ctx context.Context) error {
	tasks, steps := r.tasks()
	if len(tasks) == 0 {
		return nil
	}
	r.Progress.Planned(steps)
	going, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	queue := make(chan task)
	var working sync.WaitGroup
	for range min(workers, len(tasks)) {
		working.Go(func() {
			for t := range queue {
				if going.Err() != nil {
					continue
				}
				if err := r.writeProperty(ctx, t); err != nil {
					stop(err)
				}
			}
		})
	}
	for _, t := range tasks {
		select {
		case queue <- t:
		case <-going.Done():
		}
	}
	close(queue)
	working.Wait()
	return context.Cause(going)
}

// writeProperty writes the tables of one property. It returns only an error that stops the run; others are recorded.
func (r *run) writeProperty(ctx context.Context, t task) error {
	for i, table := range t.tables {
		file := fileRecord{File: t.files[i], Table: table, PropertyID: t.ID, Property: t.Slug}
		err := r.writeTable(ctx, t.Property, file)
		switch {
		case err == nil:
			r.Progress.Wrote(t.Property, file.File)
		case stops(err) || ctx.Err() != nil:
			return err
		default:
			r.record.failed(file, err)
		}
	}
	r.Progress.Ended(t.Property)
	return r.folder.saveSometimes(r.record, r.Now())
}

func (r *run) writeTable(ctx context.Context, p Property, file fileRecord) error {
	t, err := r.table(ctx, p, file.Table)
	if err != nil {
		return err
	}
	if err := r.folder.write(file.File, r.Format, t.columns, t.rows); err != nil {
		return &fileError{err}
	}
	file.meta, file.Rows = t.meta, len(t.rows)
	r.record.wrote(file, r.Now())
	return nil
}

func (r *run) writePortfolio(p *portfolio, name string) error {
	file := fileRecord{File: name, Table: portfolioTable, Rows: len(p.rows), meta: p.meta}
	if err := r.folder.write(name, r.Format, r.portfolioColumns(), p.rows); err != nil {
		return &fileError{err}
	}
	r.record.wrote(file, r.Now())
	for _, failure := range p.failures {
		r.record.failed(fileRecord{File: name, Table: portfolioTable, PropertyID: failure.property.ID, Property: failure.property.Slug}, failure.err)
	}
	return nil
}

// fileNames returns the names of the properties' files: their slugs, or ids of those whose slug is not unique or no name of a file.
func fileNames(properties []Property) []string {
	count := make(map[string]int)
	for _, p := range properties {
		count[p.Slug]++
	}
	names := make([]string, len(properties))
	for i, p := range properties {
		names[i] = p.Slug
		if count[p.Slug] > 1 || !isFileName(p.Slug) {
			names[i] = p.ID
		}
		if !isFileName(names[i]) {
			names[i] = "property-" + strconv.Itoa(i+1)
		}
	}
	return names
}

// isFileName reports whether a text is a safe name on any file system.
func isFileName(text string) bool {
	const longest = 100
	return text != "" && len(text) <= longest && text[0] != '.' && text[0] != '-' && !slices.ContainsFunc([]byte(text), func(b byte) bool {
		return (b < 'a' || b > 'z') && (b < 'A' || b > 'Z') && (b < '0' || b > '9') && b != '-' && b != '_' && b != '.'
	})
}

package bulkexport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"sara/archive"
	"sara/translate"
)

// History is where the imported days go.
type History interface {
	// Days returns what is archived.
	Days(ctx context.Context, property string) (archive.Inventory, error)
	ImportDays(ctx context.Context, property string, days []*archive.DayBuilder, o archive.ImportOptions) (archive.ImportResult, error)
}

// Options configure an import.
type Options struct {
	Property string         // its ID in the archive
	SiteURL  string         // the site_url of its rows
	Inputs   []Input        // files of the tables Site and URL
	Log      string         // path of the table ExportLog; empty if there is none
	Until    translate.Date // rows of later days are left out
	Replace  bool           // replace archived days
	// Provisional is the first day whose figures may still change; 0: none.
	Provisional translate.Date
	// Temp is the folder in which the import creates its own. That of an interrupted import stays, for the next one.
	Temp string
	// Memory bounds the sums in memory, in bytes; 0 means 112 MiB. Reading takes roughly ten MiB more.
	Memory   int
	Progress Progress
}

const defaultMemory = 112 << 20

// Progress receives the progress of an import.
type Progress interface {
	// Reading is called with the bytes read so far, out of those of all files.
	Reading(done, total, rows int64)
	// Writing is called with the months archived so far, out of all.
	Writing(done, total int)
}

// A Result is what an import did.
type Result struct {
	archive.ImportResult // its Rows are sums: rows of a day
	Counts
	TempBytes int64 // size of the temporary folder when reading ended
	Resumed   bool  // whether it continued an interrupted import

	TotalsOnly   []translate.Date // days archived without pages, because the table by URL lacks them
	PagesOnly    []translate.Date // days left out because they have pages but no totals
	UnloggedDays []translate.Date // days left out because the export log lacks them
	Zero         []translate.Date // days without web searches
}

// Skipped returns how many rows do not belong to this import.
func (c *Counts) Skipped() int64 { return c.OtherProperties + c.OtherTypes + c.TooLate + c.Unlogged }

// NotFoundError means that the files have no row of the property.
type NotFoundError struct {
	SiteURL string
	Sites   map[string]int64 // rows by site_url
}

// Error implements error.
func (e *NotFoundError) Error() string {
	if len(e.Sites) == 0 {
		return fmt.Sprintf("the files have no rows of %s", e.SiteURL)
	}
	found := slices.SortedFunc(maps.Keys(e.Sites), func(a, b string) int { return cmp.Or(cmp.Compare(e.Sites[b], e.Sites[a]), cmp.Compare(a, b)) })
	const shown = 10
	more := ""
	if n := len(found) - shown; n > 0 {
		found, more = found[:shown], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("the files have no rows of %s, only of the site_url %s%s", e.SiteURL, strings.Join(found, ", "), more)
}

// Import imports files into the archive. It archives nothing unless it could read all of them. If it is interrupted or killed, the same
// call resumes it.
func Import(ctx context.Context, history History, o Options) (result Result, err error) {
	i, err := begin(o)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, i.folder.close()) }()
	result.Resumed = i.resumed
	if err := i.readAll(ctx, o.Inputs, i.ids); err != nil {
		return result, err
	}
	result.Counts = i.state.Counts
	for _, r := range i.state.Runs {
		result.TempBytes += r.size()
	}
	if len(i.state.SiteDays)+len(i.state.URLDays) == 0 && result.TooLate == 0 {
		return result, errors.Join(&NotFoundError{SiteURL: o.SiteURL, Sites: result.OtherSites}, i.folder.remove())
	}
	i.sums = nil // its memory is free for the months
	if err := i.archive(ctx, history, o, &result); err != nil {
		return result, err
	}
	return result, i.folder.remove()
}

// importing is an import in progress.
type importing struct {
	ingest
	ids     []fileID // of the inputs
	resumed bool
}

func begin(o Options) (*importing, error) {
	i := &importing{}
	fresh := &state{Version: stateVersion, Property: o.Property, Site: o.SiteURL, Until: o.Until, Replace: o.Replace, SiteDays: days{}, URLDays: days{},
		Counts: Counts{OtherSites: make(map[string]int64)}}
	var total int64
	for _, in := range o.Inputs {
		id, err := identify(in.Path)
		if err != nil {
			return nil, err
		}
		i.ids = append(i.ids, id)
		total += id.Size
	}
	if o.Log != "" {
		var err error
		if i.log, err = readLog(o.Log); err != nil {
			return nil, err
		}
		id, err := identify(o.Log)
		if err != nil {
			return nil, err
		}
		fresh.Log = &id
	}
	f, err := openFolder(filepath.Join(o.Temp, "sara-import-"+o.Property))
	if err != nil {
		return nil, err
	}
	s, err := f.load(fresh, i.ids)
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	i.resumed = s != fresh
	i.spill = &spill{folder: f, state: s, sums: newSums(cmp.Or(o.Memory, defaultMemory)), maxRuns: defaultMaxRuns}
	i.site, i.until = []byte(o.SiteURL), s.Until
	i.report = func(done int64) { o.Progress.Reading(done, total, s.Counts.RowsRead) }
	return i, nil
}

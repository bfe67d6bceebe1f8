package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"sara/archive"
	"sara/archive/bulkexport"
	"sara/cmd/sara/internal/console"
	"sara/translate"
)

// readBulkExport imports files of Search Console's bulk export.
func (i importing) readBulkExport(ctx context.Context, inputs []bulkexport.Input) (archiveImportRecord, error) {
	temp, err := i.temp()
	if err != nil {
		return archiveImportRecord{}, err
	}
	progress, end := newImportProgress(i.con.Stderr, len(inputs))
	defer end()
	result, err := bulkexport.Import(ctx, i.history, bulkexport.Options{
		Property: i.property.ID, SiteURL: i.property.Site, Inputs: inputs, Log: i.ExportLog, Until: i.options.Until, Replace: i.Replace,
		Provisional: i.options.Provisional, Temp: temp, Progress: progress,
	})
	end()
	if err != nil {
		if errors.Is(err, context.Canceled) {
			i.con.Note("what was read is kept in %s: the same command continues", temp)
		}
		return archiveImportRecord{}, err
	}
	reportBulkExport(i.con, i.property.Site, result, inputs)
	record := recordOfImport(i.con, result.ImportResult)
	record.RowsRead, record.RowsSkipped = result.RowsRead, result.Skipped()
	return record, nil
}

// temp returns the folder for temporary files.
func (c *archiveImport) temp() (string, error) {
	if c.Temp != "" {
		return c.Temp, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("--temp is missing: name a folder for temporary files (%w)", err)
	}
	return filepath.Join(cache, console.ProgramName), nil
}

// reportBulkExport says what of the files was not imported, and why.
func reportBulkExport(con *console.Console, site string, r bulkexport.Result, inputs []bulkexport.Input) {
	for _, skipped := range []struct {
		rows int64
		why  string
	}{
		{r.OtherProperties, "of other properties than " + site},
		{r.OtherTypes, "of other searches than of the web"},
		{r.TooLate, "of days whose figures may still change"},
		{r.Unlogged, "of days that the export log lacks"},
	} {
		if skipped.rows > 0 {
			con.Note("left out: %s %s", english.Plural(int(skipped.rows), "row", ""), skipped.why)
		}
	}
	has := func(t bulkexport.Table) bool {
		return slices.ContainsFunc(inputs, func(in bulkexport.Input) bool { return in.Table == t })
	}
	if !has(bulkexport.URL) {
		con.Note("no file is of searchdata_url_impression: pages are not imported")
	} else {
		noteDays(con, r.TotalsOnly, "without pages, which the files lack: their pages stay missing")
	}
	noteDays(con, r.PagesOnly, "left out: they have pages in the files and totals neither there nor in the archive; "+
		"import searchdata_site_impression with them")
	noteDays(con, r.UnloggedDays, "left out: the export log lacks them")
	noteDays(con, r.Zero, "archived as days without web searches")
	if r.Resumed {
		con.Note("an import that was interrupted is complete")
	}
}

// noteDays prints how many days something is about, and the first of them.
func noteDays(con *console.Console, days []translate.Date, what string) {
	if len(days) == 0 {
		return
	}
	const shown = 5
	names := console.Each(days[:min(len(days), shown)], translate.Date.String)
	if n := len(days) - shown; n > 0 {
		names = append(names, fmt.Sprintf("%d more", n))
	}
	con.Note("%s (%s) %s", english.Plural(len(days), "day", ""), strings.Join(names, ", "), what)
}

// reportDiffering says which archived days have other figures than the import. For totals it shows both.
func reportDiffering(con *console.Console, differing []archive.Difference) {
	byDimension := make(map[translate.Dimension][]archive.Difference)
	for _, d := range differing {
		byDimension[d.Dimension] = append(byDimension[d.Dimension], d)
	}
	for _, by := range archive.Dimensions() {
		days := byDimension[by]
		slices.SortFunc(days, func(a, b archive.Difference) int { return cmp.Compare(a.Date, b.Date) })
		noteDays(con, console.Each(days, func(d archive.Difference) translate.Date { return d.Date }),
			fmt.Sprintf("of dimension %s kept as archived, although the files have other clicks or impressions; --replace takes those",
				archive.DimensionName(by)))
		if by == translate.ByDate && len(days) > 0 {
			d := days[0]
			con.Note("%s: archived %s; in the files %s", d.Date, traffic(d.Archived), traffic(d.Imported))
		}
	}
}

func traffic(f archive.Figures) string {
	return english.Plural(int(f.Clicks), "click", "") + ", " + english.Plural(int(f.Impressions), "impression", "")
}

package archive

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"sara/translate"
)

// A SearchConsoleExport is the part of an export by Search Console's own Export button that can be archived: the totals of single days.
// Its other files have sums over the whole period, which cannot be divided into days.
type SearchConsoleExport struct {
	Totals []FileRecord
	Notes  []string // for people: what was imported, and what was not
}

// All returns the records for History.Import.
func (e SearchConsoleExport) All() iter.Seq2[FileRecord, error] {
	return func(yield func(FileRecord, error) bool) {
		for _, r := range e.Totals {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// The files of an export, in English. Newer exports call Dates.csv Chart.csv. Google documents neither file names nor columns. They were
// compared, in November 2026, with exports in public repositories on GitHub: Chart.csv and Filters.csv of
// DanielTheC/internal-lnking-tool (days of 2025), of hassan-pandagen/panda-patches-ecommerce (2026), and of Markjohns1/marliz-sec (24 hours);
// Dates.csv of GAP028/michelin-seo-dashboard, which is in French. Exports in other languages translate the names of files (Graphique.csv,
// Diagramm.csv), columns and filters, so filters can be checked only in English exports.
const (
	filtersFile = "Filters.csv"
	// maxExportFile bounds a file of an export, which has at most 1,000 rows.
	maxExportFile = 8 << 20
)

func dateFiles() []string { return []string{"Dates.csv", "Chart.csv"} }

// IsSearchConsoleFile reports whether a folder with a file of this name is such an export.
func IsSearchConsoleFile(name string) bool {
	return name == filtersFile || slices.Contains(dateFiles(), name)
}

// ReadSearchConsole reads the files of an export. Days after until are left out, because their figures still change. A filtered export,
// for example by page, is an error: its totals are not those of the property.
func ReadSearchConsole(files fs.FS, until translate.Date) (SearchConsoleExport, error) {
	var e SearchConsoleExport
	names, err := fs.Glob(files, "*.csv")
	if err != nil {
		return e, err
	}
	if err := checkFilters(files, names); err != nil {
		return e, err
	}
	at := slices.IndexFunc(names, func(name string) bool { return slices.Contains(dateFiles(), name) })
	if at < 0 {
		return e, fmt.Errorf("it has no %s: nothing else in an export of Search Console has figures of single days; export it in English",
			strings.Join(dateFiles(), " or "))
	}
	name := names[at]
	left, err := e.readDates(files, name, until)
	if err != nil {
		return e, fmt.Errorf("%s: %w", name, err)
	}
	e.Notes = append(e.Notes, fmt.Sprintf("only the totals of %s are imported, from %s", english.Plural(len(e.Totals), "day", ""), name))
	if left > 0 {
		e.Notes = append(e.Notes, fmt.Sprintf("%s after %s %s left out: figures of these days still change",
			english.Plural(left, "day", ""), until, english.PluralWord(left, "is", "are")))
	}
	others := slices.DeleteFunc(names, func(other string) bool { return other == name || other == filtersFile })
	if len(others) > 0 {
		e.Notes = append(e.Notes, strings.Join(others, ", ")+": not imported, because they have sums of the whole period, not of single days; "+
			"sara collect archives the days that Search Console still has")
	}
	return e, nil
}

// checkFilters returns an error unless the export has all web results.
func checkFilters(files fs.FS, names []string) error {
	if !slices.Contains(names, filtersFile) {
		return nil
	}
	rows, err := readExportFile(files, filtersFile)
	if err != nil {
		return fmt.Errorf("%s: %w", filtersFile, err)
	}
	for _, row := range rows[1:] {
		if len(row) >= 2 && row[0] != "Date" && row[0] != "Time range" && !(row[0] == "Search type" && row[1] == "Web") {
			return fmt.Errorf("it is filtered by %.40q (%.80q), so its totals are not those of the property: export without filters, "+
				"for the search type Web", row[0], row[1])
		}
	}
	return nil
}

// readExportFile returns the rows of a file, its header first.
func readExportFile(files fs.FS, name string) (rows [][]string, err error) {
	file, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	in := csv.NewReader(io.LimitReader(file, maxExportFile))
	in.FieldsPerRecord = -1
	if rows, err = in.ReadAll(); err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, errors.New("it is empty")
	}
	rows[0][0] = strings.TrimPrefix(rows[0][0], "\ufeff")
	return rows, nil
}

// readDates reads the totals, and returns how many days are after until.
func (e *SearchConsoleExport) readDates(files fs.FS, name string, until translate.Date) (left int, err error) {
	rows, err := readExportFile(files, name)
	if err != nil {
		return 0, err
	}
	want := []string{"Date", "Clicks", "Impressions", "CTR", "Position"}
	if !slices.Equal(rows[0], want) {
		return 0, fmt.Errorf("its columns are %.120q, not %s: export days, not the last 24 hours, in English, without a comparison",
			rows[0], strings.Join(want, ","))
	}
	for i, row := range rows[1:] {
		place := Place{Number: i + 2}
		if len(row) != len(want) {
			return 0, recordError(place, "", "it has %s, not %d", english.Plural(len(row), "column", ""), len(want))
		}
		record, err := parseRecord(place, [columnCount]string{row[0], DimensionName(translate.ByDate), "", row[1], row[2], row[4]})
		if err != nil {
			return 0, err
		}
		if record.Date > until {
			left++
			continue
		}
		e.Totals = append(e.Totals, record)
	}
	return left, nil
}

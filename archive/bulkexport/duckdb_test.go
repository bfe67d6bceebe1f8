package bulkexport

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/avro/ocf"

	"sara/archive"
	"sara/archive/duckdbtest"
	"sara/translate"
)

// world is an export in files, and the rows that DuckDB finds in it.
type world struct {
	duck   func(...string) []string
	folder string
	shards map[string]string // a pattern of the files of each form
	log    string
	// The rows that the archive must have, without and with the log.
	expected, logged []string
}

// TestImportAgreesWithDuckDB makes an export once for all tests that read it.
func TestImportAgreesWithDuckDB(t *testing.T) {
	w := newWorld(t)
	for form := range w.shards {
		t.Run(form, func(t *testing.T) { testForm(t, w, form) })
	}
	t.Run("export log", func(t *testing.T) { testExportLog(t, w) })
	t.Run("query", func(t *testing.T) { testQuery(t, w) })
	t.Run("guide", func(t *testing.T) { testGuide(t, w) })
	t.Run("interrupted", func(t *testing.T) { testInterrupted(t, w) })
	t.Run("killed", func(t *testing.T) { testKilled(t, w) })
	t.Run("months", func(t *testing.T) { testMonths(t, w) })
	t.Run("other archive", func(t *testing.T) { testOtherArchive(t, w) })
	t.Run("lost files", func(t *testing.T) { testLostFiles(t, w) })
	t.Run("memory", func(t *testing.T) { testMemory(t, w) })
	t.Run("repeated", func(t *testing.T) { testRepeated(t, w) })
	t.Run("corrupt", func(t *testing.T) { testCorrupt(t, w) })
	t.Run("republished", func(t *testing.T) { testRepublished(t, w) })
	t.Run("pages only", func(t *testing.T) { testPagesOnly(t, w) })
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{duck: duckdbtest.New(t).Rows, folder: t.TempDir(), shards: make(map[string]string)}
	statements := worldSQL()
	for form, options := range map[string]string{
		"parquet": "FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE 2048", "zstd.parquet": "FORMAT parquet, COMPRESSION zstd",
		"gzip.parquet": "FORMAT parquet, COMPRESSION gzip", "csv": "FORMAT csv, HEADER",
		"csv.gz": "FORMAT csv, HEADER, COMPRESSION gzip", "json": "FORMAT json",
	} {
		w.shards[form] = filepath.Join(w.folder, "*-*."+form)
		if strings.Count(form, ".") == 0 {
			w.shards[form] = filepath.Join(w.folder, "*-[0-9]."+form)
		}
		for _, table := range []string{"site", "url"} {
			for shard := range 3 {
				statements = append(statements, fmt.Sprintf("COPY (SELECT * FROM %s WHERE hash(rowid) %% 3 = %d ORDER BY hash(rowid)) TO '%s' (%s)",
					table, shard, filepath.Join(w.folder, fmt.Sprintf("%s-%d.%s", table, shard, form)), options))
			}
		}
	}
	w.log = filepath.Join(w.folder, "log.parquet")
	w.duck(append(statements, "COPY log TO '"+w.log+"' (FORMAT parquet)", "SELECT 1")...)
	w.writeOthers(t)
	for _, known := range []struct {
		sql  string
		rows *[]string
	}{{seenSQL, &w.expected}, {loggedSQL, &w.logged}} {
		for _, row := range w.duck(slices.Concat(w.views(), []string{known.sql}, expectedSQL())...) {
			*known.rows = append(*known.rows, sameRow(t, row))
		}
	}
	if len(w.expected) < 1000 || len(w.logged) >= len(w.expected) {
		t.Fatalf("%d rows are expected, %d with the log", len(w.expected), len(w.logged))
	}
	return w
}

// views are the tables of the Parquet files.
func (w *world) views() []string {
	return []string{
		"CREATE VIEW site AS SELECT * FROM read_parquet('" + w.folder + "/site-?.parquet')",
		"CREATE VIEW url AS SELECT * FROM read_parquet('" + w.folder + "/url-?.parquet')",
		"CREATE VIEW log AS SELECT * FROM read_parquet('" + w.log + "')",
	}
}

// writeOthers writes the forms that DuckDB does not write as BigQuery does.
func (w *world) writeOthers(t *testing.T) {
	t.Helper()
	for _, table := range []string{"site", "url"} {
		for shard := range 3 {
			path := filepath.Join(w.folder, fmt.Sprintf("%s-%d", table, shard))
			var rows []map[string]any
			for _, line := range w.duck("SELECT to_json(t)::VARCHAR FROM (SELECT * REPLACE (data_date::VARCHAR AS data_date) FROM '" +
				path + ".parquet') AS t") {
				var text []string
				var row map[string]any
				if err := json.Unmarshal([]byte(line), &text); err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal([]byte(text[0]), &row); err != nil {
					t.Fatal(err)
				}
				rows = append(rows, row)
			}
			writeJSON(t, path+".bigquery.json", rows, false)
			writeJSON(t, path+".bigquery.json.gz", rows, true)
			writeAvro(t, path+".deflate.avro", rows, ocf.DeflateCodec(6), true)
			writeAvro(t, path+".snappy.avro", rows, ocf.SnappyCodec(), false)
		}
	}
	for _, form := range []string{"bigquery.json", "bigquery.json.gz", "deflate.avro", "snappy.avro"} {
		w.shards[form] = filepath.Join(w.folder, "*."+form)
	}
}

func compare(t *testing.T, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("%d rows are archived, want %d; row %d differs:\n%q\n%q", len(got), len(want), i, got[i:min(i+1, len(got))], want[i:min(i+1, len(want))])
		}
	}
}

func testForm(t *testing.T, w *world, form string) {
	a := newArchive(t)
	result := a.bring(t, options(t, w.shards[form]))
	compare(t, a.rows(t), w.expected)
	if result.RowsRead != 5250+5250 || result.OtherProperties == 0 || result.OtherTypes == 0 || result.Resumed {
		t.Errorf("%+v", result.Counts)
	}
	for by, want := range map[translate.Dimension]string{
		translate.ByDate: "2025-01-28 to 2025-02-07 without [2025-02-03 2025-02-04 2025-02-05 2025-02-06]",
		translate.ByPage: "2025-01-28 to 2025-02-07 without [2025-01-30 2025-02-03 2025-02-04 2025-02-05 2025-02-06]",
	} {
		if got := a.days(t, by); got != want {
			t.Errorf("days of %s: %s, want %s", by, got, want)
		}
	}
	if got := fmt.Sprint(result.TotalsOnly, result.PagesOnly, result.Zero, result.UnloggedDays); got != "[2025-01-30] [2025-02-03] [2025-01-31] []" {
		t.Errorf("days: %s", got)
	}
}

func testExportLog(t *testing.T, w *world) {
	a := newArchive(t)
	o := options(t, w.shards["parquet"])
	o.Log = w.log
	result := a.bring(t, o)
	compare(t, a.rows(t), w.logged)
	for by, want := range map[translate.Dimension]string{
		translate.ByDate:    "2025-01-28 to 2025-02-07 without [2025-01-29 2025-02-03 2025-02-06]",
		translate.ByCountry: "2025-01-28 to 2025-02-07 without [2025-01-29 2025-02-03 2025-02-06]",
		translate.ByPage:    "2025-01-28 to 2025-02-07 without [2025-01-29 2025-01-30 2025-02-03 2025-02-06]",
	} {
		if got := a.days(t, by); got != want {
			t.Errorf("days of %s: %s, want %s", by, got, want)
		}
	}
	if got := fmt.Sprint(result.Zero, result.UnloggedDays, result.Unlogged > 0); got != "[2025-01-31 2025-02-04 2025-02-05] [2025-01-29] true" {
		t.Errorf("days: %s", got)
	}
}

// testQuery runs the query for BigQuery in DuckDB, which lacks EXPORT DATA, names in backticks, raw strings and two functions.
// The rows are imported like those of any export of the archive.
func testQuery(t *testing.T, w *world) {
	q := Query{SiteURL: testSite, Dataset: "shop-1.searchconsole", URI: PlaceholderURI,
		Days: translate.DateRange{Start: FirstExport(), End: translate.NewDate(2026, 1, 1)}}
	if err := q.Check(); err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(q.String(), " AS\n")
	if !found {
		t.Fatal(q.String())
	}
	text = regexp.MustCompile("`shop-1.searchconsole.(\\w+)`").ReplaceAllString(text, "$1")
	text = strings.ReplaceAll(text, "r'^", "'^")
	shards := filepath.Join(t.TempDir(), "sara")
	w.duck(slices.Concat([]string{
		"CREATE VIEW searchdata_site_impression AS SELECT * FROM read_parquet('" + w.folder + "/site-?.parquet')",
		"CREATE VIEW searchdata_url_impression AS SELECT * FROM read_parquet('" + w.folder + "/url-?.parquet')",
		"CREATE VIEW ExportLog AS SELECT * FROM read_parquet('" + w.log + "')",
		"CREATE MACRO REGEXP_CONTAINS(text, pattern) AS regexp_matches(text, pattern)",
		"CREATE MACRO BYTE_LENGTH(text) AS strlen(text)",
		"CREATE TABLE result AS " + text,
		"COPY (SELECT date, dimension, key, clicks::BIGINT AS clicks, impressions::BIGINT AS impressions, position::DOUBLE AS position" +
			" FROM result WHERE hash(key) % 2 = 0) TO '" + shards + "-0.parquet' (FORMAT parquet)",
		"COPY (SELECT date, dimension, key, clicks::VARCHAR AS clicks, impressions::VARCHAR AS impressions, position::DOUBLE AS position" +
			" FROM result WHERE hash(key) % 2 = 1) TO '" + shards + "-1.json' (FORMAT json)",
		"SELECT 1",
	})...)
	direct, queried := newArchive(t), newArchive(t)
	o := options(t, w.shards["parquet"])
	o.Log = w.log
	direct.bring(t, o)
	if _, err := queried.Import(t.Context(), testProperty, archive.ReadShards([]string{shards + "-0.parquet", shards + "-1.json"}),
		archive.ImportOptions{Until: o.Until}); err != nil {
		t.Fatal(err)
	}
	compare(t, queried.rows(t), w.logged)
	if fmt.Sprint(direct.bytes(t)) != fmt.Sprint(queried.bytes(t)) {
		t.Error("the query's rows make other objects than the tables")
	}
}

// small makes an import write many runs.
func small(o Options) Options {
	o.Memory = 200 * entryBytes
	return o
}

func testMemory(t *testing.T, w *world) {
	a := newArchive(t)
	o := small(options(t, w.shards["parquet"]))
	most := 0
	o.Progress = hooks{reading: func(int64, int64) {
		runs, err := filepath.Glob(filepath.Join(o.Temp, "*", "*.run"))
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, len(runs))
	}}
	result := a.bring(t, o)
	compare(t, a.rows(t), w.expected)
	if most < 10 || most > defaultMaxRuns+1 || result.TempBytes == 0 {
		t.Errorf("there were %d runs, of %d bytes at the end", most, result.TempBytes)
	}
}

func testRepeated(t *testing.T, w *world) {
	a := newArchive(t)
	a.bring(t, options(t, w.shards["csv"]))
	before := a.bytes(t)
	again := options(t, w.shards["deflate.avro"], w.shards["deflate.avro"])
	slices.Reverse(again.Inputs)
	result := a.bring(t, again)
	if fmt.Sprint(a.bytes(t)) != fmt.Sprint(before) || result.Days != 0 || result.Kept == 0 || len(result.Differing) > 0 {
		t.Errorf("a second import: %+v", result.ImportResult)
	}
	again.Replace = true
	if result = a.bring(t, again); fmt.Sprint(a.bytes(t)) != fmt.Sprint(before) || result.Kept != 0 || result.Days == 0 {
		t.Errorf("a third import, with Replace: %+v", result.ImportResult)
	}
}

func testCorrupt(t *testing.T, w *world) {
	for _, form := range []string{"parquet", "csv.gz", "deflate.avro", "bigquery.json"} {
		folder := t.TempDir()
		paths, err := filepath.Glob(w.shards[form])
		if err != nil {
			t.Fatal(err)
		}
		for i, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if i == len(paths)-1 { // the columns are readable, but the rows after them are not
				at := len(text) / 3
				if form == "parquet" {
					clear(text[at : 2*at])
				} else {
					text = append(text[:at:at], "\x00\"{"...)
				}
			}
			writeFile(t, filepath.Join(folder, filepath.Base(path)), text, false)
		}
		a := newArchive(t)
		_, err = Import(t.Context(), a, options(t, folder))
		if err == nil || !strings.Contains(err.Error(), filepath.Base(paths[len(paths)-1])) {
			t.Errorf("%s: the error is %v", form, err)
		}
		if inventory, err := a.Days(t.Context(), testProperty); err != nil || len(inventory) > 0 {
			t.Errorf("%s: %v is archived (%v)", form, inventory, err)
		}
	}
}

// A day that Search Console publishes again is newer data in the same tables: Replace takes it.
func testRepublished(t *testing.T, w *world) {
	a := newArchive(t)
	a.bring(t, options(t, w.shards["parquet"]))
	folder := t.TempDir()
	w.duck(slices.Concat(w.views(), []string{
		"COPY (SELECT * REPLACE (clicks + (data_date = DATE '2025-02-01')::INT AS clicks, impressions + 1 AS impressions) FROM site) TO '" +
			folder + "/site-0.parquet' (FORMAT parquet)",
		"COPY url TO '" + folder + "/url-0.parquet' (FORMAT parquet)", "SELECT 1",
	})...)
	o := options(t, folder)
	result := a.bring(t, o)
	compare(t, a.rows(t), w.expected)
	// Of 6 days with rows, 4 dimensions of the table by property; none of pages.
	totals := slices.DeleteFunc(slices.Clone(result.Differing), func(d archive.Difference) bool { return d.Dimension != translate.ByDate })
	if len(totals) != 6 || len(result.Differing) != 24 || totals[0].Imported.Impressions <= totals[0].Archived.Impressions {
		t.Errorf("%d totals and %d days differ", len(totals), len(result.Differing))
	}
	o.Replace = true
	a.bring(t, o)
	var want []string
	for _, row := range w.duck(slices.Concat([]string{
		"CREATE VIEW site AS SELECT * FROM read_parquet('" + folder + "/site-0.parquet')",
		"CREATE VIEW url AS SELECT * FROM read_parquet('" + folder + "/url-0.parquet')", seenSQL,
	}, expectedSQL())...) {
		want = append(want, sameRow(t, row))
	}
	compare(t, a.rows(t), want)
}

// The table by URL alone is useless without totals, and useful once they exist.
func testPagesOnly(t *testing.T, w *world) {
	a := newArchive(t)
	pages := options(t, filepath.Join(w.folder, "url-[0-9].parquet"))
	if result := a.bring(t, pages); result.Days != 0 || len(result.PagesOnly) != 7 {
		t.Errorf("%d days of pages are archived, %v left out", result.Days, result.PagesOnly)
	}
	if result := a.bring(t, options(t, filepath.Join(w.folder, "site-[0-9].parquet"))); len(result.TotalsOnly) != 7 {
		t.Errorf("%v have only totals", result.TotalsOnly)
	}
	// The day without traffic is known to have no pages.
	if result := a.bring(t, pages); result.Days != 5 || result.Kept != 1 || len(result.PagesOnly) != 1 {
		t.Errorf("%d days of pages are archived, %d kept, %v left out", result.Days, result.Kept, result.PagesOnly)
	}
	compare(t, a.rows(t), w.expected)
	pages.Replace = true // only pages
	if result := a.bring(t, pages); result.Days != 6 || result.Kept != 0 {
		t.Errorf("%d days of pages are replaced, %d kept", result.Days, result.Kept)
	}
	compare(t, a.rows(t), w.expected)
}

package bulkexport

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"

	"sara/archive"
	"sara/archive/bucket"
	"sara/translate"
)

const (
	testProperty = "p1"
	testSite     = "sc-domain:shop.example"
)

// worldSQL makes the tables of an export with everything that is easily misread: keys that repeat, letters in either case, null and empty
// texts, search types other than web, three properties, withheld queries, with and without a text, and days with missing parts.
// 2025-01-30 has no pages, 01-31 has only other search types, 02-03 has only pages, and 02-04 to 02-06 have no rows. The log lacks 01-29
// and 02-06, the pages of 01-30 and the totals of 02-03.
func worldSQL() []string {
	const common = `DATE '2025-01-28' + (CASE WHEN i % 8 = 7 THEN 10 ELSE i % 8 END)::INT AS data_date,
		CASE WHEN h % 9 < 7 THEN 'sc-domain:shop.example' WHEN h % 9 = 7 THEN 'https://shop.example/' ELSE 'sc-domain:other.example' END AS site_url,
		CASE h // 9 % 12 WHEN 0 THEN '' WHEN 1 THEN NULL ELSE 'query <' || (h // 108 % 160) || '>' END AS query,
		CASE h // 9 % 12 WHEN 0 THEN true WHEN 1 THEN NULL WHEN 2 THEN true ELSE false END AS is_anonymized_query,
		CASE h // 5 % 8 WHEN 0 THEN 'DEU' WHEN 1 THEN 'deu' WHEN 2 THEN 'fra' WHEN 3 THEN 'zzz' WHEN 4 THEN NULL WHEN 5 THEN '' WHEN 6 THEN 'Ita' ELSE 'x1' END AS country,
		CASE WHEN i % 8 = 3 THEN 'IMAGE' ELSE CASE h // 3 % 10 WHEN 0 THEN 'IMAGE' WHEN 1 THEN 'DISCOVER' WHEN 2 THEN 'googleNews' WHEN 3 THEN 'web' ELSE 'WEB' END END AS search_type,
		CASE h // 7 % 6 WHEN 0 THEN 'DESKTOP' WHEN 1 THEN 'mobile' WHEN 2 THEN 'MOBILE' WHEN 3 THEN 'Tablet' WHEN 4 THEN NULL ELSE 'TV' END AS device,
		(1 + h // 11 % 40)::BIGINT AS impressions, (h // 11 % 40 % (1 + h // 13 % 5))::BIGINT AS clicks`
	from := func(rows, salt int) string {
		return fmt.Sprintf("FROM (SELECT i, (hash(i + %d) >> 20)::BIGINT AS h FROM range(%d) AS r(i))", salt, rows)
	}
	return []string{
		"CREATE TABLE site AS SELECT " + common + ", ((h // 17 % 30) * (1 + h // 11 % 40))::BIGINT AS sum_top_position " +
			from(6000, 1) + " WHERE i % 8 != 6",
		"CREATE TABLE url AS SELECT " + common + `, 'https://shop.example/a,"b"?p=' || (h // 19 % 170) AS url, false AS is_anonymized_discover, h % 2 = 0 AS is_amp_top_stories,
			((h // 17 % 30) * (1 + h // 11 % 40))::BIGINT AS sum_position ` + from(6000, 777) + " WHERE i % 8 != 2",
		"UPDATE url SET url = NULL WHERE search_type = 'DISCOVER' AND impressions % 2 = 0",
		`CREATE TABLE log AS SELECT 'SEARCHDATA' AS agenda, n AS namespace, d::DATE AS data_date, 0 AS epoch_version, now() AS publish_time
			FROM range(DATE '2024-12-01', DATE '2025-03-01', INTERVAL 1 DAY) AS r(d), (VALUES ('SEARCHDATA_SITE_IMPRESSION'), ('searchdata_url_impression')) AS t(n)
			WHERE d != DATE '2025-01-29' AND d != DATE '2025-02-06' AND NOT (n = 'searchdata_url_impression' AND d = DATE '2025-01-30')
				AND NOT (n = 'SEARCHDATA_SITE_IMPRESSION' AND d = DATE '2025-02-03')`,
		"INSERT INTO log SELECT * FROM log WHERE data_date = DATE '2025-01-28'", // a day that was published again
	}
}

// expectedSQL computes the rows that the archive must have from views of the tables, in the order of an export: a row for each day under
// each dimension, with a null key where there is none. The days of site_known and url_known are the known ones.
func expectedSQL() []string {
	return []string{
		"CREATE VIEW web AS SELECT * FROM site WHERE site_url = '" + testSite +
			"' AND upper(search_type) = 'WEB' AND data_date IN (SELECT d FROM site_known)",
		"CREATE VIEW webpage AS SELECT * FROM url WHERE site_url = '" + testSite +
			"' AND upper(search_type) = 'WEB' AND data_date IN (SELECT d FROM url_known)",
		`CREATE VIEW expected AS
			SELECT data_date, 'country' AS dimension, lower(country) AS key, sum(clicks) AS c, sum(impressions) AS i, sum(sum_top_position) AS p FROM web
				WHERE length(country) = 3 GROUP BY ALL
			UNION ALL SELECT data_date, 'device', upper(device), sum(clicks), sum(impressions), sum(sum_top_position) FROM web
				WHERE upper(device) IN ('DESKTOP', 'MOBILE', 'TABLET') GROUP BY ALL
			UNION ALL (SELECT data_date, 'page', url, sum(clicks) AS c, sum(impressions), sum(sum_position) FROM webpage WHERE url IS NOT NULL GROUP BY data_date, url
				QUALIFY row_number() OVER (PARTITION BY data_date ORDER BY sum(clicks) DESC, url COLLATE "binary") <= 100)
			UNION ALL (SELECT data_date, 'query', query, sum(clicks) AS c, sum(impressions), sum(sum_top_position) FROM web
				WHERE query != '' AND is_anonymized_query IS NOT TRUE GROUP BY data_date, query
				QUALIFY row_number() OVER (PARTITION BY data_date ORDER BY sum(clicks) DESC, query COLLATE "binary") <= 100)
			UNION ALL SELECT data_date, 'total', '', sum(clicks), sum(impressions), sum(sum_top_position) FROM web GROUP BY ALL`,
		`SELECT data_date::VARCHAR, dimension, key, c::DOUBLE, i::DOUBLE, p::DOUBLE / i + 1 FROM expected
			ORDER BY data_date, dimension, c DESC, key COLLATE "binary"`,
	}
}

// Views of the days that are known, without and with the log.
const (
	seenSQL = `CREATE VIEW site_known AS SELECT DISTINCT data_date AS d FROM site WHERE site_url = '` + testSite + `';
		CREATE VIEW url_known AS SELECT DISTINCT data_date AS d FROM url WHERE site_url = '` + testSite + `' AND data_date IN (SELECT d FROM site_known)`
	loggedSQL = `CREATE VIEW site_known AS SELECT DISTINCT data_date AS d FROM log WHERE namespace ILIKE '%site%'
			AND data_date BETWEEN (SELECT min(data_date) FROM site WHERE site_url = '` + testSite + `') AND (SELECT max(data_date) FROM site WHERE site_url = '` + testSite + `');
		CREATE VIEW url_known AS SELECT DISTINCT data_date AS d FROM log WHERE namespace ILIKE '%url%'
			AND data_date BETWEEN (SELECT min(data_date) FROM url WHERE site_url = '` + testSite + `') AND (SELECT max(data_date) FROM url WHERE site_url = '` + testSite + `')
			AND data_date IN (SELECT d FROM site_known)`
)

// sameRow normalizes a row of DuckDB.
func sameRow(t *testing.T, line string) string {
	t.Helper()
	var v []any
	if err := json.Unmarshal([]byte(line), &v); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return fmt.Sprint(v...)
}

// testArchive is an archive in a folder.
type testArchive struct {
	*archive.History
	folder string
}

func newArchive(t *testing.T) *testArchive {
	t.Helper()
	a := &testArchive{folder: t.TempDir()}
	b, err := bucket.Open(a.folder)
	if err == nil {
		a.History, err = archive.NewHistory(archive.HistoryConfig{Bucket: b})
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// rows returns everything that is archived, in the form of expectedSQL, which has no rows of zeros.
func (a *testArchive) rows(t *testing.T) (rows []string) {
	t.Helper()
	for r, err := range a.Export(t.Context(), testProperty, translate.DateRange{Start: 0, End: translate.NewDate(2100, 1, 1)}) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Impressions == 0 {
			continue // the total of a day without traffic
		}
		name := r.Dimension.String()
		if r.Dimension == translate.ByDate {
			name = "total"
		}
		rows = append(rows, fmt.Sprint(r.Date.String(), name, r.Key, float64(r.Clicks), float64(r.Impressions), r.Position))
	}
	return rows
}

// days returns the archived days of each dimension, and how many.
func (a *testArchive) days(t *testing.T, by translate.Dimension) string {
	t.Helper()
	inventory, err := a.Days(t.Context(), testProperty)
	if err != nil {
		t.Fatal(err)
	}
	c := inventory[by]
	return fmt.Sprint(c.First, " to ", c.Last, " without ", c.Missing)
}

// bytes returns the objects by name.
func (a *testArchive) bytes(t *testing.T) map[string]string {
	t.Helper()
	objects := make(map[string]string)
	err := fs.WalkDir(os.DirFS(a.folder), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(a.folder, path))
		objects[path] = string(text)
		return err
	})
	if err != nil || len(objects) == 0 {
		t.Fatalf("%d objects, %v", len(objects), err)
	}
	return objects
}

// hooks is a Progress of functions; nil does nothing.
type hooks struct {
	reading func(done, rows int64)
	writing func(done int)
}

func (h hooks) Reading(done, _, rows int64) {
	if h.reading != nil {
		h.reading(done, rows)
	}
}

func (h hooks) Writing(done, _ int) {
	if h.writing != nil {
		h.writing(done)
	}
}

// options returns the options of an import of paths.
func options(t *testing.T, paths ...string) Options {
	t.Helper()
	inputs, err := Find(paths)
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range inputs {
		if in.Table != Site && in.Table != URL {
			t.Fatalf("%s is of table %d: %v", in.Path, in.Table, in.Explain())
		}
	}
	return Options{Property: testProperty, SiteURL: testSite, Inputs: inputs, Until: translate.NewDate(2026, 1, 1), Temp: t.TempDir(),
		Progress: hooks{}}
}

func (a *testArchive) bring(t *testing.T, o Options) Result {
	t.Helper()
	result, err := Import(context.WithoutCancel(t.Context()), a, o)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(o.Temp); err != nil || len(left) > 0 {
		t.Errorf("%d files are left in the temporary folder (%v)", len(left), err)
	}
	return result
}

// writeJSON writes rows, which DuckDB returned as objects, as BigQuery does: whole numbers as text, without members that are null.
func writeJSON(t *testing.T, path string, rows []map[string]any, zip bool) {
	t.Helper()
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	for _, row := range rows {
		line := make(map[string]any)
		for name, value := range row {
			switch v := value.(type) {
			case nil:
			case float64:
				line[name] = fmt.Sprint(int64(v))
			default:
				line[name] = v
			}
		}
		if err := out.Encode(line); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, path, text.Bytes(), zip)
}

func writeFile(t *testing.T, path string, text []byte, zip bool) {
	t.Helper()
	if zip {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, err := w.Write(text)
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		text = packed.Bytes()
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// writeAvro writes rows as BigQuery does: all fields may be null, and days are numbers, or text without logical types.
func writeAvro(t *testing.T, path string, rows []map[string]any, codec ocf.Codec, logical bool) {
	t.Helper()
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(rows[0])) {
		kind := `"string"`
		switch {
		case name == "data_date" && logical:
			kind = `{"type": "int", "logicalType": "date"}`
		case strings.HasPrefix(name, "is_"):
			kind = `"boolean"`
		case name == "clicks" || name == "impressions" || strings.HasPrefix(name, "sum_"):
			kind = `"long"`
		}
		fields = append(fields, fmt.Sprintf(`{"name": %q, "type": ["null", %s]}`, name, kind))
	}
	schema, err := avro.Parse(`{"type": "record", "name": "Root", "fields": [` + strings.Join(fields, ",") + `]}`)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	out, err := ocf.NewWriter(&file, schema, ocf.WithCodec(codec), ocf.WithBlockCount(100))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		record := make(map[string]any)
		for name, value := range row {
			if f, ok := value.(float64); ok {
				value = int64(f)
			}
			if name == "data_date" && logical {
				day, err := translate.ParseDate(value.(string))
				if err != nil {
					t.Fatal(err)
				}
				value = int32(day)
			}
			record[name] = value
		}
		if err := out.Encode(record); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, file.Bytes(), false)
}

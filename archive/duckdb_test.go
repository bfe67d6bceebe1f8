package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"sara/archive/bucket"
	"sara/archive/duckdbtest"
	"sara/translate"
)

// TestDuckDB installs DuckDB once for all tests that need it.
func TestDuckDB(t *testing.T) {
	duck := duckdbtest.New(t).Rows
	t.Run("reads the archive and writes importable files", func(t *testing.T) { testDuckDBReads(t, duck) })
	t.Run("runs the guide to the archive", func(t *testing.T) { testGuideToTheArchive(t, duck) })
}

func testDuckDBReads(t *testing.T, duck func(...string) []string) {
	root := t.TempDir()
	b, err := bucket.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	h, err := NewHistory(HistoryConfig{Bucket: b})
	if err != nil {
		t.Fatal(err)
	}
	records := anyRecords(rand.New(rand.NewPCG(17, 18)), 2000)
	until := records[len(records)-1].Date
	if _, err := h.Import(t.Context(), testProperty, placed(records), ImportOptions{Until: until}); err != nil {
		t.Fatal(err)
	}
	// An archived month without rows, of another property.
	if err := h.Merge(t.Context(), "other", []Day{{Date: until, Dimension: translate.ByQuery, Final: true}}); err != nil {
		t.Fatal(err)
	}
	all := fmt.Sprintf("CREATE VIEW archive AS SELECT * FROM read_parquet('%s/history/*/*/*.parquet', hive_partitioning = true)", root)

	got := duck(all, "SELECT column_name || ' ' || column_type FROM (DESCRIBE archive)")
	want := []string{`["date DATE"]`, `["dimension VARCHAR"]`, `["key VARCHAR"]`, `["clicks BIGINT"]`, `["impressions BIGINT"]`,
		`["position DOUBLE"]`, `["month VARCHAR"]`, `["property_id VARCHAR"]`}
	if !slices.Equal(got, want) {
		t.Errorf("the columns are %s, want %s", got, want)
	}

	got = duck(all, `SELECT property_id, month, date::VARCHAR, dimension, key, clicks::DOUBLE, impressions::DOUBLE, position FROM archive
		ORDER BY date, dimension, clicks DESC, key COLLATE "binary"`)
	want = nil
	for _, r := range records {
		line, err := json.Marshal([]any{testProperty, r.Date.String()[:7], r.Date.String(), DimensionName(r.Dimension), r.Key,
			r.Clicks, r.Impressions, r.Position})
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, string(line))
	}
	if !slices.EqualFunc(got, want, func(a, b string) bool { return sameJSON(t, a) == sameJSON(t, b) }) {
		t.Errorf("DuckDB reads %d rows, want %d; the first is %s, want %s", len(got), len(want), got[0], want[0])
	}

	for f, options := range map[Format]string{CSV: "FORMAT csv, HEADER", JSONL: "FORMAT json", Parquet: "FORMAT parquet"} {
		name := filepath.Join(root, "from-duckdb")
		duck(all, fmt.Sprintf(`COPY (SELECT date, dimension, key, clicks, impressions, position FROM archive
			ORDER BY date, dimension, clicks DESC, key COLLATE "binary") TO '%s' (%s)`, name, options))
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		want := slices.Clone(records)
		for i := range want {
			if f == CSV { // DuckDB does not guard formulas, so a key that looks guarded loses a quote
				want[i].Key = unguardFormula(want[i].Key)
			}
		}
		read, err := readAll(file, f)
		if err != nil || !slices.Equal(read, want) {
			t.Errorf("%s by DuckDB: %d records, %v, want %d", f, len(read), err, len(records))
		}
	}
}

// The SQL of the guide to the archive runs on an export, and finds its rows.
func testGuideToTheArchive(t *testing.T, duck func(...string) []string) {
	guide, err := os.ReadFile("../proxy/docs/guides/analysis.md")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	month := filepath.Join(root, "archive", "property=shop-example", "month=2025-01")
	if err := os.MkdirAll(month, 0o700); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(month, "data.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	day := translate.NewDate(2025, 1, 30)
	records := []Record{{Date: day, Dimension: translate.ByQuery, Key: "alder", Clicks: 1, Impressions: 10, Position: 2},
		{Date: day, Dimension: translate.ByDate, Clicks: 4, Impressions: 40, Position: 2.5}}
	err = WriteRecords(file, Parquet, func(yield func(Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	})
	if err = errors.Join(err, file.Close(), os.WriteFile(filepath.Join(root, "archive", "properties.csv"),
		[]byte("property,id,gsc_property,domain,type,display_name,archived\nshop-example,1,sc-domain:shop.example,shop.example,domain,Shop,no\n"),
		0o600)); err != nil {
		t.Fatal(err)
	}
	t.Run("pandas", func(t *testing.T) { testGuideInPandas(t, root, string(guide)) })
	queries := regexp.MustCompile(`(?m)^    SELECT(?:.*\n)(?:    .*\n)*`).FindAllString(string(guide), -1)
	queries[len(queries)-1] = renderModel(t, queries[len(queries)-1], string(guide))
	want := []string{`shop-example`, `alder`, `0.25`, `shop-example`}
	if len(queries) != len(want) {
		t.Fatalf("the guide has %d queries, want %d", len(queries), len(want))
	}
	for i, query := range queries {
		if rows := duck(strings.ReplaceAll(query, "'archive/", "'"+root+"/archive/")); len(rows) != 1 || !strings.Contains(rows[0], want[i]) {
			t.Errorf("%s\nfinds %s, want a row with %s", query, rows, want[i])
		}
	}
}

// renderModel renders a model as dbt-duckdb does: with the location of the dbt source that the guide defines.
func renderModel(t *testing.T, model, guide string) string {
	t.Helper()
	var defined struct {
		Sources []struct {
			Name   string
			Meta   map[string]string
			Tables []struct{ Name string }
		}
	}
	if err := yaml.Unmarshal([]byte(regexp.MustCompile(`(?m)^    sources:\n(?:    .*\n)*`).FindString(guide)), &defined); err != nil {
		t.Fatal(err)
	}
	source := defined.Sources[0]
	called := fmt.Sprintf("{{ source('%s', '%s') }}", source.Name, source.Tables[0].Name)
	if strings.Count(model, called) != 1 {
		t.Fatalf("%s\ndoes not read %s", model, called)
	}
	return strings.ReplaceAll(model, called, source.Meta["external_location"])
}

// testGuideInPandas compiles the guide's program in Python, and runs it where pandas can read Parquet.
func testGuideInPandas(t *testing.T, root, guide string) {
	python := "/usr/bin/python3" // it has the system's packages
	if _, err := os.Stat(python); err != nil {
		t.Skip("python3 is not installed")
	}
	program := regexp.MustCompile(`(?m)^    import pandas\n(?:(?:    .*)?\n)*`).FindString(guide)
	if err := os.WriteFile(filepath.Join(root, "sample.py"), []byte(strings.ReplaceAll("\n"+program, "\n    ", "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) ([]byte, error) {
		command := exec.CommandContext(t.Context(), python, args...)
		command.Dir = root
		return command.CombinedOutput()
	}
	if out, err := run("-m", "py_compile", "sample.py"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := run("-c", "import pandas, pyarrow"); err != nil {
		t.Skip("pandas or pyarrow is not installed: the program was compiled, but not run")
	}
	if out, err := run("sample.py"); err != nil || !regexp.MustCompile(`(?s)shop-example.*2025-01 +4\b`).Match(out) {
		t.Errorf("pandas: %v\n%s", err, out)
	}
}

// sameJSON normalizes a line of JSON.
func sameJSON(t *testing.T, line string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(line), &v); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

package bulkexport

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// exportForm is an export of the guide: the folder, the columns, the table and the rest of the query.
var exportForm = regexp.MustCompile(
	"(?s)EXPORT DATA OPTIONS\\(uri='gs://my-bucket/(\\S+)/\\*\\.parquet', [^;]*?\\) AS\\s+(SELECT [^;]*?)`my-project\\.searchconsole\\.(\\w+)`([^;]*);")

// testGuide runs the exports of the guide in DuckDB, and imports the resulting folders as the guide says.
func testGuide(t *testing.T, w *world) {
	guide, err := os.ReadFile("../../proxy/docs/guides/bigquery.md")
	if err != nil {
		t.Fatal(err)
	}
	exports := exportForm.FindAllStringSubmatch(string(guide), -1)
	command := regexp.MustCompile(`(?m)^    sara archive import shop (\S+) (\S+) --export-log (\S+)$`).FindStringSubmatch(string(guide))
	if len(exports) != 3 || command == nil {
		t.Fatalf("the guide has %d exports, want 3, and the import %q", len(exports), command)
	}
	views := map[string]string{"searchdata_site_impression": "site", "searchdata_url_impression": "url", "ExportLog": "log"}
	folder, statements := t.TempDir(), w.views()
	for _, export := range exports {
		into := filepath.Join(folder, export[1])
		if err := os.Mkdir(into, 0o700); err != nil {
			t.Fatal(err)
		}
		statements = append(statements, "COPY ("+strings.ReplaceAll(export[2], "\n", " ")+views[export[3]]+export[4]+
			") TO '"+into+"/000000000000.parquet' (FORMAT parquet)")
	}
	w.duck(append(statements, "SELECT 1")...)
	o := options(t, filepath.Join(folder, command[1]), filepath.Join(folder, command[2]))
	o.Log = filepath.Join(folder, command[3])
	a := newArchive(t)
	a.bring(t, o)
	compare(t, a.rows(t), w.logged)
}

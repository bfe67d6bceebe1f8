package reporting

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestFormats(t *testing.T) {
	t.Parallel()
	rows := [][]byte{
		[]byte(`{"key":"=HYPERLINK(\"x\")","n":1.50,"totals":{"clicks":7},"notes":["a","b, c"],"none":null}`),
		[]byte(`{"key":"two\nlines","n":-3,"totals":null,"notes":[],"yes":true}`),
	}
	columns := []string{"key", "n", "totals.clicks", "notes", "none", "yes"}
	for format, want := range map[Format]string{
		CSV:    "key,n,totals.clicks,notes,none,yes\r\n\"'=HYPERLINK(\"\"x\"\")\",1.50,7,\"a; b, c\",,\r\n\"two\nlines\",-3,,,,true\r\n",
		NDJSON: string(rows[0]) + "\n" + string(rows[1]) + "\n",
		JSON:   "[\n" + string(rows[0]) + ",\n" + string(rows[1]) + "\n]\n",
	} {
		var text strings.Builder
		if err := writeRows(&text, format, columns, rows); err != nil || text.String() != want {
			t.Errorf("%s (%v):\n%s\nwant\n%s", format, err, &text, want)
		}
	}
	var text strings.Builder
	if err := writeRows(&text, JSON, columns, nil); err != nil || !json.Valid([]byte(text.String())) {
		t.Errorf("no rows as JSON (%v): %q", err, &text)
	}
}

func TestFileNamesAreSafeAndDiffer(t *testing.T) {
	t.Parallel()
	names := fileNames([]Property{{ID: "1", Slug: "shop"}, {ID: "2", Slug: "twin"}, {ID: "3", Slug: "twin"}, {ID: "4", Slug: "../key"},
		{ID: "a/b", Slug: ""}, {ID: "6", Slug: ".hidden"}, {ID: "7", Slug: strings.Repeat("x", 101)}})
	if got := strings.Join(names, " "); got != "shop 2 3 4 property-5 6 7" {
		t.Errorf("names %s", got)
	}
}

// A server's names are no paths: nothing is written outside the folder.
func TestFolderIsNotLeft(t *testing.T) {
	t.Parallel()
	folder, err := OpenFolder(t.TempDir()+"/report", New)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../outside.csv", "/tmp/outside.csv"} {
		if err := folder.write(name, CSV, nil, nil); err == nil {
			t.Errorf("%s is written", name)
		}
	}
	if err := folder.Close(); err != nil {
		t.Error(err)
	}
}

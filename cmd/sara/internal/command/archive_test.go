package command

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/term"

	"sara/archive/atomicfile"
	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/clitest"
	"sara/translate"
)

const importMembers = "id rows_read days_archived days_kept days_differing rows_cut rows_skipped first_day last_day"

func exportCSV(c *clitest.CLI, property, from, to, format string) string {
	c.T.Helper()
	return c.OK("archive", "export", property, "--from", from, "--to", to, "--format", format)
}

func TestExportedHistoryCanBeImported(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it runs dozens of commands")
	}
	c := clitest.NewArchiveCLI(t, sara)
	const from, to = "2025-01-01", "2025-03-01"
	done := c.Object(importMembers, "archive", "import", "shop.example", c.Write("all.csv", clitest.CSVHeader+clitest.SomeHistory))
	for member, want := range map[string]any{"rows_read": 9., "days_archived": 7., "days_kept": 0., "rows_cut": 0.,
		"first_day": "2025-01-30", "last_day": "2025-02-02"} {
		if done[member] != want {
			t.Errorf("%s is %v, want %v", member, done[member], want)
		}
	}
	if got := exportCSV(c, clitest.ShopSite, from, to, "csv"); got != clitest.CSVHeader+clitest.SomeHistory {
		t.Errorf("exported:\n%s", got)
	}
	if got := exportCSV(c, clitest.ShopSite, "2025-01-31", "2025-02-01", "csv"); strings.Count(got, "\n") != 3 || !strings.Contains(got, "MOBILE") {
		t.Errorf("a part of it:\n%s", got)
	}
	for i, format := range []string{"csv", "jsonl", "parquet"} {
		file := c.Path("export." + format)
		if i%2 == 0 {
			c.OK("archive", "export", clitest.ShopSite, "--from", from, "--to", to, "--format", format, "--output", file)
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the export has mode %v: %v", info.Mode(), err)
			}
		} else {
			c.Write("export."+format, exportCSV(c, clitest.ShopSite, from, to, format))
		}
		c.OK("archive", "import", clitest.CopySite, "--replace", file)
		for _, as := range []string{"csv", "jsonl", "parquet"} {
			if exportCSV(c, clitest.CopySite, from, to, as) != exportCSV(c, clitest.ShopSite, from, to, as) {
				t.Errorf("imported from %s and exported as %s it differs", format, as)
			}
		}
	}
	noPartsLeft(c)
}

// noPartsLeft checks that no partial file is left.
func noPartsLeft(c *clitest.CLI) {
	c.T.Helper()
	if left, err := filepath.Glob(c.Path(atomicfile.TemporaryPrefix + "*")); err != nil || len(left) > 0 {
		c.T.Errorf("there are %v (%v)", left, err)
	}
}

func TestImportRecordsArchivedDaysInDatabase(t *testing.T) {
	t.Parallel()
	c := clitest.NewArchiveCLI(t, sara)
	property := c.ID(c.Object(importMembers, "archive", "import", clitest.ShopSite, c.Write("all.csv", clitest.CSVHeader+clitest.SomeHistory)))
	ctx := t.Context()
	store, err := sqlstore.Open(ctx, sqlstore.Config{URL: "sqlite:" + c.Path("sara.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	days := func() string {
		t.Helper()
		state, err := store.ArchiveState(ctx, property)
		if err != nil || state.First == nil || state.Last == nil {
			t.Fatalf("%+v, %v", state, err)
		}
		return fmt.Sprint(state.First, " ", state.Last, " ", state.Note)
	}
	if got := days(); got != "2025-01-30 2025-02-02 " {
		t.Errorf("archived days: %s", got)
	}
	if err := store.SaveArchiveState(ctx, sqlstore.ArchiveState{PropertyID: property, Note: "no access"}); err != nil {
		t.Fatal(err)
	}
	c.OK("archive", "import", clitest.ShopSite, c.Write("more.csv", clitest.CSVHeader+"2024-12-31,total,,1,2,3\n"))
	if got := days(); got != "2024-12-31 2025-02-02 no access" {
		t.Errorf("after another import: %s", got)
	}
}

func TestImportKeepsOrReplacesDays(t *testing.T) {
	t.Parallel()
	c := clitest.NewArchiveCLI(t, sara)
	c.OK("archive", "import", clitest.ShopSite, c.Write("old.csv", clitest.CSVHeader+"2025-01-01,query,old,1,2,3\n2025-01-01,total,,1,2,3\n"))
	file := c.Write("new.csv", clitest.CSVHeader+"2025-01-01,query,new,5,6,7\n2025-01-01,page,https://shop.example/,5,6,7\n2025-01-02,query,new,5,6,7\n")
	for _, test := range []struct {
		args           []string
		archived, kept float64
		key            string
	}{
		{nil, 2, 1, "2025-01-01,query,old,1,2,3"},
		{[]string{"--replace"}, 3, 0, "2025-01-01,query,new,5,6,7"},
	} {
		done := c.Object(importMembers, append([]string{"archive", "import", clitest.ShopSite, file}, test.args...)...)
		if done["days_archived"] != test.archived || done["days_kept"] != test.kept {
			t.Errorf("%v: %v, want %v archived and %v kept", test.args, done, test.archived, test.kept)
		}
		got := exportCSV(c, clitest.ShopSite, "2025-01-01", "2025-01-02", "csv")
		for _, want := range []string{test.key, "2025-01-01,total,,1,2,3", "2025-01-01,page,https://shop.example/,5,6,7", "2025-01-02,query,new,5,6,7"} {
			if !strings.Contains(got, want+"\n") {
				t.Errorf("%v: no %s in\n%s", test.args, want, got)
			}
		}
	}
}

func TestImportTruncatesDaysToTopRows(t *testing.T) {
	t.Parallel()
	c := clitest.NewArchiveCLI(t, sara)
	rows := clitest.CSVHeader + "2025-01-01,device,TABLET,0,0,0\n"
	for i := range 120 {
		rows += fmt.Sprintf("2025-01-01,query,query %d,%d,1000,5\n2025-01-01,page,page %d,%d,1000,5\n2025-01-01,country,c%c%c,1,1,1\n",
			i, i, i, i, 'a'+i/26, 'a'+i%26)
	}
	table := columns(c.OK("archive", "import", clitest.ShopSite, c.Write("many.csv", rows)))
	if !slices.Equal(table[1][:6], []string{"361", "4", "0", "41", "2025-01-01", "2025-01-01"}) {
		t.Errorf("table: %v", table)
	}
	got := exportCSV(c, clitest.ShopSite, "2025-01-01", "2025-01-01", "csv")
	const devices = 1 // a row of zeros
	if n := strings.Count(got, "\n"); n != 1+100+100+120+devices || !strings.Contains(got, "query 20,") || strings.Contains(got, "query 19,") {
		t.Errorf("%d lines:\n%.300s", n, got)
	}
}

func TestBadImportsChangeNothing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it runs dozens of commands")
	}
	c := clitest.NewArchiveCLI(t, sara)
	c.OK("archive", "import", clitest.ShopSite, c.Write("good.csv", clitest.CSVHeader+clitest.SomeHistory))
	before := exportCSV(c, clitest.ShopSite, "2025-01-01", "2026-12-31", "csv")
	const good = "2025-03-01,total,,1,2,3\n"
	calendar, err := translate.NewCalendar()
	if err != nil {
		t.Fatal(err)
	}
	tomorrow := calendar.Anchor(time.Now()) + 2 // the anchor may move while the test runs
	for _, test := range []struct{ file, text, want string }{
		{"bad.csv", clitest.CSVHeader + good + "2025-02-30,total,,1,2,3\n", `line 3, column date: "2025-02-30"`},
		{"bad.csv", clitest.CSVHeader + good + tomorrow.String() + ",total,,1,2,3\n", "line 3, column date: " + tomorrow.String() + " is after "},
		{"bad.csv", clitest.CSVHeader + good + "2025-03-01,queries,a,1,2,3\n",
			`line 3, column dimension: "queries" is not query, page, country, device or total`},
		{"bad.csv", clitest.CSVHeader + good + "2025-03-01,query,,1,2,3\n", "line 3, column key: it is empty"},
		{"bad.csv", clitest.CSVHeader + good + "2025-03-02,total,x,1,2,3\n", `line 3, column key: "x"`},
		{"bad.csv", clitest.CSVHeader + good + "2025-03-01,query,a,-1,2,3\n", `line 3, column clicks: "-1"`},
		{"bad.csv", clitest.CSVHeader + good + "2025-03-01,query,a,1,2.5,3\n", `line 3, column impressions: "2.5"`},
		{"bad.csv", clitest.CSVHeader + good + "2025-03-01,query,a,3,2,3\n", "line 3, column impressions: 2 is less than the clicks, 3"},
		{"bad.csv", clitest.CSVHeader + good + "2025-03-01,query,a,1,2,first\n", `line 3, column position: "first"`},
		{"bad.csv", clitest.CSVHeader + good + "2025-03-01,query,a,1,2,0.9\n", "line 3, column position: 0.9"},
		{"bad.csv", clitest.CSVHeader + good + good, "line 3, column key: 2025-03-01 total \"\" is already in line 2"},
		{"bad.csv", clitest.CSVHeader + good + "2025-03-01,query,a,1,2\n", "line 3: it has 5 columns, not 6"},
		{"bad.csv", clitest.CSVHeader + good + "2025-03-01,query,\"a,1,2,3\n", "line 3: a quote is not closed"},
		{"bad.csv", good, "column 1 of the header"},
		{"bad.csv", "", "the file is empty"},
		{"bad.jsonl", `{"date":"2025-03-01","dimension":"query","key":"a","clicks":"1","impressions":2,"position":3}` + "\n", "line 1, column clicks: "},
		{"bad.jsonl", `{"date":"2025-03-01","dimension":"query","key":"a","clicks":1,"impressions":2}` + "\n", "line 1, column position: it is missing"},
		{"bad.jsonl", clitest.CSVHeader, "line 1: it is not a JSON object"},
		{"bad.parquet", clitest.CSVHeader + good, "not a Parquet file"},
	} {
		t.Run(test.want, func(t *testing.T) {
			c.T = t
			file := c.Write(test.file, test.text)
			want := []string{file + ": ", test.want}
			if strings.Contains(test.want, "line ") {
				want = append(want, "nothing has been imported")
			}
			c.Fails(ExitError, []string{"archive", "import", clitest.ShopSite, "--replace", file}, want...)
			if after := exportCSV(c, clitest.ShopSite, "2025-01-01", "2026-12-31", "csv"); after != before {
				t.Errorf("the archive has changed:\n%s", after)
			}
		})
	}
}

func TestExportOfEmptyArchive(t *testing.T) {
	t.Parallel()
	c := clitest.NewArchiveCLI(t, sara)
	for format, want := range map[string]string{"csv": clitest.CSVHeader, "jsonl": ""} {
		if got := exportCSV(c, clitest.ShopSite, "2025-01-01", "2025-01-31", format); got != want {
			t.Errorf("%s: %q, want %q", format, got, want)
		}
	}
	empty := c.Write("empty.parquet", exportCSV(c, clitest.ShopSite, "2025-01-01", "2025-01-31", "parquet"))
	done := c.Object(importMembers, "archive", "import", clitest.CopySite, empty)
	if done["rows_read"] != 0. || done["first_day"] != nil || done["last_day"] != nil {
		t.Errorf("importing it: %v", done)
	}
}

func TestArchiveCommandLines(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it runs dozens of commands")
	}
	c := clitest.NewArchiveCLI(t, sara)
	file := c.Write("good.csv", clitest.CSVHeader+clitest.SomeHistory)
	export := func(args ...string) []string { return append([]string{"archive", "export"}, args...) }
	pipe := c.Path("pipe") // nothing writes to it
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		status int
		args   []string
		want   []string
	}{
		{ExitUsage, export(clitest.ShopSite, "--from", "2025-01-01", "--to", "2025-01-02"), []string{"--format", "sara archive export --help"}},
		{ExitUsage, export(clitest.ShopSite, "--format", "csv", "--from", "2025-01-01"), []string{"--to"}},
		{ExitUsage, export(clitest.ShopSite, "--format", "xml", "--from", "2025-01-01", "--to", "2025-01-02"), []string{`must be one of "csv","jsonl","parquet" but got "xml"`}},
		{ExitUsage, export(clitest.ShopSite, "--format", "csv", "--from", "2025-01-02", "--to", "2025-01-01"),
			[]string{"--from 2025-01-02 is after --to 2025-01-01"}},
		{ExitUsage, export(clitest.ShopSite, "--format", "csv", "--from", "2025-01-32", "--to", "2025-02-01"), []string{"--from", "YYYY-MM-DD"}},
		{ExitError, export("nowhere.example", "--format", "csv", "--from", "2025-01-01", "--to", "2025-01-02"),
			[]string{`there is no property "nowhere.example"`, "sara property list"}},
		{ExitError, export(clitest.ShopSite, "--format", "csv", "--from", "2025-01-01", "--to", "2025-01-02", "--output", c.Folder),
			[]string{c.Folder + " is not a regular file"}},
		{ExitError, export(clitest.ShopSite, "--format", "csv", "--from", "2025-01-01", "--to", "2025-01-02", "--output", c.Path("no/such")),
			[]string{c.Path("no/such")}},
		{ExitUsage, export(clitest.ShopSite, "--format", "csv", "--from", "2025-01-01", "--to", "2025-01-02", "--archive-url", "ftp://x"),
			[]string{"SARA_ARCHIVE_URL (--archive-url): ftp://x: "}},
		{ExitUsage, []string{"archive", "import", clitest.ShopSite}, []string{"<path>"}},
		{ExitError, []string{"archive", "import", clitest.ShopSite, c.Path("none.txt")}, []string{"none.txt: no such file"}},
		{ExitError, []string{"archive", "import", clitest.ShopSite, c.Path("none")}, []string{"none: no such file"}},
		{ExitError, []string{"archive", "import", clitest.ShopSite, c.Path("none.csv")}, []string{"none.csv", "no such file"}},
		{ExitUsage, []string{"archive", "import", clitest.ShopSite, file, "--export-log", file}, []string{"--export-log belongs to a bulk export"}},
		{ExitUsage, []string{"archive", "import", clitest.ShopSite, file, "--format", "csv", "--export-log", file},
			[]string{"--export-log belongs to a bulk export"}},
		{ExitError, []string{"archive", "import", clitest.ShopSite, c.Folder, "--format", "csv"},
			[]string{"sara: " + c.Folder + ": it is not a regular file"}},
		{ExitError, []string{"archive", "import", clitest.ShopSite, pipe, "--format", "csv"}, []string{"sara: " + pipe + ": it is not a regular file"}},
		{ExitError, []string{"archive", "import", clitest.ShopSite, pipe}, []string{pipe + ": it is not a regular file"}},
		{ExitUsage, export("shop*", "--output", "-"), []string{"--output is missing: name the folder"}},
		{ExitError, []string{"archive", "import", "nowhere.example", file}, []string{`there is no property "nowhere.example"`}},
	} {
		c.Fails(test.status, test.args, test.want...)
	}
	noPartsLeft(c)
	toStdout := export(clitest.ShopSite, "--format", "csv", "--from", "2025-01-01", "--to", "2025-01-02", "--output", "-")
	if said := c.OK(toStdout...); said != clitest.CSVHeader {
		t.Errorf("to standard output: %q", said)
	}
	c.OK("archive", "import", clitest.ShopSite, "--format", "csv", c.Write("history.txt", clitest.CSVHeader+clitest.SomeHistory))
}

func TestParquetIsNotWrittenToATerminal(t *testing.T) {
	t.Parallel()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil || !term.IsTerminal(int(terminal.Fd())) {
		t.Skipf("there is no pseudo-terminal: %v", err)
	}
	defer func() { _ = terminal.Close() }()
	c := clitest.NewArchiveCLI(t, sara)
	var stderr bytes.Buffer
	args := []string{"archive", "export", clitest.ShopSite, "--from", "2025-01-01", "--to", "2025-01-02", "--format", "parquet"}
	status := sara(context.Background(), args, c.Env, nil, terminal, &stderr)
	if status != ExitError || !strings.Contains(stderr.String(), "--output FILE") {
		t.Errorf("status %d: %s", status, &stderr)
	}
}

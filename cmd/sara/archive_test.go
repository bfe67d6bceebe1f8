package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/term"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/console"
	"sara/proxy/upstream/gscsim"
	"sara/translate"
)

const (
	importMembers = "id rows_read days_archived days_kept days_differing rows_cut rows_skipped first_day last_day"
	csvHeader     = "date,dimension,key,clicks,impressions,position\n"
	shopSite      = "sc-domain:shop.example"
	copySite      = "sc-domain:copy.example"
)

// newArchiveCLI has two properties and nothing in the archive.
func newArchiveCLI(t *testing.T) *cli {
	t.Helper()
	c := newCLI(t)
	credentials, err := gscsim.User{ClientID: "id", ClientSecret: "secret", RefreshToken: "token"}.AuthorizedUserJSON()
	if err != nil {
		t.Fatal(err)
	}
	c.ok("account", "add", "Acme", "--plan", "pro")
	c.ok("workspace", "add", "Acme", "Web")
	c.ok("connection", "add", "Web", "--name", "mine", "--no-verify", "--credentials", c.write("mine.json", string(credentials)))
	for _, site := range []string{shopSite, copySite} {
		c.ok("property", "add", "mine", site, "--no-verify")
	}
	return c
}

// someHistory is three days, in the order of an export. Its keys need escaping in every format.
const someHistory = `2025-01-30,country,deu,3,40,2.5
2025-01-30,page,"https://shop.example/a,b?c=""d""",3,40,2.5
2025-01-30,query,"line
end",2,10,1.0000000000000002
2025-01-30,query," space ",1,20,11.25
2025-01-30,query,ключ,1,10,3
2025-01-30,total,,4,41,2.75
2025-02-01,device,MOBILE,0,1,100
2025-02-01,total,,0,1,100
2025-02-02,total,,9007199254740992,9007199254740992,1
`

func (c *cli) export(property, from, to, format string) string {
	c.t.Helper()
	return c.ok("archive", "export", property, "--from", from, "--to", to, "--format", format)
}

func TestExportedHistoryCanBeImported(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it runs dozens of commands")
	}
	c := newArchiveCLI(t)
	const from, to = "2025-01-01", "2025-03-01"
	done := c.object(importMembers, "archive", "import", "shop.example", c.write("all.csv", csvHeader+someHistory))
	for member, want := range map[string]any{"rows_read": 9., "days_archived": 7., "days_kept": 0., "rows_cut": 0.,
		"first_day": "2025-01-30", "last_day": "2025-02-02"} {
		if done[member] != want {
			t.Errorf("%s is %v, want %v", member, done[member], want)
		}
	}
	if got := c.export(shopSite, from, to, "csv"); got != csvHeader+someHistory {
		t.Errorf("exported:\n%s", got)
	}
	if got := c.export(shopSite, "2025-01-31", "2025-02-01", "csv"); strings.Count(got, "\n") != 3 || !strings.Contains(got, "MOBILE") {
		t.Errorf("a part of it:\n%s", got)
	}
	for i, format := range []string{"csv", "jsonl", "parquet"} {
		file := c.path("export." + format)
		if i%2 == 0 {
			c.ok("archive", "export", shopSite, "--from", from, "--to", to, "--format", format, "--output", file)
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the export has mode %v: %v", info.Mode(), err)
			}
		} else {
			c.write("export."+format, c.export(shopSite, from, to, format))
		}
		c.ok("archive", "import", copySite, "--replace", file)
		for _, as := range []string{"csv", "jsonl", "parquet"} {
			if c.export(copySite, from, to, as) != c.export(shopSite, from, to, as) {
				t.Errorf("imported from %s and exported as %s it differs", format, as)
			}
		}
	}
	c.noPartsLeft()
}

// noPartsLeft checks that no partial file is left.
func (c *cli) noPartsLeft() {
	c.t.Helper()
	if left, err := filepath.Glob(c.path("*.part*")); err != nil || len(left) > 0 {
		c.t.Errorf("there are %v (%v)", left, err)
	}
}

func TestImportRecordsArchivedDaysInDatabase(t *testing.T) {
	t.Parallel()
	c := newArchiveCLI(t)
	property := c.id(c.object(importMembers, "archive", "import", shopSite, c.write("all.csv", csvHeader+someHistory)))
	ctx := t.Context()
	store, err := sqlstore.Open(ctx, sqlstore.Config{URL: "sqlite:" + c.path("sara.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	days := func() string {
		t.Helper()
		state, known, err := store.ArchiveState(ctx, property)
		if err != nil || !known || state.First == nil || state.Last == nil {
			t.Fatalf("%+v, %t, %v", state, known, err)
		}
		return fmt.Sprint(state.First, " ", state.Last, " ", state.Note)
	}
	if got := days(); got != "2025-01-30 2025-02-02 " {
		t.Errorf("archived days: %s", got)
	}
	if err := store.SaveArchiveState(ctx, sqlstore.ArchiveState{PropertyID: property, Note: "no access"}); err != nil {
		t.Fatal(err)
	}
	c.ok("archive", "import", shopSite, c.write("more.csv", csvHeader+"2024-12-31,total,,1,2,3\n"))
	if got := days(); got != "2024-12-31 2025-02-02 no access" {
		t.Errorf("after another import: %s", got)
	}
}

func TestImportKeepsOrReplacesDays(t *testing.T) {
	t.Parallel()
	c := newArchiveCLI(t)
	c.ok("archive", "import", shopSite, c.write("old.csv", csvHeader+"2025-01-01,query,old,1,2,3\n2025-01-01,total,,1,2,3\n"))
	file := c.write("new.csv", csvHeader+"2025-01-01,query,new,5,6,7\n2025-01-01,page,https://shop.example/,5,6,7\n2025-01-02,query,new,5,6,7\n")
	for _, test := range []struct {
		args           []string
		archived, kept float64
		key            string
	}{
		{nil, 2, 1, "2025-01-01,query,old,1,2,3"},
		{[]string{"--replace"}, 3, 0, "2025-01-01,query,new,5,6,7"},
	} {
		done := c.object(importMembers, append([]string{"archive", "import", shopSite, file}, test.args...)...)
		if done["days_archived"] != test.archived || done["days_kept"] != test.kept {
			t.Errorf("%v: %v, want %v archived and %v kept", test.args, done, test.archived, test.kept)
		}
		got := c.export(shopSite, "2025-01-01", "2025-01-02", "csv")
		for _, want := range []string{test.key, "2025-01-01,total,,1,2,3", "2025-01-01,page,https://shop.example/,5,6,7", "2025-01-02,query,new,5,6,7"} {
			if !strings.Contains(got, want+"\n") {
				t.Errorf("%v: no %s in\n%s", test.args, want, got)
			}
		}
	}
}

func TestImportTruncatesDaysToTopRows(t *testing.T) {
	t.Parallel()
	c := newArchiveCLI(t)
	rows := csvHeader + "2025-01-01,device,TABLET,0,0,0\n"
	for i := range 120 {
		rows += fmt.Sprintf("2025-01-01,query,query %d,%d,1000,5\n2025-01-01,page,page %d,%d,1000,5\n2025-01-01,country,c%c%c,1,1,1\n",
			i, i, i, i, 'a'+i/26, 'a'+i%26)
	}
	table := columns(c.ok("archive", "import", shopSite, c.write("many.csv", rows)))
	if !slices.Equal(table[1][:6], []string{"361", "4", "0", "41", "2025-01-01", "2025-01-01"}) {
		t.Errorf("table: %v", table)
	}
	got := c.export(shopSite, "2025-01-01", "2025-01-01", "csv")
	if n := strings.Count(got, "\n"); n != 1+100+100+120 || !strings.Contains(got, "query 20,") || strings.Contains(got, "query 19,") {
		t.Errorf("%d lines:\n%.300s", n, got)
	}
}

func TestBadImportsChangeNothing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it runs dozens of commands")
	}
	c := newArchiveCLI(t)
	c.ok("archive", "import", shopSite, c.write("good.csv", csvHeader+someHistory))
	before := c.export(shopSite, "2025-01-01", "2026-12-31", "csv")
	const good = "2025-03-01,total,,1,2,3\n"
	calendar, err := translate.NewCalendar()
	if err != nil {
		t.Fatal(err)
	}
	tomorrow := calendar.Anchor(time.Now()) + 2 // the anchor may move while the test runs
	for _, test := range []struct{ file, text, want string }{
		{"bad.csv", csvHeader + good + "2025-02-30,total,,1,2,3\n", `line 3, column date: "2025-02-30"`},
		{"bad.csv", csvHeader + good + tomorrow.String() + ",total,,1,2,3\n", "line 3, column date: " + tomorrow.String() + " is after "},
		{"bad.csv", csvHeader + good + "2025-03-01,queries,a,1,2,3\n", `line 3, column dimension: "queries" is not query, page, country, device or total`},
		{"bad.csv", csvHeader + good + "2025-03-01,query,,1,2,3\n", "line 3, column key: it is empty"},
		{"bad.csv", csvHeader + good + "2025-03-02,total,x,1,2,3\n", `line 3, column key: "x"`},
		{"bad.csv", csvHeader + good + "2025-03-01,query,a,-1,2,3\n", `line 3, column clicks: "-1"`},
		{"bad.csv", csvHeader + good + "2025-03-01,query,a,1,2.5,3\n", `line 3, column impressions: "2.5"`},
		{"bad.csv", csvHeader + good + "2025-03-01,query,a,3,2,3\n", "line 3, column impressions: 2 impressions are fewer than the 3 clicks"},
		{"bad.csv", csvHeader + good + "2025-03-01,query,a,1,2,first\n", `line 3, column position: "first"`},
		{"bad.csv", csvHeader + good + "2025-03-01,query,a,1,2,0.9\n", "line 3, column position: 0.9"},
		{"bad.csv", csvHeader + good + good, "line 3, column key: 2025-03-01 total \"\" is already in line 2"},
		{"bad.csv", csvHeader + good + "2025-03-01,query,a,1,2\n", "line 3: it has 5 columns, not 6"},
		{"bad.csv", csvHeader + good + "2025-03-01,query,\"a,1,2,3\n", "line 3: a quote is not closed"},
		{"bad.csv", good, "column 1 of the header"},
		{"bad.csv", "", "the file is empty"},
		{"bad.jsonl", `{"date":"2025-03-01","dimension":"query","key":"a","clicks":"1","impressions":2,"position":3}` + "\n", "line 1, column clicks: "},
		{"bad.jsonl", `{"date":"2025-03-01","dimension":"query","key":"a","clicks":1,"impressions":2}` + "\n", "line 1, column position: it is missing"},
		{"bad.jsonl", csvHeader, "line 1: it is not a JSON object"},
		{"bad.parquet", csvHeader + good, "not a Parquet file"},
	} {
		t.Run(test.want, func(t *testing.T) {
			c.t = t
			file := c.write(test.file, test.text)
			want := []string{file + ": ", test.want}
			if strings.Contains(test.want, "line ") {
				want = append(want, "nothing has been imported")
			}
			c.fails(exitError, []string{"archive", "import", shopSite, "--replace", file}, want...)
			if after := c.export(shopSite, "2025-01-01", "2026-12-31", "csv"); after != before {
				t.Errorf("the archive has changed:\n%s", after)
			}
		})
	}
}

func TestExportOfEmptyArchive(t *testing.T) {
	t.Parallel()
	c := newArchiveCLI(t)
	for format, want := range map[string]string{"csv": csvHeader, "jsonl": ""} {
		if got := c.export(shopSite, "2025-01-01", "2025-01-31", format); got != want {
			t.Errorf("%s: %q, want %q", format, got, want)
		}
	}
	empty := c.write("empty.parquet", c.export(shopSite, "2025-01-01", "2025-01-31", "parquet"))
	done := c.object(importMembers, "archive", "import", copySite, empty)
	if done["rows_read"] != 0. || done["first_day"] != nil || done["last_day"] != nil {
		t.Errorf("importing it: %v", done)
	}
}

func TestArchiveCommandLines(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it runs dozens of commands")
	}
	c := newArchiveCLI(t)
	file := c.write("good.csv", csvHeader+someHistory)
	export := func(args ...string) []string { return append([]string{"archive", "export"}, args...) }
	for _, test := range []struct {
		status int
		args   []string
		want   []string
	}{
		{exitUsage, export(shopSite, "--from", "2025-01-01", "--to", "2025-01-02"), []string{"--format", "sara archive export --help"}},
		{exitUsage, export(shopSite, "--format", "csv", "--from", "2025-01-01"), []string{"--to"}},
		{exitUsage, export(shopSite, "--format", "xml", "--from", "2025-01-01", "--to", "2025-01-02"), []string{"csv", "parquet", `"xml"`}},
		{exitUsage, export(shopSite, "--format", "csv", "--from", "2025-01-02", "--to", "2025-01-01"), []string{"--from 2025-01-02 is after --to 2025-01-01"}},
		{exitUsage, export(shopSite, "--format", "csv", "--from", "2025-01-32", "--to", "2025-02-01"), []string{"--from", "YYYY-MM-DD"}},
		{exitError, export("nowhere.example", "--format", "csv", "--from", "2025-01-01", "--to", "2025-01-02"), []string{`there is no property "nowhere.example"`, "sara property list"}},
		{exitError, export(shopSite, "--format", "csv", "--from", "2025-01-01", "--to", "2025-01-02", "--output", c.folder), []string{c.folder + " is not a regular file"}},
		{exitError, export(shopSite, "--format", "csv", "--from", "2025-01-01", "--to", "2025-01-02", "--output", c.path("no/such")), []string{c.path("no/such")}},
		{exitError, export(shopSite, "--format", "csv", "--from", "2025-01-01", "--to", "2025-01-02", "--archive-url", "ftp://x"), []string{"SARA_ARCHIVE_URL (--archive-url): ftp://x: "}},
		{exitUsage, []string{"archive", "import", shopSite}, []string{"<path>"}},
		{exitUsage, []string{"archive", "import", shopSite, c.path("history.txt")}, []string{`"txt" is not csv, jsonl or parquet`, "--format"}},
		{exitUsage, []string{"archive", "import", shopSite, c.path("history")}, []string{"--format"}},
		{exitError, []string{"archive", "import", shopSite, c.path("none.csv")}, []string{"none.csv", "no such file"}},
		{exitError, []string{"archive", "import", shopSite, c.folder, "--format", "csv"}, []string{"it is not a regular file"}},
		{exitError, []string{"archive", "import", "nowhere.example", file}, []string{`there is no property "nowhere.example"`}},
	} {
		c.fails(test.status, test.args, test.want...)
	}
	c.noPartsLeft()
	c.ok("archive", "import", shopSite, "--format", "csv", c.write("history.txt", csvHeader+someHistory))
}

func TestParquetIsNotWrittenToATerminal(t *testing.T) {
	t.Parallel()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil || !term.IsTerminal(int(terminal.Fd())) {
		t.Skipf("there is no pseudo-terminal: %v", err)
	}
	defer func() { _ = terminal.Close() }()
	c := newArchiveCLI(t)
	var stderr bytes.Buffer
	args := []string{"archive", "export", shopSite, "--from", "2025-01-01", "--to", "2025-01-02", "--format", "parquet"}
	status := run(context.Background(), console.ProgramName, args, terminal, &stderr, c.env)
	if status != exitError || !strings.Contains(stderr.String(), "--output FILE") {
		t.Errorf("status %d: %s", status, &stderr)
	}
}

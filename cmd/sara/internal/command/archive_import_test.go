package command

import (
	"bytes"
	"compress/gzip"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sara/cmd/sara/internal/backend"
	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/internal/settings"
	"sara/translate"
)

const (
	siteHeader = "data_date,site_url,query,is_anonymized_query,country,search_type,device,impressions,clicks,sum_top_position\n"
	urlHeader  = "data_date,site_url,url,query,country,search_type,device,is_amp_story,impressions,clicks,sum_position\n"
	// someSite is two days: a key that repeats, a query that is withheld, another search type, another property.
	someSite = siteHeader + `2025-01-30,sc-domain:shop.example,alder,false,DEU,WEB,MOBILE,10,2,10
2025-01-30,sc-domain:shop.example,alder,false,deu,web,mobile,30,1,50
2025-01-30,sc-domain:shop.example,,true,deu,WEB,DESKTOP,1,1,0
2025-01-30,sc-domain:shop.example,alder,false,deu,IMAGE,DESKTOP,1000,100,0
2025-01-30,sc-domain:other.example,elm,false,deu,WEB,DESKTOP,1000,100,0
2025-01-31,sc-domain:shop.example,oak,,,WEB,,2,0,6
`
	someURLs   = urlHeader + "2025-01-30,sc-domain:shop.example,https://shop.example/,alder,deu,WEB,MOBILE,false,40,4,80\n"
	someImport = clitest.CSVHeader + `2025-01-30,country,deu,4,41,2.4634146341463414
2025-01-30,device,MOBILE,3,40,2.5
2025-01-30,device,DESKTOP,1,1,1
2025-01-30,page,https://shop.example/,4,40,3
2025-01-30,query,alder,3,40,2.5
2025-01-30,total,,4,41,2.4634146341463414
2025-01-31,country,,0,0,0
2025-01-31,device,,0,0,0
2025-01-31,query,oak,0,2,4
2025-01-31,total,,0,2,4
`
)

// pack writes a file compressed with gzip.
func pack(c *clitest.CLI, name, text string) string {
	c.T.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write([]byte(text))
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		c.T.Fatal(err)
	}
	return c.Write(name, packed.String())
}

func TestImportOfBulkExport(t *testing.T) {
	t.Parallel()
	c := clitest.NewArchiveCLI(t, sara)
	if err := os.MkdirAll(c.Path("export/.tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"_SUCCESS": "", ".hidden.csv": "x,y\n", ".tmp/site.csv": someSite,
		"readme.md": "How we export, and why\n", "empty.csv": ""} {
		c.Write("export/"+name, text)
	}
	pack(c, "export/site-000000000000.csv.gz", someSite)
	c.Write("export/url.csv", someURLs)
	done := c.Object(importMembers, "archive", "import", clitest.ShopSite, c.Path("export"), "--temp", c.Path("temp"))
	for member, want := range map[string]any{"rows_read": 7., "days_archived": 9., "days_kept": 0., "rows_skipped": 2.,
		"first_day": "2025-01-30", "last_day": "2025-01-31"} {
		if done[member] != want {
			t.Errorf("%s is %v, want %v", member, done[member], want)
		}
	}
	for _, want := range []string{"left out: 1 row of other properties", "left out: 1 row of other searches", "readme.md is left out",
		"empty.csv is left out", "1 day (2025-01-31) without pages"} {
		if !strings.Contains(c.LastErrs, want) {
			t.Errorf("standard error lacks %q:\n%s", want, c.LastErrs)
		}
	}
	if got := exportCSV(c, clitest.ShopSite, "2025-01-01", "2025-03-01", "csv"); got != someImport {
		t.Errorf("archived:\n%s\nwant:\n%s", got, someImport)
	}
	if left, err := os.ReadDir(c.Path("temp")); err != nil || len(left) > 0 {
		t.Errorf("%v are left (%v)", left, err)
	}
	// Again, with other figures, by a pattern and a name of the same file.
	c.Write("export/site.csv", strings.ReplaceAll(someSite, ",10,2,10\n", ",10,3,10\n"))
	done = c.Object(importMembers, "archive", "import", clitest.ShopSite, c.Path("export/s*.csv"), c.Path("export/site.csv"),
		c.Path("export/url.csv"), "--temp", c.Path("temp"))
	if done["days_archived"] != 0. || done["days_differing"] != 4. || done["rows_read"] != 7. {
		t.Errorf("a second import: %v", done)
	}
	for _, want := range []string{"1 day (2025-01-30) of dimension total kept as archived",
		"2025-01-30: archived 4 clicks, 41 impressions; in the files 5 clicks, 41 impressions"} {
		if !strings.Contains(c.LastErrs, want) {
			t.Errorf("standard error lacks %q:\n%s", want, c.LastErrs)
		}
	}
}

func TestBadBulkExportsChangeNothing(t *testing.T) {
	t.Parallel()
	c := clitest.NewArchiveCLI(t, sara)
	noHeader := strings.TrimPrefix(someSite, siteHeader)
	for _, test := range []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"other properties", map[string]string{"site.csv": siteHeader + "2025-01-30,sc-domain:other.example,elm,false,deu,WEB,DESKTOP,1,1,0\n"},
			[]string{"no rows of sc-domain:shop.example, only of the site_url sc-domain:other.example"}},
		{"no header", map[string]string{"a.csv": someSite, "b.csv": noHeader}, []string{"b.csv: it has no header line", "header=true"}},
		{"other columns", map[string]string{"a.json": `{"data_date":"2025-01-30","clicks":"1"}`},
			[]string{"a.json: its columns match neither table"}},
		{"missing column", map[string]string{"a.csv": "data_date,site_url,clicks,sum_top_position\n"}, []string{"a.csv: column search_type is missing"}},
		{"both kinds", map[string]string{"a.csv": someSite, "b.csv": clitest.CSVHeader + clitest.SomeHistory},
			[]string{"b.csv has the columns of an archive", "a.csv those of the bulk export"}},
		{"bad day",
			map[string]string{"a.csv": someSite, "b.csv": siteHeader + "2025-02-30,sc-domain:shop.example,elm,false,deu,WEB,DESKTOP,1,1,0\n"},
			[]string{`b.csv: row 1: data_date is "2025-02-30"`}},
		{"clicks without impressions",
			map[string]string{"a.csv": siteHeader + "2025-02-20,sc-domain:shop.example,elm,false,deu,WEB,DESKTOP,1,2,0\n"},
			[]string{"a.csv: row 1: clicks of 2, impressions of 1"}},
		{"torn", map[string]string{"a.csv": someSite, "b.csv.gz": "\x1f\x8b\x08\x00\x00\x00"}, []string{"b.csv.gz: gzip: "}},
		{"nothing", map[string]string{"_SUCCESS": ""}, []string{"there is no file"}},
	} {
		folder := c.Path(test.name)
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range test.files {
			c.Write(filepath.Join(test.name, name), text)
		}
		c.Fails(ExitError, []string{"archive", "import", clitest.ShopSite, folder, "--temp", c.Path("temp")}, test.want...)
	}
	c.Fails(ExitError, []string{"archive", "import", clitest.ShopSite, c.Write("alone.csv", noHeader)},
		"alone.csv: it has no header line", "header=true")
	c.Fails(ExitError, []string{"archive", "import", clitest.ShopSite, c.Path("none-*.csv"), "--temp", c.Path("temp")}, "none-*.csv: no file matches")
	c.Fails(ExitError, []string{"archive", "import", clitest.ShopSite, c.Write("good.csv", someSite), "--temp", c.Path("temp"),
		"--export-log", c.Path("good.csv")}, "it is not the table ExportLog")
	if got := exportCSV(c, clitest.ShopSite, "2025-01-01", "2025-12-31", "csv"); got != clitest.CSVHeader {
		t.Errorf("archived:\n%s", got)
	}
}

func TestShardsOfAnArchiveAreImported(t *testing.T) {
	t.Parallel()
	c := clitest.NewArchiveCLI(t, sara)
	lines := strings.SplitAfter(clitest.SomeHistory, "\n")
	half := len(lines) / 2
	one, two := pack(c, "one.csv.gz", clitest.CSVHeader+strings.Join(lines[half:], "")), c.Write("two", clitest.CSVHeader+strings.Join(lines[:half], ""))
	c.OK("archive", "import", clitest.ShopSite, one, two)
	if got := exportCSV(c, clitest.ShopSite, "2025-01-01", "2025-03-01", "csv"); got != clitest.CSVHeader+clitest.SomeHistory {
		t.Errorf("archived:\n%s", got)
	}
	c.Fails(ExitError, []string{"archive", "import", clitest.CopySite,
		c.Write("a.csv", clitest.CSVHeader+"2025-01-01,total,,1,2,3\n"), c.Write("b.csv", clitest.CSVHeader+"2025-01-01,total,,1,2,3\n")},
		"b.csv: row 1, column key: 2025-01-01 total \"\" is already in "+c.Path("a.csv")+": row 1", "nothing has been imported")
}

// A cancelingWriter calls cancel when it is written to.
type cancelingWriter struct {
	bytes.Buffer
	cancel func()
}

func (w *cancelingWriter) Write(p []byte) (int, error) {
	w.cancel()
	return w.Buffer.Write(p)
}

// A file that was cut within its last field looks whole, but for the end of its last line.
func TestImportNotesCSVWithoutALastLineEnd(t *testing.T) {
	t.Parallel()
	c := clitest.NewArchiveCLI(t, sara)
	cut := strings.TrimSuffix(clitest.CSVHeader+clitest.SomeHistory, "\n")
	for name, test := range map[string]struct {
		args  []string
		noted bool
	}{
		"a cut file":            {[]string{c.Write("cut.csv", cut)}, true},
		"a cut file, by format": {[]string{c.Write("cut", cut), "--format", "csv"}, true},
		"two, one cut":          {[]string{c.Write("whole.csv", clitest.CSVHeader+"2025-03-01,total,,1,2,3\n"), c.Path("cut")}, true},
		"a cut bulk export":     {[]string{c.Write("site.csv", strings.TrimSuffix(someSite, "\n")), "--temp", c.Path("temp")}, true},
		"a whole file":          {[]string{c.Path("whole.csv")}, false},
		"a whole packed file":   {[]string{pack(c, "packed.csv.gz", clitest.CSVHeader+"2025-03-01,total,,1,2,3\n")}, false},
		"a whole file of lines": {[]string{c.Write("a.jsonl", `{"date":"2025-03-01","dimension":"total","key":"","clicks":1,"impressions":2,"position":3}`)}, false},
	} {
		c.OK(append([]string{"archive", "import", clitest.ShopSite}, test.args...)...)
		if noted := strings.Contains(c.LastErrs, "does not end with a line end"); noted != test.noted {
			t.Errorf("%s: noted: %t\n%s", name, noted, c.LastErrs)
		}
	}
}

func TestInterruptedBulkImportContinues(t *testing.T) {
	t.Parallel()
	c := clitest.NewArchiveCLI(t, sara)
	ctx, cancel := context.WithCancelCause(context.Background())
	args := []string{"archive", "import", clitest.ShopSite, c.Write("empty.csv", ""), c.Write("site.csv", someSite),
		c.Write("url.csv", someURLs), "--temp", c.Path("temp")}
	// The note that a file is empty is written before files are read.
	out, errs := new(bytes.Buffer), &cancelingWriter{cancel: func() { cancel(Interruption{os.Interrupt}) }}
	status := sara(ctx, args, c.Env, nil, out, errs)
	if status != 130 || !strings.Contains(errs.String(), "what was read is kept in "+c.Path("temp")) ||
		!strings.Contains(errs.String(), "sara: interrupted\n") {
		t.Errorf("status %d: %s", status, &errs.Buffer)
	}
	if got := exportCSV(c, clitest.ShopSite, "2025-01-01", "2025-03-01", "csv"); got != clitest.CSVHeader {
		t.Errorf("archived:\n%s", got)
	}
	c.OK(args...)
	if !strings.Contains(c.LastErrs, "an import that was interrupted is complete") {
		t.Errorf("standard error: %s", c.LastErrs)
	}
	if got := exportCSV(c, clitest.ShopSite, "2025-01-01", "2025-03-01", "csv"); got != someImport {
		t.Errorf("archived:\n%s\nwant:\n%s", got, someImport)
	}
}

// An import of years that the plan does not keep would be deleted without a word.
func TestImportWarnsOfDaysThatThePlanDoesNotKeep(t *testing.T) {
	t.Parallel()
	c := clitest.NewArchiveCLI(t, sara)
	const warning = "sara: the plan pro keeps 36 months of history: the next collection deletes the days before 20"
	imported := func(site, day string) bool {
		c.OK("archive", "import", site, c.Write("days.csv", clitest.CSVHeader+day+",total,,1,2,3\n"))
		return strings.Contains(c.LastErrs, warning)
	}
	if imported(clitest.ShopSite, time.Now().AddDate(0, -36, 0).Format(time.DateOnly)) {
		t.Error("it warns of a day that the plan keeps")
	}
	if !imported(clitest.ShopSite, "2019-05-01") {
		t.Errorf("it does not warn:\n%s", c.LastErrs)
	}
	c.OK("property", "archive", clitest.CopySite)
	if imported(clitest.CopySite, "2019-05-01") {
		t.Error("it warns of a property that is not collected")
	}
	c.OK("account", "plan", "Acme", "own")
	if imported(clitest.ShopSite, "2019-05-02") {
		t.Error("it warns of a day that the plan own keeps")
	}
}

func TestQueryForBigQuery(t *testing.T) {
	t.Parallel()
	c := clitest.NewArchiveCLI(t, sara)
	got := c.OK("archive", "bigquery-sql", "shop.example", "--dataset", "my-project.searchconsole",
		"--from", "2024-01-01", "--to", "2024-12-31", "--uri", "gs://mine/a/sara-*.parquet")
	for _, want := range []string{"EXPORT DATA OPTIONS(uri='gs://mine/a/sara-*.parquet', format='PARQUET'",
		"FROM `my-project.searchconsole.searchdata_site_impression`",
		"BETWEEN DATE '2024-01-01' AND DATE '2024-12-31' AND site_url = 'sc-domain:shop.example'", "`my-project.searchconsole.ExportLog`"} {
		if !strings.Contains(got, want) {
			t.Errorf("the query lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "{") && !strings.Contains(got, "{3}") {
		t.Errorf("a placeholder is left:\n%s", got)
	}
	for _, bad := range [][]string{{"--dataset", "a`; DROP TABLE x"}, {"--dataset", "a.b.c;"}, {"--dataset", "d", "--uri", "gs://b/x'*"},
		{"--dataset", "d", "--uri", "s3://b/*"}} {
		c.Fails(ExitUsage, append([]string{"archive", "bigquery-sql", clitest.ShopSite}, bad...), "is not a ")
	}
	c.Fails(ExitUsage, []string{"archive", "bigquery-sql", clitest.ShopSite}, "--dataset")
	c.Fails(ExitUsage, []string{"archive", "bigquery-sql", clitest.ShopSite, "--dataset", "d", "--from", "2025-01-02", "--to", "2025-01-01"},
		"--from 2025-01-02 is after --to 2025-01-01")
}

func TestProgressOfAnImport(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p, end := newImportProgress(&out, 3)
	defer end()
	p.Reading(0, 4<<20, 0)
	p.print()
	p.Reading(1<<20, 4<<20, 12345)
	p.print()
	p.Writing(0, 16)
	p.print()
	want := "reading 3 files: 0 B of 4.0 MiB, 0 rows\n" +
		"reading 3 files: 1.0 MiB of 4.0 MiB, 12,345 rows (25 %), about 0s left\n" +
		"archiving: 0 of 16 months\n"
	one, end := newImportProgress(&out, 1)
	defer end()
	one.Reading(0, 4<<20, 1)
	one.print()
	want += "reading 1 file: 0 B of 4.0 MiB, 1 row\n"
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", &out, want)
	}
}

// What is imported of the last days may still change: it is not final, so that it is collected again.
func TestImportsOfTheLastDaysAreNotFinal(t *testing.T) {
	t.Parallel()
	c := clitest.NewArchiveCLI(t, sara)
	calendar, err := translate.NewCalendar()
	if err != nil {
		t.Fatal(err)
	}
	anchor := calendar.Anchor(time.Now())
	settled, changing := anchor-7, anchor-5 // also if the anchor moves meanwhile
	row := func(day translate.Date) string { return day.String() + ",total,,4,41,2.75\n" }
	old, fresh := c.Write("old.csv", clitest.CSVHeader+row(settled)), c.Write("new.csv", clitest.CSVHeader+row(changing))
	site := siteHeader
	for _, day := range []translate.Date{settled, changing} {
		site += day.String() + ",sc-domain:shop.example,alder,false,deu,WEB,MOBILE,10,2,10\n"
	}
	for name, paths := range map[string][]string{"a file": {c.Write("both.csv", clitest.CSVHeader+row(settled)+row(changing))},
		"files": {old, fresh}, "a bulk export": {c.Write("site.csv", site)}} {
		id := c.ID(c.Object(importMembers, append([]string{"archive", "import", clitest.ShopSite, "--replace", "--temp", c.Path("temp")}, paths...)...))
		history, err := backend.OpenArchive(settings.Archive{ArchiveURL: settings.LocalArchive(c.Path("archive"))}, time.Now) // which has nothing in memory
		if err != nil {
			t.Fatal(err)
		}
		inventory, err := history.Days(t.Context(), id)
		if totals := inventory[translate.ByDate]; err != nil || !totals.HasFinal(settled) || !totals.Has(changing) || totals.HasFinal(changing) {
			t.Errorf("%s of %s and %s: %+v, %v", name, settled, changing, totals, err)
		}
		if _, err := history.Erase(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
}

package command

import (
	"archive/zip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sara/archive/filelock"
	"sara/cmd/sara/internal/clitest"
)

// filesBelow returns the paths of all files in a folder.
func filesBelow(t *testing.T, folder string) (paths []string) {
	t.Helper()
	if err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			paths = append(paths, strings.TrimPrefix(path, folder+"/"))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestManyPropertiesAreExportedIntoAFolder(t *testing.T) {
	t.Parallel()
	c := clitest.NewArchiveCLI(t, sara)
	history := c.Write("all.csv", clitest.CSVHeader+clitest.SomeHistory)
	c.OK("archive", "import", clitest.ShopSite, history)
	c.OK("archive", "import", clitest.CopySite, c.Write("one.csv", clitest.CSVHeader+"2024-12-31,total,,1,2,3\n"))
	folder := c.Path("export")
	if said := c.OK("archive", "export", "*", "--output", folder); said != "3 months of 2 properties are in "+folder+"\n" {
		t.Errorf("it prints %q", said)
	}
	want := "properties.csv property=copy-example/month=2024-12/data.parquet " +
		"property=shop-example/month=2025-01/data.parquet property=shop-example/month=2025-02/data.parquet"
	if got := strings.Join(filesBelow(t, folder), " "); got != want {
		t.Errorf("the files are %s, want %s", got, want)
	}
	properties, err := os.ReadFile(filepath.Join(folder, "properties.csv"))
	if lines := strings.Split(string(properties), "\n"); err != nil || len(lines) != 4 ||
		lines[0] != "property,id,gsc_property,domain,type,display_name,archived" || !strings.Contains(string(properties), "\nshop-example,") {
		t.Errorf("properties: %v\n%s", err, properties)
	}
	// Each file can be imported again.
	c.OK("archive", "import", clitest.CopySite, "--replace", filepath.Join(folder, "property=shop-example/month=2025-01/data.parquet"))
	// Those of several properties are not those of one.
	c.Fails(ExitError, []string{"archive", "import", clitest.CopySite, filepath.Join(folder, "property=*/month=*/data.parquet")},
		"the files are of several properties (copy-example, shop-example): import those of one at a time")

	c.Fails(ExitError, []string{"archive", "export", "shop*", "--output", folder}, "is not empty. Nothing was written", "--force")
	c.OK("archive", "export", "shop*", "--output", c.Path("part"), "--format", "csv", "--from", "2025-02-01", "--to", "2025-02-01")
	if got := strings.Join(filesBelow(t, c.Path("part")), " "); got != "properties.csv property=shop-example/month=2025-02/data.csv" {
		t.Errorf("a part: %s", got)
	}
	if c.OK("archive", "export", "*", "--output", folder, "--force"); c.LastErrs != "" {
		t.Errorf("the same export again says %q", c.LastErrs)
	}
	c.OK("archive", "export", "shop*", "--output", folder, "--force")
	if want := "too, and part of the table: 2, first property=copy-example/month=2024-12/data.parquet\n"; !strings.HasSuffix(c.LastErrs, want) {
		t.Errorf("of files that stay it says %q, want %q", c.LastErrs, want)
	}
	c.Fails(ExitError, []string{"archive", "export", "none*", "--output", folder}, `there is no property "none*"`)
	c.Fails(ExitUsage, []string{"archive", "export", "*"}, "--output")
	noPartsLeft(c)
}

// The folder is one table: a property that was removed must not be counted in it, nor one twice that has another name.
func TestExportDeletesWhatIsStaleInItsFolder(t *testing.T) {
	t.Parallel()
	c := clitest.NewArchiveCLI(t, sara)
	for _, site := range []string{clitest.ShopSite, clitest.CopySite} {
		c.OK("archive", "import", site, c.Write("one.csv", clitest.CSVHeader+"2024-12-31,total,,1,2,3\n"))
	}
	folder := c.Path("export")
	export := []string{"archive", "export", "*", "--output", folder, "--force"}
	c.OK(export...)
	c.Write("export/property=shop-example/notes.txt", "of the same property")
	ids := make(map[any]string)
	for _, p := range c.Array(clitest.PropertyMembers, "property", "list") {
		ids[p["gsc_property"]] = c.ID(p)
	}
	c.Write("export/properties.csv", "property,id,gsc_property\n../export,none,x\nshop-2,"+ids[clitest.ShopSite]+",x\nrenamed,"+
		ids[clitest.CopySite]+",x\ncopy-example,removed,x\n")
	for _, name := range []string{"shop-2", "renamed", "mine"} {
		if err := os.MkdirAll(c.Path("export/property="+name), 0o700); err != nil {
			t.Fatal(err)
		}
		c.Write("export/property="+name+"/data.csv", "")
	}
	c.Write("export/property=copy-example/month=2024-12/data.csv", "of a removed property with the same name")
	c.OK("archive", "export", "copy*", "--output", folder, "--force")
	want := "properties.csv property=copy-example/data.csv property=copy-example/month=2024-12/data.parquet property=mine/data.csv " +
		"property=shop-2/data.csv property=shop-example/month=2024-12/data.parquet property=shop-example/notes.txt"
	if got := strings.Join(filesBelow(t, folder), " "); got != want {
		t.Errorf("the files are %s, want %s", got, want)
	}

	c.OK(export...)
	c.OK("property", "remove", clitest.CopySite, "--yes")
	c.OK(export...)
	if want := folder + "/property=copy-example is deleted: "; !strings.Contains(c.LastErrs, want) {
		t.Errorf("it lacks %q: %s", want, c.LastErrs)
	}
	want = "properties.csv property=mine/data.csv property=shop-example/month=2024-12/data.parquet property=shop-example/notes.txt"
	if got := strings.Join(filesBelow(t, folder), " "); got != want {
		t.Errorf("the files are %s, want %s", got, want)
	}
}

// A property whose name has become free takes its earlier files along, in whatever order the names are.
func TestExportRenamesAfterItHasDeleted(t *testing.T) {
	t.Parallel()
	c := clitest.NewArchiveCLI(t, sara)
	c.OK("archive", "import", clitest.CopySite, c.Write("one.csv", clitest.CSVHeader+"2024-12-31,total,,1,2,3\n"))
	folder := c.Path("export")
	for _, name := range []string{"a", "copy-example"} {
		if err := os.MkdirAll(filepath.Join(folder, "property="+name, "month=2020-01"), 0o700); err != nil {
			t.Fatal(err)
		}
		c.Write("export/property="+name+"/month=2020-01/data.csv", "of "+name)
	}
	for _, p := range c.Array(clitest.PropertyMembers, "property", "list") {
		if p["gsc_property"] == clitest.CopySite {
			c.Write("export/properties.csv", "property,id\na,"+c.ID(p)+"\ncopy-example,removed\n")
		}
	}
	c.OK("archive", "export", "copy*", "--output", folder, "--force")
	want := "properties.csv property=copy-example/month=2020-01/data.csv property=copy-example/month=2024-12/data.parquet"
	if got := strings.Join(filesBelow(t, folder), " "); got != want {
		t.Errorf("the files are %s, want %s", got, want)
	}
	if text, err := os.ReadFile(c.Path("export/property=copy-example/month=2020-01/data.csv")); string(text) != "of a" {
		t.Errorf("it has the file %s (%v)", text, err)
	}
}

// Two runs in one folder would mix their files. What a killed run has left is deleted.
func TestAFolderIsExportedByOneRun(t *testing.T) {
	t.Parallel()
	c := clitest.NewArchiveCLI(t, sara)
	c.OK("archive", "import", clitest.CopySite, c.Write("one.csv", clitest.CSVHeader+"2024-12-31,total,,1,2,3\n"))
	folder := c.Path("export")
	export := []string{"archive", "export", "copy*", "--output", folder, "--force"}
	c.OK(export...)
	left := []string{".tmp-ABCDEFGHIJKLMNOPQRSTUVWXYZ", "property=copy-example/month=2024-12/.tmp-ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
	for _, name := range left {
		c.Write(filepath.Join("export", name), "of a run that was killed")
	}
	other, err := filelock.OpenFolder(folder)
	if err != nil {
		t.Fatal(err)
	}
	c.Fails(ExitError, export, "another run of sara is writing into "+folder)
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	c.OK(export...)
	if got := strings.Join(filesBelow(t, folder), " "); got != "properties.csv property=copy-example/month=2024-12/data.parquet" {
		t.Errorf("the files are %s", got)
	}
}

// An export of some properties lists the others whose files stay, so that these are deleted once their property is removed.
func TestExportOfSomePropertiesKeepsTheListOfTheOthers(t *testing.T) {
	t.Parallel()
	c := clitest.NewArchiveCLI(t, sara)
	for _, site := range []string{clitest.ShopSite, clitest.CopySite} {
		c.OK("archive", "import", site, c.Write("one.csv", clitest.CSVHeader+"2024-12-31,total,,1,2,3\n"))
	}
	folder := c.Path("export")
	c.OK("archive", "export", "copy*", "--output", folder)
	c.OK("archive", "export", "shop*", "--output", folder, "--force")
	list, err := os.ReadFile(c.Path("export/properties.csv"))
	for _, name := range []string{"copy-example", "shop-example"} {
		if err != nil || strings.Count(string(list), "\n"+name+",") != 1 {
			t.Errorf("the list does not have %s once: %v\n%s", name, err, list)
		}
	}
	c.OK("property", "remove", clitest.CopySite, "--yes")
	c.OK("archive", "export", "shop*", "--output", folder, "--force")
	want := "properties.csv property=shop-example/month=2024-12/data.parquet"
	if got := strings.Join(filesBelow(t, folder), " "); got != want {
		t.Errorf("the files are %s, want %s", got, want)
	}
}

// Two workspaces may use the same slug: each property has a folder of its own, whatever is exported with it.
func TestExportNamesAFolderByTheIDIfTheSlugIsNotUnique(t *testing.T) {
	t.Parallel()
	c := clitest.NewArchiveCLI(t, sara)
	c.OK("workspace", "add", "Acme", "Print")
	c.OK("connection", "add", "Print", "--name", "other", "--no-verify", "--credentials", c.Path("mine.json"))
	c.OK("property", "add", "other", "sc-domain:print.example", "--slug", "shop-example", "--no-verify")
	var want []string
	for _, p := range c.Array(clitest.PropertyMembers, "property", "list") {
		if p["slug"] == "shop-example" {
			c.OK("archive", "import", c.ID(p), c.Write("one.csv", clitest.CSVHeader+"2024-12-31,total,,1,2,3\n"))
			want = append(want, "property="+c.ID(p)+"/month=2024-12/data.parquet")
		}
	}
	slices.Sort(want)
	folder := c.Path("export")
	c.OK("archive", "export", "shop.*", "--output", folder)
	c.OK("archive", "export", "print.*", "--output", folder, "--force")
	if got := filesBelow(t, folder); !slices.Equal(got, append([]string{"properties.csv"}, want...)) || len(want) != 2 {
		t.Errorf("the files are %v, want %v", got, want)
	}
}

func TestExportTakesTheFormatFromTheFileAndAsksBeforeItOverwrites(t *testing.T) {
	t.Parallel()
	c := clitest.NewArchiveCLI(t, sara)
	c.OK("archive", "import", clitest.ShopSite, c.Write("all.csv", clitest.CSVHeader+clitest.SomeHistory))
	export := []string{"archive", "export", clitest.ShopSite, "--from", "2025-01-01", "--to", "2025-12-31", "--output", c.Path("shop.csv")}
	c.OK(export...)
	if text, err := os.ReadFile(c.Path("shop.csv")); err != nil || string(text) != clitest.CSVHeader+clitest.SomeHistory {
		t.Errorf("%v\n%s", err, text)
	}
	c.Fails(ExitError, export, c.Path("shop.csv")+" exists. Nothing was written", "--force")
	c.OK(append(export, "--force")...)
}

// An export without rows looks like that of a site without traffic.
func TestExportSaysThatNoDayIsArchived(t *testing.T) {
	t.Parallel()
	c := clitest.NewArchiveCLI(t, sara)
	c.OK("archive", "import", clitest.ShopSite, c.Write("all.csv", clitest.CSVHeader+clitest.SomeHistory))
	const none = "sara: none of these days of " + clitest.ShopSite + " is archived: the archive begins on 2025-01-30 and ends on 2025-02-02\n"
	for _, test := range []struct{ site, day, want string }{
		{clitest.ShopSite, "2025-02-03", none},
		{clitest.ShopSite, "2025-01-31", none}, // a gap
		{clitest.CopySite, "2025-02-01", "sara: no day of " + clitest.CopySite + " is archived: sara collect archives what Search Console has\n"},
		{clitest.ShopSite, "2025-02-02", ""},
	} {
		if exportCSV(c, test.site, test.day, test.day, "csv"); c.LastErrs != test.want {
			t.Errorf("%s of %s: %q, want %q", test.day, test.site, c.LastErrs, test.want)
		}
	}
}

// A link to a file on another disk stays, and the export is on that disk.
func TestExportWritesWhereALinkLeads(t *testing.T) {
	t.Parallel()
	c := clitest.NewArchiveCLI(t, sara)
	c.OK("archive", "import", clitest.ShopSite, c.Write("all.csv", clitest.CSVHeader+clitest.SomeHistory))
	file, link := filepath.Join(t.TempDir(), "data.csv"), c.Path("shop.csv")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, force := range []string{"--force=false", "--force"} { // the file does not exist, then it does
		c.OK("archive", "export", clitest.ShopSite, "--from", "2025-01-01", "--to", "2025-12-31", "--output", link, force)
		text, err := os.ReadFile(file)
		if to, linkErr := os.Readlink(link); err != nil || linkErr != nil || to != file || string(text) != clitest.CSVHeader+clitest.SomeHistory {
			t.Errorf("%s: the link is to %q (%v), and there is %.20q (%v)", force, to, linkErr, text, err)
		}
	}
}

// The export of Search Console's own button.
func TestSearchConsoleExportsAreImported(t *testing.T) {
	t.Parallel()
	c := clitest.NewArchiveCLI(t, sara)
	files := map[string]string{
		"Dates.csv":   "\ufeffDate,Clicks,Impressions,CTR,Position\n2025-01-30,4,41,9.76%,2.75\n2025-01-31,0,0,0%,0\n2099-01-01,1,2,50%,1\n",
		"Queries.csv": "Top queries,Clicks,Impressions,CTR,Position\nalder,4,41,9.76%,2.75\n",
		"Pages.csv":   "Top pages,Clicks,Impressions,CTR,Position\nhttps://shop.example/,4,41,9.76%,2.75\n",
		"Filters.csv": "Filter,Value\nSearch type,Web\nDate,Last 3 months\n",
	}
	pack := func(name string) string {
		t.Helper()
		file, err := os.Create(c.Path(name))
		if err != nil {
			t.Fatal(err)
		}
		packed := zip.NewWriter(file)
		for name, text := range files {
			w, err := packed.Create(name)
			if err == nil {
				_, err = w.Write([]byte(text))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := packed.Close(); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		return c.Path(name)
	}
	done := c.Object(importMembers, "archive", "import", clitest.ShopSite, pack("export.zip"))
	if done["rows_read"] != 2. || done["first_day"] != "2025-01-30" || done["days_archived"] != 1.+5 {
		t.Errorf("imported %v", done)
	}
	for _, want := range []string{"only the totals of 2 days are imported, from Dates.csv", "1 day after",
		"Pages.csv, Queries.csv: not imported, because they have sums of the whole period"} {
		if !strings.Contains(c.LastErrs, want) {
			t.Errorf("it lacks %q:\n%s", want, c.LastErrs)
		}
	}
	if got := exportCSV(c, clitest.ShopSite, "2025-01-01", "2025-12-31", "csv"); got != clitest.CSVHeader+"2025-01-30,total,,4,41,2.75\n2025-01-31,total,,0,0,0\n" {
		t.Errorf("archived:\n%s", got)
	}
	if err := os.Mkdir(c.Path("unpacked"), 0o700); err != nil {
		t.Fatal(err)
	}
	c.Write("unpacked/Chart.csv", files["Dates.csv"])
	c.OK("archive", "import", clitest.CopySite, c.Path("unpacked"))

	refused := func(name, text, want string) {
		t.Helper()
		before := files[name]
		files[name] = text
		c.Fails(ExitError, []string{"archive", "import", clitest.ShopSite, pack("bad.zip")}, "bad.zip: ", want)
		files[name] = before
	}
	refused("Filters.csv", "Filter,Value\nSearch type,Web\nPage,+/blog/\n", `it is filtered by "Page" ("+/blog/")`)
	refused("Filters.csv", "Filter,Value\nSearch type,Image\n", `it is filtered by "Search type" ("Image")`)
	// The form of an export of the last 24 hours, and of one in French.
	hours := "Time (UTC+03:00),Clicks,Impressions,CTR,Position\n2025-12-15T21:00:00,0,0,0%,0\n"
	refused("Dates.csv", hours, "export days")
	filters := files["Filters.csv"]
	files["Filters.csv"] = "Filter,Value\nSearch type,Web\nTime range,Last 24 hours\n"
	refused("Dates.csv", hours, "export days")
	files["Filters.csv"] = filters
	refused("Dates.csv", "Date,Clics,Impressions,CTR,Position\n2025-02-05,6443,371375,1.73%,23.8\n", "in English")
	refused("Dates.csv", "Datum,Klicks,Impressionen,CTR,Position\n", "Dates.csv: its columns are ")
	refused("Dates.csv", "Date,Clicks,Impressions,CTR,Position\n2025-01-30,many,41,9.76%,2.75\n", "line 2, column clicks")
	delete(files, "Dates.csv")
	c.Fails(ExitError, []string{"archive", "import", clitest.ShopSite, pack("bad.zip")}, "it has no Dates.csv or Chart.csv")
	c.Fails(ExitError, []string{"archive", "import", clitest.ShopSite, c.Write("broken.zip", "no zip")}, "broken.zip: ")
}

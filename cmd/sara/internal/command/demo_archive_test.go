package command

import (
	"strings"
	"testing"
	"time"

	"sara/archive"
	"sara/archive/bucket"
	"sara/cmd/sara/internal/backend"
	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/internal/demo"
	"sara/cmd/sara/internal/settings"
	"sara/translate"
)

// TestDemoArchiveMatchesCollector compares the archive that the demo makes with one that was collected.
func TestDemoArchiveMatchesCollector(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it builds a simulated Search Console without retention")
	}
	people, _ := clitest.Simulate(t)
	c := clitest.New(t, sara).Against(people)
	c.Env = append(c.Env, "SARA_COLLECT_RATE=100000")
	c.OK("account", "add", "Acme", "--plan", "pro")
	c.OK("workspace", "add", "Acme", "Web")
	c.OK("connection", "add", "Web", "--name", "mine", "--credentials", c.Path(demo.PortfolioConnection+".json"))
	property := c.Object(clitest.PropertyMembers, "property", "add", "mine", demo.SiteArchived)

	store, err := bucket.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	made, err := archive.NewHistory(archive.HistoryConfig{Bucket: store})
	if err != nil {
		t.Fatal(err)
	}
	h, err := demo.NewPast(people, made, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	days := translate.DateRange{Start: h.Anchor - 4, End: h.Anchor}
	if err := h.Archive(t.Context(), demo.Property{ID: c.ID(property), GSCProperty: demo.SiteArchived}, days); err != nil {
		t.Fatal(err)
	}
	c.OK("collect", "--property", demo.SiteArchived, "--since", days.Start.String(), "--until", days.End.String())
	collected, err := backend.OpenArchive(settings.Archive{ArchiveURL: settings.LocalArchive(c.Path("archive"))}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if want, got := exported(t, collected, c.ID(property), days), exported(t, made, c.ID(property), days); got != want {
		t.Errorf("the demo archives\n%.600s\nand the collector\n%.600s", got, want)
	}
	wanted, err := collected.Days(t.Context(), c.ID(property))
	if err != nil {
		t.Fatal(err)
	}
	got, err := made.Days(t.Context(), c.ID(property))
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range archive.Dimensions() {
		if a, b := got[by], wanted[by]; b.Days != 5 || a.Days != b.Days || len(a.Provisional) != len(b.Provisional) {
			t.Errorf("%s: %+v, want %+v", by, a, b)
		}
	}
}

// exported returns the archived history of a property as CSV.
func exported(t *testing.T, h *archive.History, property string, days translate.DateRange) string {
	t.Helper()
	var file strings.Builder
	if err := archive.WriteRecords(&file, archive.CSV, h.Export(t.Context(), property, days)); err != nil {
		t.Fatal(err)
	}
	return file.String()
}

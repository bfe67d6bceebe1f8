package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sara/archive"
	"sara/archive/bucket"
	"sara/cmd/sara/internal/backend"
	"sara/cmd/sara/internal/demo"
	"sara/cmd/sara/internal/settings"
	"sara/translate"
)

// testDemoHistory looks into the archive of a running demo.
func testDemoHistory(t *testing.T, world demoLine, temporary string) {
	folders, err := filepath.Glob(filepath.Join(temporary, "sara-demo-*", "archive"))
	if err != nil || len(folders) != 1 {
		t.Fatalf("the archive is in %v (%v)", folders, err)
	}
	history, err := backend.OpenArchive(settings.Archive{ArchiveURL: settings.LocalArchive(folders[0])}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	calendar, err := translate.NewCalendar()
	if err != nil {
		t.Fatal(err)
	}
	for name, months := range map[string]int{"main": 36, "archived": 24, "disconnected": 24, "prefix": 0, "fresh": 0} {
		inventory, err := history.Days(t.Context(), world.Properties[name]["id"])
		if err != nil {
			t.Fatal(err)
		}
		if months == 0 {
			if len(inventory) != 0 {
				t.Errorf("%s has %v", name, inventory)
			}
			continue
		}
		for _, by := range archive.Dimensions() {
			days := inventory[by]
			if days.First != (days.Last+1).AddMonths(-months) || len(days.Missing) > 0 {
				t.Errorf("%s by %s: %s to %s, without %v; want %d months", name, by, days.First, days.Last, days.Missing, months)
			}
			anchor := calendar.Anchor(demoTime)
			last, provisional := anchor, 2
			if name != "main" {
				last, provisional = anchor-translate.Date(anchor.Time().Day()), 0
			}
			if days.Last != last || len(days.Provisional) != provisional {
				t.Errorf("%s by %s: ends on %s and is not final on %v, want %s and %d days", name, by, days.Last, days.Provisional, last, provisional)
			}
		}
		year := translate.DateRange{Start: inventory[translate.ByQuery].Last - 364, End: inventory[translate.ByQuery].Last}
		if got, err := history.Read(t.Context(), world.Properties[name]["id"], translate.ByQuery, year); err != nil || got.Rows.Len() < archive.TopRows {
			t.Errorf("%s: a year has %+v (%v)", name, got, err)
		}
	}
}

// TestDemoArchiveMatchesCollector compares the archive that the demo makes with one that was collected.
func TestDemoArchiveMatchesCollector(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it builds a simulated Search Console without retention")
	}
	people, _ := simulate(t)
	c := newCLI(t).against(people)
	c.env = append(c.env, "SARA_COLLECT_RATE=100000")
	c.ok("account", "add", "Acme", "--plan", "pro")
	c.ok("workspace", "add", "Acme", "Web")
	c.ok("connection", "add", "Web", "--name", "mine", "--credentials", c.path(demo.PortfolioConnection+".json"))
	property := c.object(propertyMembers, "property", "add", "mine", demo.SiteArchived)

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
	if err := h.Archive(t.Context(), demo.Property{ID: c.id(property), GSCProperty: demo.SiteArchived}, days); err != nil {
		t.Fatal(err)
	}
	c.ok("collect", "--property", demo.SiteArchived, "--since", days.Start.String(), "--until", days.End.String())
	collected, err := backend.OpenArchive(settings.Archive{ArchiveURL: settings.LocalArchive(c.path("archive"))}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if want, got := exported(t, collected, c.id(property), days), exported(t, made, c.id(property), days); got != want {
		t.Errorf("the demo archives\n%.600s\nand the collector\n%.600s", got, want)
	}
	wanted, err := collected.Days(t.Context(), c.id(property))
	if err != nil {
		t.Fatal(err)
	}
	got, err := made.Days(t.Context(), c.id(property))
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

package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sara/archive/bucket"
	"sara/cmd/sara/internal/clitest"
)

// Verify finds a torn object; --repair sets it aside, and the property is due for collection. Nothing is destroyed.
func TestArchiveVerify(t *testing.T) {
	t.Parallel()
	c := clitest.NewArchiveCLI(t, sara)
	file := c.Write("history.csv", clitest.CSVHeader+clitest.SomeHistory)
	c.OK("archive", "import", clitest.ShopSite, file)
	members := "id gsc_property objects bytes days rows gaps problems"
	of := func(args ...string) map[string]any {
		t.Helper()
		for _, r := range c.Array(members, append([]string{"archive", "verify"}, args...)...) {
			if r["gsc_property"] == clitest.ShopSite {
				return r
			}
		}
		t.Fatal("the property is missing")
		return nil
	}
	if r := of(); r["objects"] != 2.0 || r["days"] != 3.0 || r["rows"] != 9.0 || len(r["problems"].([]any)) != 0 {
		t.Errorf("%v", r)
	}
	objects, err := filepath.Glob(c.Path("archive/history/*/month=2025-02/history.parquet"))
	if err != nil || len(objects) != 1 {
		t.Fatal(objects, err)
	}
	whole, err := os.ReadFile(objects[0])
	if err != nil {
		t.Fatal(err)
	}
	torn := whole[:len(whole)/2]
	if err := os.WriteFile(objects[0], torn, 0o600); err != nil {
		t.Fatal(err)
	}
	status, table, said := c.Run("archive", "verify")
	if status != ExitError || !strings.Contains(table, clitest.ShopSite+": 2025-02 is damaged: ") ||
		!strings.Contains(said, "1 month of the archive is damaged or missing") || !strings.Contains(said, "archive verify --repair") {
		t.Errorf("status %d\n%s\n%s", status, table, said)
	}
	if said := c.OK("archive", "verify", "--property", clitest.CopySite); !strings.Contains(said, clitest.CopySite) ||
		strings.Contains(said, clitest.ShopSite) {
		t.Errorf("of one property:\n%s", said)
	}
	problems := of("--repair")["problems"].([]any)
	problem, _ := problems[0].(map[string]any)
	moved, _ := problem["moved_to"].(string)
	if len(problems) != 1 || problem["month"] != "2025-02" || problem["state"] != "damaged" || problem["repaired"] != true || moved == "" {
		t.Fatalf("%v", problems)
	}
	if kept, err := os.ReadFile(filepath.Join(c.Path("archive"), moved)); err != nil || string(kept) != string(torn) {
		t.Errorf("the damaged object is lost: %v", err)
	}
	if r := of(); r["objects"] != 1.0 || len(r["problems"].([]any)) != 0 {
		t.Errorf("after the repair: %v", r)
	}
	c.OK("archive", "import", clitest.ShopSite, file)
	if r := of(); r["objects"] != 2.0 || r["rows"] != 9.0 {
		t.Errorf("after an import: %v", r)
	}
	for _, name := range objects {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if status, table, _ := c.Run("archive", "verify"); status != ExitError || !strings.Contains(table, clitest.ShopSite+": 2025-02 is missing: ") {
		t.Errorf("status %d\n%s", status, table)
	}
}

// An object that is too large to be copied stays, and the other months are repaired.
func TestArchiveVerifyRepairsTheMonthsThatItCan(t *testing.T) {
	t.Parallel()
	c := clitest.NewArchiveCLI(t, sara)
	c.OK("archive", "import", clitest.ShopSite, c.Write("history.csv", clitest.CSVHeader+clitest.SomeHistory))
	objects, err := filepath.Glob(c.Path("archive/history/*/month=*/history.parquet"))
	if err != nil || len(objects) != 2 {
		t.Fatal(objects, err)
	}
	if err := errors.Join(os.Truncate(objects[0], bucket.MaxObject+1), os.Truncate(objects[1], 100)); err != nil {
		t.Fatal(err)
	}
	status, table, said := c.Run("archive", "verify", "--repair")
	for _, want := range []string{"move it out of the archive yourself", "; moved to damaged/history/"} {
		if !strings.Contains(table, want) {
			t.Errorf("%q is missing:\n%s", want, table)
		}
	}
	if status != ExitError || !strings.Contains(said, "1 month of the archive is damaged or missing") {
		t.Errorf("status %d: %s", status, said)
	}
	if _, err := os.Stat(objects[0]); err != nil {
		t.Error(err)
	}
}

// Imports and repairs that change the archived history are in the audit log; those that change nothing are not.
func TestChangesOfTheArchiveAreAudited(t *testing.T) {
	t.Parallel()
	c := clitest.NewArchiveCLI(t, sara)
	file := c.Write("history.csv", clitest.CSVHeader+"2025-02-01,query,shoes,1,2,3\n2025-02-01,total,,1,2,3\n")
	property := c.ID(c.Object(importMembers, "archive", "import", clitest.ShopSite, file))
	c.OK("archive", "import", clitest.ShopSite, file) // changes nothing
	c.OK("archive", "import", clitest.ShopSite, file, "--replace")
	c.OK("archive", "verify", "--repair") // changes nothing
	objects, err := filepath.Glob(c.Path("archive/history/*/month=2025-02/history.parquet"))
	if err != nil || len(objects) != 1 {
		t.Fatal(objects, err)
	}
	if err := os.WriteFile(objects[0], []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.OK("archive", "verify", "--repair")
	var got []string
	for _, e := range c.Array(auditMembers, "audit", "list", "--account", "Acme") {
		details := e["details"].(map[string]any)
		if strings.HasPrefix(e["action"].(string), "archive.") && e["subject"] == property && details["site"] == clitest.ShopSite {
			got = append(got, fmt.Sprintf("%s %v %v %v", e["action"], details["days_archived"], details["replace"], details["months"]))
		}
	}
	want := []string{"archive.repair <nil> <nil> [2025-02]", "archive.import 2 true <nil>", "archive.import 2 false <nil>"}
	if !slices.Equal(got, want) {
		t.Errorf("the audit log has %q, want %q", got, want)
	}
}

// A month that was never archived is a gap, which is no damage. A month that was archived and has no object is missing, also between
// others, and still after more was archived.
func TestArchiveVerifyTellsGapsFromLostMonths(t *testing.T) {
	t.Parallel()
	c := clitest.NewArchiveCLI(t, sara)
	load := func(days ...string) {
		t.Helper()
		text := clitest.CSVHeader
		for _, day := range days {
			text += day + ",total,,1,2,3\n"
		}
		c.OK("archive", "import", clitest.ShopSite, c.Write("history.csv", text))
	}
	verify := func(wantStatus int, gaps string, problems ...string) {
		t.Helper()
		status, stdout, _ := c.Run("archive", "verify", "--json", "--property", clitest.ShopSite)
		var records []archiveVerifyRecord
		if err := json.Unmarshal([]byte(stdout), &records); err != nil || len(records) != 1 || status != wantStatus {
			t.Fatalf("status %d, %v: %s", status, err, stdout)
		}
		var found []string
		for _, p := range records[0].Problems {
			found = append(found, p.Month+" "+p.State)
		}
		if got := strings.Join(records[0].Gaps, " "); got != gaps || !slices.Equal(found, problems) {
			t.Errorf("gaps %q, problems %q, want %q and %q", got, found, gaps, problems)
		}
	}
	remove := func(month string) {
		t.Helper()
		objects, err := filepath.Glob(c.Path("archive/history/*/month=" + month + "/history.parquet"))
		if err != nil || len(objects) != 1 {
			t.Fatal(objects, err)
		}
		if err := os.Remove(objects[0]); err != nil {
			t.Fatal(err)
		}
	}
	load("2024-01-31", "2024-05-01", "2024-06-01")
	verify(ExitOK, "2024-02 2024-03 2024-04")
	if said := c.OK("archive", "verify"); !strings.Contains(said, clitest.ShopSite+": never archived, so unknown: 2024-02, 2024-03, 2024-04\n") {
		t.Errorf("for people:\n%s", said)
	}
	load("2024-03-15", "2024-08-01")
	verify(ExitOK, "2024-02 2024-04 2024-07")
	remove("2024-03")
	remove("2024-06")
	verify(ExitError, "2024-02 2024-04 2024-07", "2024-03 missing", "2024-06 missing")
	load("2024-09-01")
	verify(ExitError, "2024-02 2024-04 2024-07", "2024-03 missing", "2024-06 missing")
	c.OK("archive", "verify", "--repair")
	verify(ExitOK, "2024-02 2024-03 2024-04 2024-06 2024-07")
}

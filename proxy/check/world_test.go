package check

import (
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"sara/archive"
	"sara/archive/bucket"
	"sara/cmd/sara/saratest"
	"sara/translate"
)

func testKeys(t *testing.T, d demo) {
	code := map[string]string{"trial": "API_ACCESS_REQUIRED", "lapsed": "API_ACCESS_REQUIRED", "revoked": "API_KEY_REVOKED",
		"expired": "API_KEY_EXPIRED"}
	for name, status := range map[string]int{
		"pro": 200, "agency": 200, "pro_second": 200, "properties_only": 200, "performance_only": 200, "indexing_only": 200,
		"config_only": 200, "workspace_scoped": 200, "trial": 403, "lapsed": 403, "revoked": 401, "expired": 401,
	} {
		a := d.want(t, status, "/v1/me", name)
		if !strings.Contains(a, code[name]) {
			t.Errorf("key %s: %.200s, want %s", name, a, code[name])
		}
	}
	if len(d.Keys) != 12 {
		t.Errorf("there are %d keys, want 12", len(d.Keys))
	}
	main := "/v1/properties/" + d.Properties["main"]["id"]
	for _, test := range []struct {
		key, path string
		status    int
	}{
		{"properties_only", "", 200}, {"properties_only", "/summary", 403},
		{"performance_only", "/summary", 200}, {"performance_only", "", 403},
		{"config_only", "/brand-terms", 200}, {"config_only", "/summary", 403},
		{"indexing_only", "/brand-terms", 403},
	} {
		d.want(t, test.status, main+test.path, test.key)
	}
}

func testProperties(t *testing.T, d demo) {
	at := func(reference string) string { return "/v1/properties/" + reference }
	names := []string{"main", "prefix", "archived", "disconnected", "fresh", "twin_a", "twin_b", "late", "gaps", "foreign"}
	if len(d.Properties) != len(names) {
		t.Errorf("there are %d properties, want %d", len(d.Properties), len(names))
	}
	for _, name := range names {
		p := d.Properties[name]
		if len(p) != 4 {
			t.Errorf("property %s has the members %v", name, p)
		}
		// Each key sends few requests, because a plan limits them per minute.
		reached, scoped := 200, 404
		switch name {
		case "foreign":
			reached = 404
		case "main":
			scoped = 200
		}
		d.want(t, reached, at(p["id"]), "pro")
		d.want(t, reached, at(p["slug"]), "pro_second")
		d.want(t, reached, at(p["id"]), "properties_only")
		d.want(t, reached, at(p["id"])+"/annotations", "config_only")
		d.want(t, scoped, at(p["id"]), "workspace_scoped")
		if !strings.HasPrefix(name, "twin") {
			d.want(t, reached, at(p["domain"]), "properties_only")
			d.want(t, reached, at(url.PathEscape(p["gsc_property"])), "properties_only")
			continue
		}
		a := d.want(t, 400, at(p["domain"]), "properties_only")
		if !strings.Contains(a, "PROPERTY_AMBIGUOUS") || !strings.Contains(a, d.Properties["twin_a"]["id"]) ||
			!strings.Contains(a, d.Properties["twin_b"]["id"]) {
			t.Errorf("the domain of the twins: %s", a)
		}
	}
	if d.Properties["twin_a"]["gsc_property"] != d.Properties["twin_b"]["gsc_property"] {
		t.Error("the twins are not one domain")
	}
	for name, healthy := range map[string]bool{"main": true, "disconnected": false} {
		a := d.want(t, 200, at(d.Properties[name]["id"]), "agency")
		if !strings.Contains(a, fmt.Sprintf(`"healthy":%t`, healthy)) {
			t.Errorf("property %s: %s, want healthy %t", name, a, healthy)
		}
	}
	for _, name := range []string{"main", "prefix", "fresh", "twin_a", "twin_b", "late", "gaps"} {
		d.want(t, 200, at(d.Properties[name]["id"])+"/summary", "agency")
	}
	a := d.want(t, 200, at(d.Properties["late"]["id"])+"/timeseries?date_range=last_7d", "agency")
	if !strings.Contains(a, "Search Console has not published ") || !strings.Contains(a, `"row_count":5`) {
		t.Errorf("late: %s, want five of seven days", a)
	}
	if a := d.want(t, 200, at(d.Properties["archived"]["id"]), "agency"); !strings.Contains(a, `"archived":true`) {
		t.Errorf("archived: %s", a)
	}
	listed := d.want(t, 200, "/v1/properties", "agency")
	if !strings.Contains(listed, `"total":8`) || !strings.Contains(listed, `"starred":true`) {
		t.Errorf("the list: %s", listed)
	}
}

func testConfigurationOfMain(t *testing.T, d demo) {
	main := "/v1/properties/" + d.Properties["main"]["slug"]
	for path, wants := range map[string][]string{
		"/brand-terms": {`"contains"`, `"exact"`, `"regex"`},
		"/page-groups": {`"prefix"`, `"contains"`, `"equals"`, `"regex"`},
		"/annotations": {`"row_count":4`},
	} {
		a := d.want(t, 200, main+path, "config_only")
		for _, want := range wants {
			if !strings.Contains(a, want) {
				t.Errorf("%s has no %s: %s", path, want, a)
			}
		}
	}
}

func testOtherAddresses(t *testing.T, d demo) {
	for _, address := range []string{d.AdminURL + "/readyz", d.UpstreamURL + "/_sim/calls"} {
		if _, answer, body := d.ask(t, http.MethodGet, address, "", nil); answer.StatusCode != http.StatusOK {
			t.Errorf("GET %s: %s\n%s", address, answer.Status, body)
		}
	}
}

// testHistory looks into the archive.
func testHistory(t *testing.T, d demo) {
	folders, err := filepath.Glob(filepath.Join(d.folder, "sara-demo-*", "archive"))
	if err != nil || len(folders) != 1 {
		t.Fatalf("the archive is in %v (%v)", folders, err)
	}
	store, err := bucket.Open(folders[0])
	if err != nil {
		t.Fatal(err)
	}
	history, err := archive.NewHistory(archive.HistoryConfig{Bucket: store})
	if err != nil {
		t.Fatal(err)
	}
	calendar, err := translate.NewCalendar()
	if err != nil {
		t.Fatal(err)
	}
	for name, months := range map[string]int{"main": 36, "archived": 24, "disconnected": 24, "prefix": 0, "fresh": 0} {
		inventory, err := history.Days(t.Context(), d.Properties[name]["id"])
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
			anchor := calendar.Anchor(saratest.PageTime())
			last, provisional := anchor, 2
			if name != "main" {
				last, provisional = anchor-translate.Date(anchor.Time().Day()), 0
			}
			if days.Last != last || len(days.Provisional) != provisional {
				t.Errorf("%s by %s: ends on %s and is not final on %v, want %s and %d days", name, by, days.Last, days.Provisional, last, provisional)
			}
		}
		year := translate.DateRange{Start: inventory[translate.ByQuery].Last - 364, End: inventory[translate.ByQuery].Last}
		if got, err := history.Read(t.Context(), d.Properties[name]["id"], translate.ByQuery, year, 0); err != nil || got.Rows.Len() < archive.TopRows {
			t.Errorf("%s: a year has %+v (%v)", name, got, err)
		}
	}
}

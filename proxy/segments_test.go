package proxy

import (
	"fmt"
	"net/http"
	"regexp"
	"testing"
)

const (
	instantPattern = `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`
	uuidPattern    = `^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`
)

func wantMatch(t testing.TB, what string, value any, pattern string) {
	t.Helper()
	if text, ok := value.(string); !ok || !regexp.MustCompile(pattern).MatchString(text) {
		t.Errorf("%s is %v", what, value)
	}
}

// wantListMeta checks the meta of a list.
func (w *world) wantListMeta(t *testing.T, r response, property string, count int) {
	t.Helper()
	wantMembers(t, "data", r.data(), "rows")
	wantMembers(t, "meta", r.meta(), "notes property_id request_id row_count")
	if notes, isList := r.meta()["notes"].([]any); !isList || len(notes) != 0 {
		t.Errorf("notes are %v", r.meta()["notes"])
	}
	if r.meta()["property_id"] != w.properties[property].ID || r.meta()["row_count"] != float64(count) || r.rows() == nil || len(r.rows()) != count {
		t.Errorf("%d rows, meta %v", len(r.rows()), r.meta())
	}
	if cache := r.header.Get("X-Cache"); cache != "bypass" {
		t.Errorf("X-Cache is %q", cache)
	}
}

func TestBrandTerms200(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.get("pro", w.path("main", "/brand-terms")).ok(t)
	w.wantListMeta(t, r, "main", 3)
	for i, want := range [][2]string{{"example", "contains"}, {"exmaple", "exact"}, {"^ex[a-z]+ple shop", "regex"}} {
		row := r.rows()[i].(map[string]any)
		wantMembers(t, "a brand term", row, "created_at id match_type term")
		wantMatch(t, "id", row["id"], uuidPattern)
		wantMatch(t, "created_at", row["created_at"], instantPattern)
		if row["term"] != want[0] || row["match_type"] != want[1] {
			t.Errorf("term %d is %v", i, row)
		}
	}
	w.wantListMeta(t, w.get("pro", w.path("prefix", "/brand-terms")).ok(t), "prefix", 0)
	w.wantListMeta(t, w.get("pro", w.path("archived", "/brand-terms")).ok(t), "archived", 0)
}

func TestPageGroups200(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.get("pro", w.path("main", "/page-groups")).ok(t)
	w.wantListMeta(t, r, "main", 3)
	for i, want := range []string{
		"Blog [map[type:prefix value:/blog/] map[type:contains value:guide]]", "Home [map[type:equals value:/]]", "Numbers [map[type:regex value:[0-9]$]]",
	} {
		row := r.rows()[i].(map[string]any)
		wantMembers(t, "a page group", row, "created_at id name rules")
		wantMatch(t, "id", row["id"], uuidPattern)
		wantMatch(t, "created_at", row["created_at"], instantPattern)
		if got := fmt.Sprint(row["name"], " ", row["rules"]); got != want {
			t.Errorf("group %d is %s, not %s", i, got, want)
		}
	}
	w.wantListMeta(t, w.get("pro", w.path("disconnected", "/page-groups")).ok(t), "disconnected", 0)
}

func TestAnnotations200(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.path("main", "/annotations")
	r := w.get("pro", path).ok(t)
	w.wantListMeta(t, r, "main", 2)
	first, second := r.rows()[0].(map[string]any), r.rows()[1].(map[string]any)
	wantMembers(t, "an annotation", first, "color date id note title")
	wantMatch(t, "id", first["id"], uuidPattern)
	if first["date"] != "2026-10-01" || first["title"] != "Relaunch" || first["note"] != "New templates" || first["color"] != "green" ||
		second["date"] != "2026-11-02" || second["title"] != "Core update" || second["note"] != "" {
		t.Errorf("rows are %v", r.rows())
	}
	for _, c := range []struct {
		query []string
		count int
	}{
		{[]string{"start_date", "2026-10-01"}, 2},
		{[]string{"start_date", "2026-10-02"}, 1},
		{[]string{"end_date", "2026-11-02"}, 2},
		{[]string{"end_date", "2026-11-01"}, 1},
		{[]string{"start_date", "2026-10-01", "end_date", "2026-10-01"}, 1},
		{[]string{"start_date", "2026-10-02", "end_date", "2026-11-01"}, 0},
		{[]string{"start_date", "1970-01-01", "end_date", "9999-12-31"}, 2}, // neither the anchor nor the plan bounds notes
	} {
		w.wantListMeta(t, w.get("pro", path, c.query...).ok(t), "main", c.count)
	}
}

func TestBrandTerms400(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.wantRefusedParameters("main", "/brand-terms", unknownRefusals(), []refusal{{"limit=1", codeUnsupported, "takes none"}})
	w.wantRefusedParameters("main", "/page-groups", unknownRefusals(), []refusal{{"limit=1", codeUnsupported, "takes none"}})
}

func TestAnnotations400(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.wantRefusedParameters("main", "/annotations", unknownRefusals(), []refusal{
		{"start_date=2026-11-02&end_date=2026-11-01", codeValidation, "2026-11-02"},
		{"start_date=", codeValidation, "start_date"},
		{"end_date=2026-02-30", codeValidation, "end_date"},
		{"start_date=2026-11-02&start_date=2026-11-02", codeValidation, "start_date"},
		{"date_range=last_7d", codeUnsupported, "date_range"},
		{"limit=1", codeUnsupported, "limit"},
		{"filters=%5B%5D", codeUnsupported, "filters"},
	})
}

// Configuration is served for every property, whatever the state of its connection.
func TestSegmentsMakeNoUpstreamCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.sim.Calls()
	for _, property := range []string{"main", "archived", "disconnected", "forbidden", "empty"} {
		for _, endpoint := range []string{"", "/brand-terms", "/page-groups", "/annotations"} {
			if r := w.get("pro", w.path(property, endpoint)); r.status != http.StatusOK {
				t.Errorf("%s%s answers %d", property, endpoint, r.status)
			}
		}
	}
	w.get("pro", "/v1/properties").ok(t)
	w.get("pro", "/v1/me").ok(t)
	if after := w.sim.Calls(); after != before {
		t.Errorf("the upstream was asked: %+v, before %+v", after, before)
	}
}

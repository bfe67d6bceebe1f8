package proxy

import (
	"fmt"
	"strings"
	"testing"
)

// names lists the display names of a page of properties.
func names(r response) string {
	var list []string
	for _, row := range r.rows() {
		list = append(list, row.(map[string]any)["display_name"].(string))
	}
	return strings.Join(list, ", ")
}

func TestProperties200(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const all = "Empty, Example, Forbidden, Gone, Large, Shop, Twin A, Twin B"

	w.run("sorted by name, without archived ones", func(t *testing.T) {
		r := w.get("pro", "/v1/properties").ok(t)
		wantMembers(t, "data", r.data(), "rows")
		wantMembers(t, "meta", r.meta(), "limit offset request_id row_count total")
		if m := r.meta(); names(r) != all || m["row_count"] != 8.0 || m["limit"] != 50.0 || m["offset"] != 0.0 || m["total"] != 8.0 {
			t.Errorf("%s; meta %v", names(r), m)
		}
		row := r.rows()[1].(map[string]any)
		wantMembers(t, "a property", row, "archived created_at display_name gsc_property id permission_level slug starred type")
		wantMatch(t, "created_at", row["created_at"], instantPattern)
		wantMatch(t, "id", row["id"], uuidPattern)
		if row["id"] != w.properties["main"].ID || row["gsc_property"] != "sc-domain:example.com" || row["type"] != "domain" ||
			row["permission_level"] != "siteOwner" || row["starred"] != true || row["archived"] != false {
			t.Errorf("the property is %v", row)
		}
		if shop := r.rows()[5].(map[string]any); shop["type"] != "url_prefix" || shop["starred"] != false {
			t.Errorf("the property is %v", shop)
		}
	})
	for _, c := range []struct {
		query                []string
		names                string
		limit, offset, total int
	}{
		{[]string{"include_archived", "false"}, all, 50, 0, 8},
		{[]string{"include_archived", "true"}, "Archived, " + all, 50, 0, 9},
		{[]string{"limit", "1"}, "Empty", 1, 0, 8},
		{[]string{"limit", "200"}, all, 200, 0, 8},
		{[]string{"limit", "3", "offset", "2"}, "Forbidden, Gone, Large", 3, 2, 8},
		{[]string{"offset", "7"}, "Twin B", 50, 7, 8},
		{[]string{"offset", "8"}, "", 50, 8, 8},
		{[]string{"offset", "1000000000"}, "", 50, 1_000_000_000, 8},
	} {
		w.run(fmt.Sprint(c.query), func(t *testing.T) {
			r := w.get("pro", "/v1/properties", c.query...).ok(t)
			if r.rows() == nil {
				t.Errorf("rows is no list: %s", r.body)
			}
			m := r.meta()
			if names(r) != c.names || m["row_count"] != float64(len(r.rows())) || m["limit"] != float64(c.limit) ||
				m["offset"] != float64(c.offset) || m["total"] != float64(c.total) {
				t.Errorf("%s; meta %v", names(r), m)
			}
		})
	}
	w.run("the pages together are the list, each property once", func(t *testing.T) {
		var pages []string
		for offset := range 8 {
			pages = append(pages, names(w.get("pro", "/v1/properties", "limit", "1", "offset", fmt.Sprint(offset)).ok(t)))
		}
		if strings.Join(pages, ", ") != all {
			t.Errorf("the pages are %v", pages)
		}
	})
	w.run("of the key's workspace only", func(t *testing.T) {
		if r := w.get("workspace_scoped", "/v1/properties", "include_archived", "true").ok(t); names(r) != "Example" || r.meta()["total"] != 1.0 {
			t.Errorf("%s; meta %v", names(r), r.meta())
		}
		if r := w.get("other", "/v1/properties").ok(t); names(r) != "Foreign" {
			t.Errorf("%s", names(r))
		}
	})
}

func TestProperties400(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.wantRefusedParameters("", "/v1/properties", unknownRefusals(), integerRefusals("limit", 1, 200), integerRefusals("offset", 0, 0), []refusal{
		{"offset=-1", codeValidation, "offset"},
		{"include_archived=", codeValidation, "include_archived"},
		{"include_archived=1", codeValidation, "include_archived"},
		{"include_archived=True", codeValidation, "include_archived"},
		{"include_archived=yes", codeValidation, "include_archived"},
		{"include_archived", codeValidation, "include_archived"},
		{"include_archived=true&include_archived=true", codeValidation, "include_archived"},
		{"date_range=last_7d", codeUnsupported, "date_range"},
	})
}

func TestProperty200(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const detail = "archived connection data_window display_name gsc_property id last_archived_date type"

	w.run("a property that works", func(t *testing.T) {
		r := w.get("pro", w.path("main", "")).ok(t)
		d := r.data()
		wantMembers(t, "data", d, detail)
		wantMembers(t, "data_window", d["data_window"], "earliest_data_date latest_data_date live_window_months retention_months")
		wantMembers(t, "connection", d["connection"], "healthy note")
		wantMembers(t, "meta", r.meta(), "notes property_id request_id")
		window := d["data_window"].(map[string]any)
		if window["latest_data_date"] != "2026-11-19" || window["earliest_data_date"] != "2025-07-20" ||
			window["live_window_months"] != 16.0 || window["retention_months"] != 36.0 {
			t.Errorf("data_window is %v", window)
		}
		if fmt.Sprint(d["connection"]) != "map[healthy:true note:<nil>]" || d["last_archived_date"] != nil || d["archived"] != false ||
			d["type"] != "domain" || d["gsc_property"] != "sc-domain:example.com" || d["display_name"] != "Example" || d["id"] != w.properties["main"].ID {
			t.Errorf("data is %v", d)
		}
		if r.meta()["property_id"] != w.properties["main"].ID || fmt.Sprint(r.meta()["notes"]) != "[]" {
			t.Errorf("meta is %v", r.meta())
		}
	})
	w.run("retention is the plan's", func(t *testing.T) {
		window := w.get("agency", w.path("main", "")).ok(t).data()["data_window"].(map[string]any)
		if window["retention_months"] != 60.0 || window["earliest_data_date"] != "2025-07-20" {
			t.Errorf("data_window is %v", window)
		}
	})
	w.run("an archived property says so", func(t *testing.T) {
		r := w.get("pro", w.path("archived", "")).ok(t)
		wantMembers(t, "data", r.data(), detail)
		if r.data()["archived"] != true || notes(r) == "" {
			t.Errorf("answers %s", r.body)
		}
	})
	w.run("the latest day follows the clock", func(t *testing.T) {
		w.setClock("2026-12-01T08:00:00Z")
		if window := w.get("pro", w.path("main", "")).ok(t).data()["data_window"].(map[string]any); window["latest_data_date"] != "2026-11-29" ||
			window["earliest_data_date"] != "2025-07-30" {
			t.Errorf("data_window is %v", window)
		}
	})
}

func TestProperty400(t *testing.T) {
	t.Parallel()
	newWorld(t).wantRefusedParameters("main", "", unknownRefusals(), []refusal{
		{"include_archived=true", codeUnsupported, "include_archived"}, {"limit=1", codeUnsupported, "takes none"},
	})
}

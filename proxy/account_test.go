package proxy

import (
	"fmt"
	"testing"
)

func TestMe200(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct{ key, plan, scopes string }{
		{"pro", "pro", "[properties:read performance:read indexing:read config:read]"},
		{"agency", "agency", "[properties:read performance:read indexing:read config:read]"},
		{"indexing_only", "agency", "[indexing:read]"},
	} {
		w.run(c.key, func(t *testing.T) {
			r := w.get(c.key, "/v1/me").ok(t)
			d := r.data()
			wantMembers(t, "data", d, "account key limits usage")
			wantMembers(t, "meta", r.meta(), "request_id")
			wantMembers(t, "key", d["key"], "id scopes workspace_scope")
			wantMembers(t, "account", d["account"], "plan_tier")
			wantMembers(t, "limits", d["limits"],
				"live_calls_per_minute_per_property requests_per_day requests_per_hour requests_per_minute_per_key search_console_calls_per_day")
			wantMembers(t, "usage", d["usage"],
				"requests_this_hour requests_today search_console_calls_remaining_today search_console_calls_today")
			key, limits := d["key"].(map[string]any), d["limits"].(map[string]any)
			if key["id"] != w.keyIDs[c.key] || fmt.Sprint(key["scopes"]) != c.scopes || key["workspace_scope"] != nil {
				t.Errorf("key is %v", key)
			}
			got := fmt.Sprint([]any{limits["requests_per_minute_per_key"], limits["requests_per_hour"], limits["requests_per_day"],
				limits["search_console_calls_per_day"]})
			plan := w.config.Admission.Plans[c.plan]
			if limits["live_calls_per_minute_per_property"] != float64(plan.LiveCallsPerMinutePerProperty) {
				t.Errorf("limits are %v", limits)
			}
			want := fmt.Sprint([]int{plan.RequestsPerMinutePerKey, plan.RequestsPerHour, plan.RequestsPerDay, plan.SearchConsoleCallsPerDay})
			if got != want || d["account"].(map[string]any)["plan_tier"] != c.plan {
				t.Errorf("limits are %s, not %s, account %v", got, want, d["account"])
			}
		})
	}
	w.run("the workspace of a key", func(t *testing.T) {
		scope := w.get("workspace_scoped", "/v1/me").ok(t).data()["key"].(map[string]any)["workspace_scope"]
		wantMembers(t, "workspace_scope", scope, "id name")
		main := scope.(map[string]any)
		wantMatch(t, "id", main["id"], uuidPattern)
		if main["name"] != "Main" {
			t.Errorf("workspace_scope is %v", scope)
		}
	})
}

func TestMe400(t *testing.T) {
	t.Parallel()
	newWorld(t).wantRefusedParameters("", "/v1/me", unknownRefusals(), []refusal{{"limit=1", codeUnsupported, "takes none"}})
}

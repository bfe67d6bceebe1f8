package proxy

import (
	"net/http"
	"testing"
)

func TestMe200(t *testing.T) {
	w := newWorld(t)
	r := w.get("pro", "/v1/me")
	if r.status != http.StatusOK {
		t.Fatalf("status %d: %s", r.status, r.body)
	}
	if plan := r.data()["account"].(map[string]any)["plan_tier"]; plan != "pro" {
		t.Errorf("plan_tier is %v", plan)
	}
}

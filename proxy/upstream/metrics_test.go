package upstream

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestMetrics(t *testing.T) {
	g := newGoogle(t, status(503, "{}"), ok(empty), status(429, "{}"))
	cfg := g.config()
	registry := prometheus.NewRegistry()
	cfg.Registerer = registry
	c, acct := startClient(t, cfg), account(t, authorizedUser())
	if _, err := c.searchAnalytics(t.Context(), acct, site, queryBody, nil); err != nil {
		t.Error(err)
	}
	if _, err := c.searchAnalytics(t.Context(), acct, site, queryBody, nil); kindOf(t, err) != Quota {
		t.Error(err)
	}
	if _, err := c.inspect(t.Context(), acct, site, site, nil); kindOf(t, err) != Quota {
		t.Error(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			got[name] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	for name, want := range map[string]float64{
		"sara_upstream_calls_total search_analytics ok":        1,
		"sara_upstream_calls_total search_analytics quota":     1,
		"sara_upstream_calls_total search_analytics revoked":   0,
		"sara_upstream_calls_total url_inspection quota":       1,
		"sara_upstream_calls_total sitemaps ok":                0,
		"sara_upstream_calls_total sites ok":                   0,
		"sara_upstream_call_duration_seconds search_analytics": 2,
		"sara_upstream_call_duration_seconds url_inspection":   1,
		"sara_upstream_retries_total":                          1,
		"sara_upstream_token_refreshes_total ok":               1,
	} {
		if value, exists := got[name]; !exists || value != want {
			t.Errorf("%s: %v (exported: %v), want %v", name, value, exists, want)
		}
	}
	if _, err := newClient(cfg.withDefaults()); err == nil {
		t.Error("a second client on one registry was accepted; its metrics would be lost")
	}
}

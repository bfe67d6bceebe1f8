package proxy

import (
	"net/http"
	"testing"
	"time"

	"sara/proxy/openapi"
	"sara/proxy/upstream/gscsim"
)

// outOf breaks the upstream for one site, or for all if it is empty, without a step of the clock.
func (w *world) outOf(status int, site string) {
	w.t.Helper()
	w.must(w.sim.SetFaults(gscsim.Faults{Status: status, Site: site}))
}

// One property's failing calls open the circuit of that property. The properties of the same connection, of other connections of
// the account and of other accounts are live, for customers who never asked before.
func TestSummary200AnotherTenantsPropertyFails(t *testing.T) {
	t.Parallel()
	type question struct{ key, property string }
	theirs, ours := question{"other", "foreign"}, []question{{"pro", "main"}, {"pro", "prefix"}, {"agency", "large"}, {"pro", "twin_b"}}
	for name, c := range map[string]struct {
		broken question
		fine   []question
	}{
		"theirs": {theirs, ours},
		"ours":   {ours[1], []question{theirs, ours[0], ours[2], ours[3]}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.outOf(http.StatusInternalServerError, w.properties[c.broken.property].Site)
			refused := func() {
				t.Helper()
				r := w.get(c.broken.key, w.path(c.broken.property, "/queries"))
				r.want(t, http.StatusServiceUnavailable, openapi.CodeUpstreamUnavailable)
				if wait := r.header.Get("Retry-After"); wait != "15" {
					t.Errorf("Retry-After is %s", wait)
				}
			}
			for range 5 {
				refused()
			}
			if calls := w.calls(func() { refused(); refused() }); calls != 0 {
				t.Errorf("%d calls about a property whose circuit is open", calls)
			}
			for _, endpoint := range []string{"/summary", "/pages"} {
				for _, q := range c.fine {
					if r := w.get(q.key, w.path(q.property, endpoint)).ok(t); r.meta()["source"] != "live" || r.meta()["cache"] != "miss" {
						t.Errorf("%s%s: meta is %v", q.property, endpoint, r.meta())
					}
				}
				refused()
			}
			w.outOf(0, "")
			w.gatewayClock.Add(int64(10 * time.Second))
			w.get(c.broken.key, w.path(c.broken.property, "/queries")).ok(t)
		})
	}
}

// When the whole upstream is down, properties without any earlier request are refused without a call, and all answer again within
// 15 seconds of its return.
func TestSummary503UpstreamDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	keys := map[string]string{"main": "pro", "prefix": "pro", "twin_a": "pro", "twin_b": "agency", "foreign": "other"}
	w.outOf(http.StatusServiceUnavailable, "")
	for range 5 {
		for property, key := range keys {
			w.get(key, w.path(property, "/summary")).want(t, http.StatusServiceUnavailable, openapi.CodeUpstreamUnavailable)
		}
	}
	keys["large"], keys["empty"] = "pro", "agency" // not asked about before
	if calls := w.calls(func() {
		for property, key := range keys {
			w.get(key, w.path(property, "/pages")).want(t, http.StatusServiceUnavailable, openapi.CodeUpstreamUnavailable)
		}
	}); calls != 0 {
		t.Errorf("%d calls while the circuit of the upstream is open", calls)
	}
	w.outOf(0, "")
	w.gatewayClock.Add(int64(15 * time.Second))
	for property, key := range keys {
		w.get(key, w.path(property, "/summary")).ok(t)
	}
}

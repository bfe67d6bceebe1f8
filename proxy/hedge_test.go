package proxy

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestHedgeFollowsTheUsualLatency(t *testing.T) {
	f := func(want time.Duration, took ...time.Duration) {
		t.Helper()
		h := newHedge(3*time.Second, prometheus.NewRegistry())
		for _, d := range took {
			h.observe("p", d)
		}
		if got := h.delay("p"); got != want {
			t.Errorf("after %v: %v, want %v", took, got, want)
		}
		if got := h.delay("another"); got != 3*time.Second {
			t.Errorf("another property: %v", got)
		}
	}
	usual := slices.Repeat([]time.Duration{400 * time.Millisecond}, 20)
	f(3 * time.Second)
	f(time.Second, time.Millisecond) // the archive is coarser
	f(1200*time.Millisecond, 100*time.Millisecond, 300*time.Millisecond)
	f(1600*time.Millisecond, append(usual[:19:19], time.Minute)...) // one outlier
	f(3*time.Second, append(usual[:18:18], time.Minute, time.Minute)...)
	f(1600*time.Millisecond, append([]time.Duration{time.Minute, time.Minute}, usual...)...) // long ago
}

// hang makes the upstream hang until the returned function is called.
func (w *world) hang() (release func()) {
	hanging := make(chan struct{})
	w.answerWith(func(rw http.ResponseWriter, r *http.Request) {
		select {
		case <-hanging:
			w.sim.ServeHTTP(rw, r)
		case <-r.Context().Done():
		}
	})
	release = func() { close(hanging); w.answerWith(nil) }
	return release
}

// Stored figures answer while the upstream hangs. Its call goes on, and is cached.
func TestSummary200StoredForAnUpstreamThatHangs(t *testing.T) {
	t.Parallel()
	history, keeping := kept(t)
	w := newWorld(t, keeping, func(c *Config) { c.Reports.HedgeDelay = 20 * time.Millisecond })
	c := w.chronicle(history, "main", "sc-domain:example.com")
	c.keep(t, "2026-11-13", "2026-11-19")
	path, week := w.path("main", "/summary"), []string{"date_range", "last_7d"}
	release := w.hang()
	made := w.calls(func() {
		r := w.get("pro", path, week...).ok(t)
		wantMetrics(t, "totals", r.data()["totals"], c.total(t, "2026-11-13", "2026-11-19", never))
		if r.meta()["source"] != "stored" || r.meta()["stale_reason"] != reasonSlow {
			t.Errorf("meta is %v", r.meta())
		}
		w.wantMaxAge(t, "private, max-age=0", r)
		release()
		w.await(t, "the end of the fill", func() bool { return !w.server.Busy() })
		r = w.get("pro", path, week...).ok(t)
		if r.meta()["source"] != "live" || r.meta()["cache"] != "hit" || r.meta()["stale_reason"] != nil {
			t.Errorf("afterwards meta is %v", r.meta())
		}
	})
	if made != 1 {
		t.Errorf("%d calls", made)
	}
	release = w.hang()
	w.advance(freshAtAnchor)
	r := w.live("pro", path, week...).ok(t)
	if r.meta()["source"] != "stored" || r.meta()["stale_reason"] != reasonSlow || r.meta()["cache"] != "bypass" {
		t.Errorf("of a copy meta is %v", r.meta())
	}
	release()
}

// A request waits for an upstream that hangs if its figures are filtered, or if nothing is stored.
func TestQueries200LiveFromAnUpstreamThatHangs(t *testing.T) {
	t.Parallel()
	history, keeping := kept(t)
	w := newWorld(t, keeping, func(c *Config) { c.Reports.HedgeDelay = 20 * time.Millisecond })
	w.chronicle(history, "main", "sc-domain:example.com").keep(t, "2026-11-13", "2026-11-19")
	for name, query := range map[string][]string{
		"filtered":       {"date_range", "last_7d", "filters", filtersOf("device", "is", "mobile")},
		"nothing stored": {"start_date", "2026-10-01", "end_date", "2026-10-07"},
	} {
		w.run(name, func(t *testing.T) {
			release := w.hang()
			time.AfterFunc(100*time.Millisecond, release)
			made := w.calls(func() {
				r := w.get("pro", w.path("main", "/queries"), query...).ok(t)
				if r.meta()["source"] != "live" || r.meta()["stale_reason"] != nil {
					t.Errorf("meta is %v", r.meta())
				}
			})
			if made != 1 {
				t.Errorf("%d calls", made)
			}
		})
	}
}

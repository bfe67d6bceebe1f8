package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sara/proxy/fillbudget"
	"sara/proxy/openapi"
	"sara/translate"
)

// little gives a server the least memory for fills: one large fill at a time.
func little(patience time.Duration) func(*Config) {
	return func(c *Config) { c.Capacity.FillBytes, c.Capacity.FillPatience = leastFillBytes, patience }
}

// occupy takes all memory that large fills may have, until the returned function gives it back.
func (w *world) occupy() (free func()) {
	w.t.Helper()
	grant, err := w.server.Fills().Acquire(w.t.Context(), fillbudget.Claim{Account: "another", Bytes: 1 << 40})
	w.must(err)
	return grant.Release
}

// wantMetrics checks lines of the metrics.
func (w *world) wantMetrics(t *testing.T, lines ...string) {
	t.Helper()
	text := w.metrics()
	for _, line := range lines {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("the metrics lack %q", line)
		}
	}
}

// wantBusy checks a refusal for memory.
func (w *world) wantBusy(t *testing.T, r response) {
	t.Helper()
	r.want(t, http.StatusServiceUnavailable, openapi.CodeServiceUnavailable)
	if retry := r.header.Get("Retry-After"); retry != "5" {
		t.Errorf("Retry-After is %q", retry)
	}
}

func TestMoversPages503ServiceUnavailableMemory(t *testing.T) {
	t.Parallel()
	history, keeping := kept(t)
	w := newWorld(t, little(10*time.Millisecond), keeping)
	w.chronicle(history, "large", mainSite).keep(t, "2026-11-14", "2026-11-14") // the archive replaces no figures that may be had in a few seconds
	movers, large := w.path("large", "/movers/pages"), w.path("large", "/pages")
	w.get("pro", large, "order_by", "impressions").ok(t)
	w.wantUsage(t, "pro", 2, 2, 1)
	free := w.occupy()
	t.Run("a cold request is refused, and no live call is charged", func(t *testing.T) {
		w.wantBusy(t, w.get("pro", movers))
		w.wantBusy(t, w.get("pro", large, "order_by", "ctr", "date_range", "last_7d"))
		w.wantUsage(t, "pro", 5, 5, 1)
		w.wantMetrics(t, `sara_fills_refused_total{reason="patience"} 2`, "sara_fills_waiting 0", `sara_cache_fills_total{outcome="refused"} 2`)
	})
	t.Run("hits are answered", func(t *testing.T) {
		w.get("pro", large, "order_by", "impressions").ok(t)
		w.get("pro", large, "order_by", "ctr").ok(t)
	})
	t.Run("small questions are answered, of all accounts", func(t *testing.T) {
		w.get("other", w.path("foreign", "/summary")).ok(t)
		w.get("pro", w.path("large", "/summary")).ok(t)
	})
	free()
	w.get("pro", movers).ok(t)
	w.wantMetrics(t, "sara_fill_bytes_in_flight 0")
}

// A refusal for memory is answered with a stale copy where there is one, but never with the archive's fewer rows.
func TestPages200StaleMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, little(10*time.Millisecond))
	path := w.path("large", "/pages")
	fresh := w.get("pro", path, "order_by", "impressions").ok(t)
	defer w.occupy()()
	w.advance(20 * time.Minute)
	r := w.live("pro", path, "order_by", "impressions").ok(t)
	if r.meta()["stale_reason"] != reasonBusy || len(r.rows()) != len(fresh.rows()) {
		t.Errorf("%d rows, %v", len(r.rows()), r.meta())
	}
	r = w.get("pro", path, "order_by", "impressions").ok(t) // stale while revalidate: its refill is refused
	if r.meta()["stale_reason"] != nil {
		t.Errorf("%v", r.meta())
	}
}

// Requests that wait for the same rows are refused together: none of them tries by itself.
func TestPages503ServiceUnavailableMemoryTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t, little(300*time.Millisecond))
	defer w.occupy()()
	var done sync.WaitGroup
	for range 10 {
		done.Go(func() { w.wantBusy(t, w.get("pro", w.path("large", "/pages"), "order_by", "ctr")) })
	}
	done.Wait()
	w.wantMetrics(t, `sara_fills_refused_total{reason="patience"} 1`)
}

// Twenty cold movers of one key, with room for one fill at a time, are all answered in turn.
func TestMoversPages200WaitForMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, little(time.Minute))
	var done sync.WaitGroup
	for i := range 20 {
		done.Go(func() {
			start := noon().AddDate(0, 0, -100-3*i)
			w.get("pro", w.path("prefix", "/movers/pages"),
				"start_date", start.Format(time.DateOnly), "end_date", start.AddDate(0, 0, 2).Format(time.DateOnly)).ok(t)
		})
	}
	for i := range 5 {
		w.get("other", w.path("foreign", "/summary"), "date_range", fmt.Sprintf("last_%dd", []int{7, 28, 90, 7, 28}[i])).ok(t)
	}
	done.Wait()
	w.wantMetrics(t, "sara_fill_bytes_in_flight 0", `sara_fills_refused_total{reason="queue"} 0`)
}

func TestFillBytes(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int64]int64{0: 256 << 20, 640 << 20: 160 << 20, 64 << 20: leastFillBytes, 8 << 30: 2 << 30} {
		if got := (Capacity{MemoryLimit: limit}).Fills(); got != want {
			t.Errorf("of %d: %d, want %d", limit, got, want)
		}
	}
	wide := translate.Query{Dimension: translate.ByPage, RowLimit: translate.WideSample}
	if largest := wide.MaxBody() + fillOverhead; largest > leastFillBytes-leastFillBytes/8 {
		t.Errorf("the least budget never admits a fill of %d bytes", largest)
	}
}

// A panic of a fill, or while it waits for memory, fails the request only, and leaves no memory reserved.
func TestPages500PanicInAFill(t *testing.T) {
	t.Parallel()
	for name, breaks := range map[string]func(*reportServer){
		"reserve": func(s *reportServer) { s.tables = nil },
		"run":     func(s *reportServer) { s.config.Upstream = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			breaks(w.server.reports)
			w.get("pro", w.path("main", "/pages")).want(t, http.StatusInternalServerError, openapi.CodeInternal)
			w.wantMetrics(t, "sara_fill_bytes_in_flight 0", "sara_panics_total 1")
		})
	}
}

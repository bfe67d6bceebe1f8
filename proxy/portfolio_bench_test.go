package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sara/translate"
)

// A portfolio of 300 properties is answered within 150 ms from memory or from the archive, on a machine of two cores that has nothing
// else to do.

// BenchmarkPortfolio300Memory sends the same request again: each property's answer is in memory.
func BenchmarkPortfolio300Memory(b *testing.B) {
	w := newPortfolioWorld(b)
	w.benchmark(b, "/v1/portfolio?limit=200&compare=previous_period", "")
}

// BenchmarkPortfolio300Series asks for other days each time: each property's answer is built from its daily series in memory.
func BenchmarkPortfolio300Series(b *testing.B) {
	w := newPortfolioWorld(b)
	end, n := *dateOf(b, "2026-11-19"), 0
	w.benchmarkEach(b, func() string {
		n++
		return fmt.Sprintf("/v1/portfolio?limit=200&compare=previous_period&start_date=%s&end_date=%s", end-27-translate.Date(n%200),
			end-translate.Date(n%200))
	})
}

// BenchmarkPortfolio300Archive is the same from the archive in a folder, whose files have been read before.
func BenchmarkPortfolio300Archive(b *testing.B) {
	history, keeping := kept(b)
	w := newWorld(b, keeping, limited(unlimited))
	w.addSites(smallSites(300))
	for name, p := range w.properties {
		if name != "foreign" && name != "archived" {
			w.keepTotals(history, p, "2026-05-01", "2026-11-19")
		}
	}
	w.answerWith(func(http.ResponseWriter, *http.Request) { b.Error("a live call") })
	end, n := *dateOf(b, "2026-11-19"), 0
	w.benchmarkEach(b, func() string {
		n++
		return fmt.Sprintf("/v1/portfolio?limit=200&start_date=%s&end_date=%s", end-27-translate.Date(n%150), end-translate.Date(n%150))
	})
}

// newPortfolioWorld has some 300 properties whose daily series are in memory.
func newPortfolioWorld(b *testing.B) *world {
	w := newWorld(b, limited(unlimited))
	w.addSites(smallSites(300))
	var rows []string
	for day := *dateOf(b, "2025-07-20"); day <= *dateOf(b, "2026-11-19"); day++ {
		rows = append(rows, fmt.Sprintf(`{"keys":["%s"],"clicks":%d,"impressions":%d,"ctr":0.1,"position":7.25}`, day, 100+day%50, 1000+10*(day%50)))
	}
	body := `{"rows":[` + strings.Join(rows, ",") + `]}`
	w.answerWith(func(rw http.ResponseWriter, _ *http.Request) { mustWrite(rw, body) })
	ctx := w.request("/v1/portfolio?limit=200&compare=previous_period")
	w.server.edge.Handler(ctx)
	if codes := readPortfolio(b, ctx.Response.Body()).codes(); codes[""] != 200 {
		b.Fatalf("the first request is answered with %v", codes)
	}
	return w
}

// benchmarkEach is benchmark with another target each time.
func (w *world) benchmarkEach(b *testing.B, target func() string) {
	ctx := w.request(target())
	b.ReportAllocs()
	for b.Loop() {
		ctx.Request.SetRequestURI(target())
		ctx.Response.Reset()
		w.server.edge.Handler(ctx)
		if ctx.Response.StatusCode() != http.StatusOK {
			b.Fatalf("answers %d %s", ctx.Response.StatusCode(), ctx.Response.Body())
		}
	}
}

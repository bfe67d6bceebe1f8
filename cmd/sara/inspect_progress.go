package main

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/proxy/jobs/inspector"
)

// newInspecting returns what shows people how far inspecting has come: a bar on a terminal, lines anywhere else. The caller
// calls end when nothing more happens.
func newInspecting(w io.Writer) (p inspector.Progress, end func()) {
	if isTerminal(w) {
		b := inspectingBar{newBar(w, "URLs", redraw)}
		return b, b.end
	}
	return inspectingLines{&lines{w: w}}, func() {}
}

// inspectingLines says what becomes of each property.
type inspectingLines struct{ teller }

var _ inspector.Progress = inspectingLines{}

// Discovered implements inspector.Progress.
func (l inspectingLines) Discovered(p inspector.Property, urls int, capped bool, problems []inspector.SitemapProblem) {
	more := ""
	if capped {
		more = ", the most important of those that there are"
	}
	l.say("%s: %d URLs%s", p.Site, urls, more)
	for _, problem := range problems {
		l.say("%s: sitemap %s: %s", p.Site, problem.Path, problem.Problem)
	}
}

// Started implements inspector.Progress.
func (l inspectingLines) Started(p inspector.Property, urls int) {
	l.say("%s: %d URLs to inspect", p.Site, urls)
}

// Inspected implements inspector.Progress.
func (l inspectingLines) Inspected(inspector.Property, string) {}

// UnknownLabel implements inspector.Progress.
func (l inspectingLines) UnknownLabel(p inspector.Property, label string) {
	l.say("%s: Search Console says %q, which is in no bucket that is known", p.Site, label)
}

// Paused implements inspector.Progress.
func (l inspectingLines) Paused(p inspector.Property, until time.Time, err error) {
	l.say("%s: %v; again at %s", p.Site, err, timestamp(until))
}

// Ended implements inspector.Progress.
func (l inspectingLines) Ended(p inspector.Property, err error) {
	if err != nil {
		l.say("%s: %v", p.Site, err)
		return
	}
	l.say("%s: done", p.Site)
}

// inspectingBar draws the URLs, with the last one.
type inspectingBar struct{ *bar }

var _ inspector.Progress = inspectingBar{}

// Discovered implements inspector.Progress.
func (b inspectingBar) Discovered(p inspector.Property, urls int, capped bool, problems []inspector.SitemapProblem) {
	inspectingLines{b}.Discovered(p, urls, capped, problems)
}

// Started implements inspector.Progress.
func (b inspectingBar) Started(p inspector.Property, urls int) { b.expect(p.ID, urls) }

// Inspected implements inspector.Progress.
func (b inspectingBar) Inspected(p inspector.Property, url string) { b.did(p.ID, url) }

// UnknownLabel implements inspector.Progress.
func (b inspectingBar) UnknownLabel(p inspector.Property, label string) {
	inspectingLines{b}.UnknownLabel(p, label)
}

// Paused implements inspector.Progress.
func (b inspectingBar) Paused(p inspector.Property, until time.Time, err error) {
	inspectingLines{b}.Paused(p, until, err)
}

// Ended implements inspector.Progress. That all is well is told by the bar.
func (b inspectingBar) Ended(p inspector.Property, err error) {
	if err != nil {
		inspectingLines{b}.Ended(p, err)
	}
	b.giveUp(p.ID) // what the day has no room for
}

// inspectingLog tells the log and the metrics of the service what the daily run does.
type inspectingLog struct {
	log           *slog.Logger
	inspections   prometheus.Counter
	unknownLabels prometheus.Counter
	sitemaps      prometheus.Counter
}

var _ inspector.Progress = (*inspectingLog)(nil)

func newInspectingLog(log *slog.Logger, registry prometheus.Registerer) *inspectingLog {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		registry.MustRegister(c)
		return c
	}
	return &inspectingLog{log: log,
		inspections:   counter("sara_index_inspections_total", "URLs that were inspected."),
		unknownLabels: counter("sara_index_unknown_labels_total", "Inspections whose coverage label is not known; they count as unknown."),
		sitemaps:      counter("sara_index_sitemap_problems_total", "Sitemaps that were not read, or not wholly."),
	}
}

// Discovered implements inspector.Progress.
func (l *inspectingLog) Discovered(p inspector.Property, urls int, capped bool, problems []inspector.SitemapProblem) {
	l.log.Info("discovered", slog.String("property", p.ID), slog.String("site", p.Site), slog.Int("urls", urls), slog.Bool("capped", capped))
	for _, problem := range problems {
		l.sitemaps.Inc()
		l.log.Warn("a sitemap was not read", slog.String("property", p.ID), slog.String("sitemap", problem.Path), slog.String("problem", problem.Problem))
	}
}

// Started implements inspector.Progress.
func (l *inspectingLog) Started(p inspector.Property, urls int) {
	l.log.Info("inspecting", slog.String("property", p.ID), slog.String("site", p.Site), slog.Int("urls", urls))
}

// Inspected implements inspector.Progress.
func (l *inspectingLog) Inspected(inspector.Property, string) { l.inspections.Inc() }

// UnknownLabel implements inspector.Progress.
func (l *inspectingLog) UnknownLabel(p inspector.Property, label string) {
	l.unknownLabels.Inc()
	l.log.Warn("a coverage label is not known", slog.String("property", p.ID), slog.String("label", label))
}

// Paused implements inspector.Progress.
func (l *inspectingLog) Paused(p inspector.Property, until time.Time, err error) {
	l.log.Warn("inspecting pauses", slog.String("property", p.ID), slog.Time("until", until), slog.Any("error", err))
}

// Ended implements inspector.Progress.
func (l *inspectingLog) Ended(p inspector.Property, err error) {
	if err != nil {
		l.log.Warn("not inspected", slog.String("property", p.ID), slog.String("site", p.Site), slog.Any("error", err))
		return
	}
	l.log.Info("inspected", slog.String("property", p.ID), slog.String("site", p.Site))
}

// report tells of a daily run. What became of each property has been told.
func (l *inspectingLog) report(ctx context.Context, results []inspector.Result, err error) {
	inspected, failed := 0, 0
	for _, r := range results {
		inspected += r.Inspected
		if r.Err != nil {
			failed++
		}
	}
	attributes := []slog.Attr{slog.Int("properties", len(results)), slog.Int("urls", inspected), slog.Int("failed", failed)}
	if err != nil {
		l.log.LogAttrs(ctx, slog.LevelError, "the daily inspections stopped", append(attributes, slog.Any("error", err))...)
		return
	}
	l.log.LogAttrs(ctx, slog.LevelInfo, "daily inspections", attributes...)
}

package command

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/proxy/jobs/collector"
	"sara/proxy/jobs/inspector"
	"sara/proxy/jobs/schedule"
	"sara/proxy/upstream"
)

// jobLog logs the events of a daily job.
type jobLog struct {
	log   *slog.Logger
	words jobWords
}

var _ schedule.Progress = jobLog{}

// Planned implements schedule.Progress.
func (l jobLog) Planned(steps map[string]int) {
	total := 0
	for _, n := range steps {
		total += n
	}
	l.log.Info(l.words.participle+" starts", slog.Int("properties", len(steps)), slog.Int(strings.ToLower(l.words.steps), total))
}

// Started implements schedule.Progress.
func (l jobLog) Started(t upstream.Target, steps int) {
	l.log.Info(l.words.participle, slog.String("property", t.PropertyID), slog.String("site", t.Site),
		slog.Int(strings.ToLower(l.words.steps), steps))
}

// Advanced implements schedule.Progress.
func (l jobLog) Advanced(upstream.Target, string) {}

// Noticed implements schedule.Progress.
func (l jobLog) Noticed(t upstream.Target, notice fmt.Stringer) {
	property := slog.String("property", t.PropertyID)
	switch n := notice.(type) {
	case collector.Pruned:
		l.log.Info("deleted days that the plan does not keep", property, slog.String("before", n.Before.String()))
	case collector.Unconfirmed:
		l.log.Warn("days that the plan does not keep are not deleted: the newest archived day of all properties does not confirm the clock",
			property, slog.String("before", n.Before.String()), slog.String("newest", n.Newest.String()))
	case collector.LeftRows:
		l.log.Warn("rows without a key, or with one that is too long, are not archived", property, slog.Int("rows", int(n)))
	case inspector.Discovered:
		l.log.Info("discovered", property, slog.String("site", t.Site), slog.Int("urls", n.URLs), slog.Bool("capped", n.Capped))
	case inspector.SitemapProblem:
		l.log.Warn("a sitemap was not read", property, slog.String("sitemap", n.Path), slog.String("problem", n.Problem))
	case inspector.UnknownLabel:
		l.log.Warn("a coverage label is not known", property, slog.String("label", string(n)))
	default:
		l.log.Info(n.String(), property)
	}
}

// Paused implements schedule.Progress.
func (l jobLog) Paused(t upstream.Target, until time.Time, reason error) {
	l.log.Warn(l.words.participle+" pauses", slog.String("property", t.PropertyID), slog.Time("until", until), slog.Any("error", reason))
}

// Ended implements schedule.Progress.
func (l jobLog) Ended(t upstream.Target, err error) {
	property, site := slog.String("property", t.PropertyID), slog.String("site", t.Site)
	if err != nil {
		l.log.Warn("not "+l.words.past, property, site, slog.Any("error", err))
		return
	}
	l.log.Info(l.words.past, property, site)
}

// round logs the totals of a round of the daily job, or the error that ended it. Single properties are logged by Ended.
func (l jobLog) round(ctx context.Context, properties, steps, failed int, err error) {
	attributes := []slog.Attr{slog.Int("properties", properties), slog.Int(strings.ToLower(l.words.steps), steps), slog.Int("failed", failed)}
	if err != nil {
		l.log.LogAttrs(ctx, slog.LevelError, "daily "+l.words.participle+" failed", append(attributes, slog.Any("error", err))...)
		return
	}
	l.log.LogAttrs(ctx, slog.LevelInfo, "daily "+l.words.participle+" done", attributes...)
}

// collected logs a round of the collector.
func (l jobLog) collected(ctx context.Context, results []collector.Result, err error) {
	days, failed := 0, 0
	for _, r := range results {
		days += r.Days
		if r.Err != nil {
			failed++
		}
	}
	l.round(ctx, len(results), days, failed, err)
}

// inspected logs a round of the inspector.
func (l jobLog) inspected(ctx context.Context, results []inspector.Result, err error) {
	urls, failed := 0, 0
	for _, r := range results {
		urls += r.Inspected
		if r.Err != nil {
			failed++
		}
	}
	l.round(ctx, len(results), urls, failed, err)
}

// inspectionLog also counts the inspections in metrics.
type inspectionLog struct {
	jobLog
	inspections   prometheus.Counter
	unknownLabels prometheus.Counter
	sitemaps      prometheus.Counter
}

func newInspectionLog(log *slog.Logger, registry prometheus.Registerer) *inspectionLog {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		registry.MustRegister(c)
		return c
	}
	return &inspectionLog{jobLog: jobLog{log, inspecting},
		inspections:   counter("sara_index_inspections_total", "URLs that were inspected."),
		unknownLabels: counter("sara_index_unknown_labels_total", "Inspections with a coverage label that is not known; they count as unknown."),
		sitemaps:      counter("sara_index_sitemap_problems_total", "Sitemaps that were not read, or only in part."),
	}
}

// Advanced implements schedule.Progress.
func (l *inspectionLog) Advanced(upstream.Target, string) { l.inspections.Inc() }

// Noticed implements schedule.Progress.
func (l *inspectionLog) Noticed(t upstream.Target, notice fmt.Stringer) {
	switch notice.(type) {
	case inspector.UnknownLabel:
		l.unknownLabels.Inc()
	case inspector.SitemapProblem:
		l.sitemaps.Inc()
	}
	l.jobLog.Noticed(t, notice)
}

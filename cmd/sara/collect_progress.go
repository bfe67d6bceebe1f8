package main

import (
	"context"
	"io"
	"log/slog"
	"time"

	"sara/proxy/jobs/collector"
	"sara/translate"
)

// newProgress returns what shows people how far collecting has come: a bar on a terminal, lines anywhere else. The caller
// calls end when nothing more happens.
func newProgress(w io.Writer) (p collector.Progress, end func()) {
	if isTerminal(w) {
		b := collectingBar{newBar(w, "days", redraw)}
		return b, b.end
	}
	return collectingLines{teller: &lines{w: w}}, func() {}
}

// teller is where lines for people go.
type teller interface {
	say(format string, args ...any)
}

// collectingLines says what becomes of each property.
type collectingLines struct{ teller }

var _ collector.Progress = collectingLines{}

// Started implements collector.Progress.
func (l collectingLines) Started(p collector.Property, days int) {
	l.say("%s: %d days to collect", p.Site, days)
}

// Collected implements collector.Progress.
func (l collectingLines) Collected(collector.Property, translate.Date) {}

// Paused implements collector.Progress.
func (l collectingLines) Paused(p collector.Property, until time.Time, err error) {
	l.say("%s: %v; again at %s", p.Site, err, timestamp(until))
}

// Pruned implements collector.Progress.
func (l collectingLines) Pruned(p collector.Property, before translate.Date) {
	l.say("%s: days before %s are forgotten", p.Site, before)
}

// Ended implements collector.Progress.
func (l collectingLines) Ended(p collector.Property, err error) {
	if err != nil {
		l.say("%s: %v", p.Site, err)
		return
	}
	l.say("%s: complete", p.Site)
}

// collectingBar draws the days, with the property of the last one.
type collectingBar struct{ *bar }

var _ collector.Progress = collectingBar{}

// Started implements collector.Progress.
func (b collectingBar) Started(p collector.Property, days int) { b.expect(p.ID, days) }

// Collected implements collector.Progress.
func (b collectingBar) Collected(p collector.Property, day translate.Date) {
	b.did(p.ID, p.Site+" "+day.String())
}

// Paused implements collector.Progress.
func (b collectingBar) Paused(p collector.Property, until time.Time, err error) {
	collectingLines{b}.Paused(p, until, err)
}

// Pruned implements collector.Progress.
func (b collectingBar) Pruned(p collector.Property, before translate.Date) {
	collectingLines{b}.Pruned(p, before)
}

// Ended implements collector.Progress. That all is well is told by the bar.
func (b collectingBar) Ended(p collector.Property, err error) {
	if err != nil {
		collectingLines{b}.Ended(p, err)
		b.giveUp(p.ID)
	}
}

// logProgress tells the log of the service what the daily run does.
type logProgress struct{ log *slog.Logger }

var _ collector.Progress = logProgress{}

// Started implements collector.Progress.
func (l logProgress) Started(p collector.Property, days int) {
	l.log.Info("collecting", slog.String("property", p.ID), slog.String("site", p.Site), slog.Int("days", days))
}

// Collected implements collector.Progress.
func (l logProgress) Collected(collector.Property, translate.Date) {}

// Paused implements collector.Progress.
func (l logProgress) Paused(p collector.Property, until time.Time, err error) {
	l.log.Warn("collecting pauses", slog.String("property", p.ID), slog.Time("until", until), slog.Any("error", err))
}

// Pruned implements collector.Progress.
func (l logProgress) Pruned(p collector.Property, before translate.Date) {
	l.log.Info("forgot what the plan does not keep", slog.String("property", p.ID), slog.String("before", before.String()))
}

// Ended implements collector.Progress.
func (l logProgress) Ended(p collector.Property, err error) {
	if err != nil {
		l.log.Warn("not collected", slog.String("property", p.ID), slog.String("site", p.Site), slog.Any("error", err))
		return
	}
	l.log.Info("collected", slog.String("property", p.ID), slog.String("site", p.Site))
}

// report tells of a daily run. What became of each property has been told.
func (l logProgress) report(ctx context.Context, results []collector.Result, err error) {
	days, failed := 0, 0
	for _, r := range results {
		days += r.Days
		if r.Err != nil {
			failed++
		}
	}
	attributes := []slog.Attr{slog.Int("properties", len(results)), slog.Int("days", days), slog.Int("failed", failed)}
	if err != nil {
		l.log.LogAttrs(ctx, slog.LevelError, "the daily run stopped", append(attributes, slog.Any("error", err))...)
		return
	}
	l.log.LogAttrs(ctx, slog.LevelInfo, "daily run", attributes...)
}

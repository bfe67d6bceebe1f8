package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"sara/archive/collector"
	"sara/translate"
)

// newProgress returns what shows people how far collecting has come: a bar on a terminal, lines anywhere else. The caller
// calls end when nothing more happens.
func newProgress(w io.Writer) (p collector.Progress, end func()) {
	const redraw = 100 * time.Millisecond
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		b := newBarProgress(w, redraw)
		return b, b.end
	}
	return &lineProgress{w: w}, func() {}
}

// lineProgress writes a line for whatever becomes of a property. The output that it would complain on is the one that it has.
type lineProgress struct {
	mu sync.Mutex
	w  io.Writer
}

var _ collector.Progress = (*lineProgress)(nil)

func (l *lineProgress) say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = fmt.Fprintf(l.w, format+"\n", args...)
}

// Started implements collector.Progress.
func (l *lineProgress) Started(p collector.Property, days int) {
	l.say("%s: %d days to collect", p.Site, days)
}

// Collected implements collector.Progress.
func (l *lineProgress) Collected(collector.Property, translate.Date) {}

// Paused implements collector.Progress.
func (l *lineProgress) Paused(p collector.Property, until time.Time, err error) {
	l.say("%s: %v; again at %s", p.Site, err, timestamp(until))
}

// Pruned implements collector.Progress.
func (l *lineProgress) Pruned(p collector.Property, before translate.Date) {
	l.say("%s: days before %s are forgotten", p.Site, before)
}

// Ended implements collector.Progress.
func (l *lineProgress) Ended(p collector.Property, err error) {
	if err != nil {
		l.say("%s: %v", p.Site, err)
		return
	}
	l.say("%s: complete", p.Site)
}

// barProgress draws one bar over the days of all properties, with the property of the last day before it.
type barProgress struct {
	lines *lineProgress

	mu   sync.Mutex
	bar  *progressbar.ProgressBar
	left map[string]int // days of each property that are not done
}

var _ collector.Progress = (*barProgress)(nil)

func newBarProgress(w io.Writer, redraw time.Duration) *barProgress {
	// A day more than there are keeps the bar from being finished before the last property has begun.
	bar := progressbar.NewOptions(1, progressbar.OptionSetWriter(w), progressbar.OptionFullWidth(), progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true), progressbar.OptionSetItsString("days"), progressbar.OptionThrottle(redraw))
	return &barProgress{lines: &lineProgress{w: w}, bar: bar, left: make(map[string]int)}
}

// Started implements collector.Progress.
func (b *barProgress) Started(p collector.Property, days int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bar.AddMax(days - b.left[p.ID]) // what was left before a pause has been added already
	b.left[p.ID] = days
}

// Collected implements collector.Progress.
func (b *barProgress) Collected(p collector.Property, day translate.Date) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left[p.ID]--
	b.bar.Describe(p.Site + " " + day.String())
	_ = b.bar.Add(1) // it only fails to draw
}

// Paused implements collector.Progress.
func (b *barProgress) Paused(p collector.Property, until time.Time, err error) {
	b.above(func() { b.lines.Paused(p, until, err) })
}

// Pruned implements collector.Progress.
func (b *barProgress) Pruned(p collector.Property, before translate.Date) {
	b.above(func() { b.lines.Pruned(p, before) })
}

// Ended implements collector.Progress. That all is well is told by the bar.
func (b *barProgress) Ended(p collector.Property, err error) {
	if err == nil {
		return
	}
	b.above(func() { b.lines.Ended(p, err) })
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bar.AddMax(-b.left[p.ID]) // nobody is at them any more
	delete(b.left, p.ID)
}

// above writes lines above the bar.
func (b *barProgress) above(write func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.bar.Clear()
	write()
	_ = b.bar.RenderBlank()
}

// end leaves the bar as it is and ends its line.
func (b *barProgress) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.bar.Exit()
	_, _ = fmt.Fprintln(b.lines.w)
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

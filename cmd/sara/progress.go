package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"sara/cmd/sara/internal/console"
	"sara/proxy/jobs/schedule"
	"sara/proxy/upstream"
)

// jobWords are the words for a job and its steps.
type jobWords struct {
	steps      string // days
	verb       string // collect
	participle string // collecting
	past       string // collected
}

var (
	collecting = jobWords{"days", "collect", "collecting", "collected"}
	inspecting = jobWords{"URLs", "inspect", "inspecting", "inspected"}
)

// redraw is the interval between two drawings of a bar.
const redraw = 100 * time.Millisecond

// newProgress returns the progress of a job for people: a bar on a terminal, otherwise lines. The caller calls end when the
// run is over.
func newProgress(w io.Writer, words jobWords) (p schedule.Progress, end func()) {
	lines := &progressLines{words: words, w: w}
	if console.IsTerminal(w) {
		b := newBar(lines, redraw)
		return b, b.end
	}
	return lines, func() {}
}

// progressLines prints a line for each event except single steps.
type progressLines struct {
	words jobWords
	mu    sync.Mutex
	w     io.Writer
}

var _ schedule.Progress = (*progressLines)(nil)

// print prints a line. A failure is ignored: the error would go to the same output.
func (l *progressLines) print(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = fmt.Fprintf(l.w, format+"\n", args...)
}

// Started implements schedule.Progress.
func (l *progressLines) Started(t upstream.Target, steps int) {
	l.print("%s: %d %s to %s", t.Site, steps, l.words.steps, l.words.verb)
}

// Advanced implements schedule.Progress.
func (l *progressLines) Advanced(upstream.Target, string) {}

// Noticed implements schedule.Progress.
func (l *progressLines) Noticed(t upstream.Target, notice fmt.Stringer) {
	l.print("%s: %s", t.Site, notice)
}

// Paused implements schedule.Progress.
func (l *progressLines) Paused(t upstream.Target, until time.Time, reason error) {
	l.print("%s: %v; next attempt at %s", t.Site, reason, console.Timestamp(until))
}

// Ended implements schedule.Progress.
func (l *progressLines) Ended(t upstream.Target, err error) {
	if err != nil {
		l.print("%s: %v", t.Site, err)
		return
	}
	l.print("%s: done", t.Site)
}

// progressBar is one bar for the steps of all properties, labelled with the last one. Lines are printed above it.
type progressBar struct {
	lines *progressLines

	mu   sync.Mutex // guards what follows
	bar  *progressbar.ProgressBar
	left map[string]int // steps to do, by property
}

var _ schedule.Progress = (*progressBar)(nil)

func newBar(lines *progressLines, redraw time.Duration) *progressBar {
	// One extra step keeps the bar from finishing before the last property has started.
	bar := progressbar.NewOptions(1, progressbar.OptionSetWriter(lines.w), progressbar.OptionFullWidth(), progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true), progressbar.OptionSetItsString(lines.words.steps), progressbar.OptionThrottle(redraw))
	return &progressBar{lines: lines, bar: bar, left: make(map[string]int)}
}

// Started implements schedule.Progress.
func (b *progressBar) Started(t upstream.Target, steps int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bar.AddMax(steps - b.left[t.PropertyID]) // what was left before a pause is in the maximum already
	b.left[t.PropertyID] = steps
}

// Advanced implements schedule.Progress.
func (b *progressBar) Advanced(t upstream.Target, step string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left[t.PropertyID]--
	b.bar.Describe(step)
	_ = b.bar.Add(1) // fails only to draw
}

// above prints lines above the bar.
func (b *progressBar) above(print func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.bar.Clear()
	print()
	_ = b.bar.RenderBlank()
}

// Noticed implements schedule.Progress.
func (b *progressBar) Noticed(t upstream.Target, notice fmt.Stringer) {
	b.above(func() { b.lines.Noticed(t, notice) })
}

// Paused implements schedule.Progress.
func (b *progressBar) Paused(t upstream.Target, until time.Time, reason error) {
	b.above(func() { b.lines.Paused(t, until, reason) })
}

// Ended implements schedule.Progress. The bar itself shows success; it drops the steps that are left.
func (b *progressBar) Ended(t upstream.Target, err error) {
	if err != nil {
		b.above(func() { b.lines.Ended(t, err) })
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bar.AddMax(-b.left[t.PropertyID])
	delete(b.left, t.PropertyID)
}

// end ends the line of the bar.
func (b *progressBar) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.bar.Exit()
	_, _ = fmt.Fprintln(b.lines.w)
}

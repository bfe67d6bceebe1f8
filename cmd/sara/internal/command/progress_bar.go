package command

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

// progressBar is one bar for the steps of all properties, labelled with the last one. Lines are printed above it.
type progressBar struct {
	lines *progressLines

	mu    sync.Mutex // guards what follows
	bar   *progressbar.ProgressBar
	tally tally
}

var _ schedule.Progress = (*progressBar)(nil)

func newBar(lines *progressLines, redraw time.Duration) *progressBar {
	// One extra step keeps the bar from finishing before the last property has ended.
	bar := progressbar.NewOptions(1, progressbar.OptionSetWriter(console.Raw(lines.w)), progressbar.OptionFullWidth(), progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true), progressbar.OptionSetItsString(lines.words.steps), progressbar.OptionThrottle(redraw))
	return &progressBar{lines: lines, bar: bar}
}

// Planned implements schedule.Progress.
func (b *progressBar) Planned(steps map[string]int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tally.plan(steps)
	b.bar.AddMax(b.tally.steps)
}

// Started implements schedule.Progress.
func (b *progressBar) Started(t upstream.Target, steps int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bar.AddMax(b.tally.start(t.PropertyID, steps)) // what was left before a pause is in the maximum already
}

// Advanced implements schedule.Progress.
func (b *progressBar) Advanced(t upstream.Target, step string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tally.advance(t.PropertyID)
	b.bar.Describe(console.OneLine(step))
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
		b.above(func() { b.lines.problem(t, err, "") })
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bar.AddMax(b.tally.end(t.PropertyID))
}

// end ends the line of the bar.
func (b *progressBar) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.bar.Exit()
	_, _ = fmt.Fprintln(b.lines.w)
	b.lines.printRepeated()
}

// newCountBar returns a bar on a terminal that disappears at its end, and nothing elsewhere. most is -1 if it is not known. end may be called
// twice.
func newCountBar(w io.Writer, most int, options ...progressbar.Option) (advance, end func()) {
	if !console.IsTerminal(w) {
		return func() {}, func() {}
	}
	bar := progressbar.NewOptions(most, append(options, progressbar.OptionSetWriter(console.Raw(w)), progressbar.OptionClearOnFinish())...)
	return func() { _ = bar.Add(1) }, func() { _ = bar.Finish() } // an error would go to the same terminal
}

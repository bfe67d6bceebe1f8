package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// redraw is how often a bar is drawn.
const redraw = 100 * time.Millisecond

// lines are written by several goroutines. The output that they would complain on is the one that they have.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = fmt.Fprintf(l.w, format+"\n", args...)
}

// bar is one bar over the steps of all properties, with what was done last before it.
type bar struct {
	w io.Writer

	mu   sync.Mutex // guards what follows
	bar  *progressbar.ProgressBar
	left map[string]int // steps of each property that are not done
}

// newBar returns a bar that counts in some unit, such as days.
func newBar(w io.Writer, unit string, redraw time.Duration) *bar {
	// A step more than there are keeps the bar from being finished before the last property has begun.
	drawn := progressbar.NewOptions(1, progressbar.OptionSetWriter(w), progressbar.OptionFullWidth(), progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true), progressbar.OptionSetItsString(unit), progressbar.OptionThrottle(redraw))
	return &bar{w: w, bar: drawn, left: make(map[string]int)}
}

// expect sets how many steps there are to do about a property.
func (b *bar) expect(property string, steps int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bar.AddMax(steps - b.left[property]) // what was left before a pause has been added already
	b.left[property] = steps
}

// did does one of them.
func (b *bar) did(property, what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left[property]--
	b.bar.Describe(what)
	_ = b.bar.Add(1) // it only fails to draw
}

// giveUp drops the steps of a property that are left: nobody is at them any more.
func (b *bar) giveUp(property string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bar.AddMax(-b.left[property])
	delete(b.left, property)
}

// say writes a line above the bar.
func (b *bar) say(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.bar.Clear()
	_, _ = fmt.Fprintf(b.w, format+"\n", args...)
	_ = b.bar.RenderBlank()
}

// end leaves the bar as it is and ends its line.
func (b *bar) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.bar.Exit()
	_, _ = fmt.Fprintln(b.w)
}

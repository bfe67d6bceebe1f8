package command

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"sara/cmd/sara/internal/console"
	"sara/proxy/jobs/inspector"
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

const (
	// redraw is the interval between two drawings of a bar.
	redraw = 100 * time.Millisecond
	// reportEvery is the interval between two lines where there is no terminal.
	reportEvery = time.Minute
)

// newProgress returns the progress of a job for people: a bar on a terminal, otherwise a line a minute. The caller calls end when
// the run is over; it may be called again.
func newProgress(w io.Writer, words jobWords) (p schedule.Progress, end func()) {
	lines := newProgressLines(w, words)
	if console.IsTerminal(w) {
		b := newBar(lines, redraw)
		return b, sync.OnceFunc(b.end)
	}
	stop := repeat(reportEvery, lines.report)
	return lines, sync.OnceFunc(func() {
		stop()
		lines.report()
		lines.printRepeated()
	})
}

// repeat calls a function at intervals until stop is called.
func repeat(interval time.Duration, call func()) (stop func()) {
	stopped := make(chan struct{})
	var calling sync.WaitGroup
	calling.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				call()
			case <-stopped:
				return
			}
		}
	})
	return func() {
		close(stopped)
		calling.Wait()
	}
}

// remaining describes how much is left after some time, empty at the beginning and at the end.
func remaining(after time.Duration, done, total int64) string {
	if done <= 0 || done >= total {
		return ""
	}
	left := time.Duration(float64(after) / float64(done) * float64(total-done))
	return fmt.Sprintf(" (%d %%), about %v left", done*100/total, left.Round(time.Minute))
}

// A tally counts the steps of a run. What is planned counts from the start, so that the whole is known before most properties are
// started.
type tally struct {
	left             map[string]int // steps to do, by property
	steps, done      int
	properties, over int
}

// plan counts the estimates of all properties.
func (t *tally) plan(steps map[string]int) {
	t.left = maps.Clone(steps)
	t.properties = len(steps)
	for _, n := range steps {
		t.steps += n
	}
}

// start corrects what is left of a property. It returns by how much the whole grows.
func (t *tally) start(property string, steps int) int {
	if t.left == nil {
		t.left = make(map[string]int)
	}
	change := steps - t.left[property]
	t.left[property] = steps
	t.steps += change
	return change
}

func (t *tally) advance(property string) {
	t.left[property]--
	t.done++
}

// end drops the steps that a property leaves undone. It returns by how much the whole grows, which is never positive.
func (t *tally) end(property string) int {
	change := -t.left[property]
	delete(t.left, property)
	t.steps += change
	t.over++
	return change
}

// text describes the progress after some time.
func (t *tally) text(words jobWords, after time.Duration) string {
	return fmt.Sprintf("%s of %s properties, %s of %s %s", humanize.Comma(int64(t.over)), humanize.Comma(int64(max(t.properties, t.over))),
		humanize.Comma(int64(t.done)), humanize.Comma(int64(t.steps)), words.steps) + remaining(after, int64(t.done), int64(t.steps))
}

// progressLines prints what went wrong and, each minute, how far the run is. The same problem of many properties is printed once, and
// then counted.
type progressLines struct {
	words jobWords
	began time.Time

	mu       sync.Mutex // guards what follows
	w        io.Writer
	tally    tally
	repeated map[string]int // how often each problem was not printed, by its text
}

var _ schedule.Progress = (*progressLines)(nil)

func newProgressLines(w io.Writer, words jobWords) *progressLines {
	return &progressLines{words: words, began: time.Now(), w: w, repeated: make(map[string]int)}
}

// report prints how far the run is.
func (l *progressLines) report() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.print("%s", l.tally.text(l.words, time.Since(l.began)))
}

// print prints a line. A failure is ignored: the error would go to the same output. The caller holds mu.
func (l *progressLines) print(format string, args ...any) {
	_, _ = fmt.Fprintf(l.w, format+"\n", args...)
}

// problem prints a problem of a property unless it was printed for another one.
func (l *progressLines) problem(t upstream.Target, err error, suffix string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, printed := l.repeated[err.Error()]; printed {
		l.repeated[err.Error()]++
		return
	}
	l.repeated[err.Error()] = 0
	l.print("%s: %v%s", t.Site, err, suffix)
}

// printRepeated prints how often each problem was not printed.
func (l *progressLines) printRepeated() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, text := range slices.Sorted(maps.Keys(l.repeated)) {
		if n := l.repeated[text]; n > 0 {
			l.print("%s more: %s", english.Plural(n, "time", ""), text)
		}
	}
}

// Planned implements schedule.Progress.
func (l *progressLines) Planned(steps map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tally.plan(steps)
	l.print("%s to %s: %s %s", english.Plural(l.tally.properties, "property", ""), l.words.verb, humanize.Comma(int64(l.tally.steps)),
		english.PluralWord(l.tally.steps, strings.TrimSuffix(l.words.steps, "s"), l.words.steps))
}

// Started implements schedule.Progress.
func (l *progressLines) Started(t upstream.Target, steps int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tally.start(t.PropertyID, steps)
}

// Advanced implements schedule.Progress.
func (l *progressLines) Advanced(t upstream.Target, _ string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tally.advance(t.PropertyID)
}

// Noticed implements schedule.Progress. How many URLs there are is in the table of the results.
func (l *progressLines) Noticed(t upstream.Target, notice fmt.Stringer) {
	if _, ok := notice.(inspector.Discovered); ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.print("%s: %s", t.Site, notice)
}

// Paused implements schedule.Progress.
func (l *progressLines) Paused(t upstream.Target, until time.Time, reason error) {
	l.problem(t, reason, "; next attempt at "+console.Timestamp(until))
}

// Ended implements schedule.Progress.
func (l *progressLines) Ended(t upstream.Target, err error) {
	if err != nil {
		l.problem(t, err, "")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tally.end(t.PropertyID)
}

package service

import (
	"bytes"
	"io"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/cmd/sara/internal/settings"
)

const (
	// backlogBound is how many bytes may wait for the log's reader. Access lines only take accessBound of it: a reader that is too slow for them
	// still gets the other lines, which are few, and say what is wrong.
	backlogBound = 4 << 20
	accessBound  = 3 << 20
	// accessDelay is how long an access line may wait for others, so that many are written at once: a write for each request would cost half as
	// much as an answer from memory. With accessFlush bytes, lines do not wait.
	accessDelay = 200 * time.Millisecond
	accessFlush = 64 << 10
	// lastLines is how long Close waits for the reader. It is short: the process has nothing else to do.
	lastLines = time.Second
)

// A Backlog writes lines to a log in the background, so that a reader that stalls, such as a log collector whose disk is full, delays
// neither requests nor a shutdown: further lines are dropped and counted. Lines stay whole and in order; those of the access log are up to 200 ms
// late. It is safe for concurrent use.
type Backlog struct {
	out     io.Writer
	dropped prometheus.Counter

	mu     sync.Mutex // guards lines
	lines  []byte
	some   chan struct{} // signals that there are lines, which may wait for accessDelay
	due    chan struct{} // signals that they must not wait
	ending chan struct{}
	ended  chan struct{}
}

// OpenBacklog returns a Backlog, which the caller closes.
func OpenBacklog(out io.Writer, registry prometheus.Registerer) *Backlog {
	b := &Backlog{out: out, some: make(chan struct{}, 1), due: make(chan struct{}, 1), ending: make(chan struct{}),
		ended: make(chan struct{}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sara_log_lines_dropped_total", Help: "Lines of the log, access lines included, that were dropped because its reader did not keep up."})}
	registry.MustRegister(b.dropped)
	go b.run()
	return b
}

// Logs returns logs to the backlog.
func (b *Backlog) Logs(s settings.Log) Logs {
	l := OpenLogs(b, s)
	if l.Access.Out != nil {
		l.Access.Out = accessLines{b}
	}
	return l
}

// Write implements io.Writer for whole lines. It never blocks or fails.
func (b *Backlog) Write(p []byte) (int, error) {
	if _, added := b.add(p, backlogBound); added {
		signal(b.due)
	}
	return len(p), nil
}

// accessLines writes lines of the access log to a Backlog.
type accessLines struct{ *Backlog }

func (a accessLines) Write(p []byte) (int, error) {
	before, added := a.add(p, accessBound)
	switch {
	case added && before < accessFlush && before+len(p) >= accessFlush:
		signal(a.due)
	case added && before == 0:
		signal(a.some)
	}
	return len(p), nil
}

// add adds lines, unless those before them exceed the bound, and returns how many bytes were before them.
func (b *Backlog) add(p []byte, bound int) (before int, added bool) {
	b.mu.Lock()
	before = len(b.lines)
	if added = before <= bound; added {
		b.lines = append(b.lines, p...)
	}
	b.mu.Unlock()
	if !added {
		b.dropped.Add(float64(bytes.Count(p, []byte("\n"))))
	}
	return before, added
}

func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default: // already signalled
	}
}

func (b *Backlog) run() {
	defer close(b.ended)
	var spare []byte
	for {
		select {
		case <-b.ending:
			b.flush(spare)
			return
		case <-b.due:
		case <-b.some:
			select {
			case <-b.ending:
			case <-b.due:
			case <-time.After(accessDelay):
			}
		}
		spare = b.flush(spare)
	}
}

// flush swaps the lines for spare, writes them, and returns their memory for reuse.
func (b *Backlog) flush(spare []byte) []byte {
	b.mu.Lock()
	lines := b.lines
	b.lines = spare[:0]
	b.mu.Unlock()
	if len(lines) > 0 {
		_, _ = b.out.Write(lines) // there is no other log to report the error to
	}
	return lines
}

// Close writes the last lines, unless the reader stalls.
func (b *Backlog) Close() {
	close(b.ending)
	select {
	case <-b.ended:
	case <-time.After(lastLines):
	}
}

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
	// lastLines is how long Close waits for the reader. It is short: the process has nothing else to do.
	lastLines = time.Second
)

// A Backlog writes lines to a log in the background, so that a reader that stalls, such as a log collector whose disk is full, delays
// neither requests nor a shutdown: further lines are dropped and counted. It is safe for concurrent use.
type Backlog struct {
	out     io.Writer
	dropped prometheus.Counter

	mu     sync.Mutex // guards lines
	lines  []byte
	some   chan struct{} // signals that there are lines
	ending chan struct{}
	ended  chan struct{}
}

// OpenBacklog returns a Backlog, which the caller closes.
func OpenBacklog(out io.Writer, registry prometheus.Registerer) *Backlog {
	b := &Backlog{out: out, some: make(chan struct{}, 1), ending: make(chan struct{}), ended: make(chan struct{}),
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
func (b *Backlog) Write(p []byte) (int, error) { return b.write(p, backlogBound) }

// accessLines writes lines of the access log to a Backlog.
type accessLines struct{ *Backlog }

func (a accessLines) Write(p []byte) (int, error) { return a.write(p, accessBound) }

func (b *Backlog) write(p []byte, bound int) (int, error) {
	b.mu.Lock()
	full := len(b.lines) > bound
	if !full {
		b.lines = append(b.lines, p...)
	}
	b.mu.Unlock()
	if full {
		b.dropped.Add(float64(bytes.Count(p, []byte("\n"))))
		return len(p), nil
	}
	select {
	case b.some <- struct{}{}:
	default: // already signalled
	}
	return len(p), nil
}

func (b *Backlog) run() {
	defer close(b.ended)
	var spare []byte
	for {
		select {
		case <-b.some:
			spare = b.flush(spare)
		case <-b.ending:
			b.flush(spare)
			return
		}
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

package proxy

import (
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
)

// AccessFormat is how the line of a request is written: like the lines of the log that it goes to.
type AccessFormat uint8

// The formats, which are those of slog's handlers.
const (
	AccessText AccessFormat = iota // name=value
	AccessJSON
)

const (
	// accessDelay is how long a line may be held, to be written together with others: a write for each request would cost as
	// much as half of what answering from memory costs.
	accessDelay = 200 * time.Millisecond
	// accessFlush is from how many bytes on lines are not held any more, and accessBound how many there may be at most while
	// the log's reader does not keep up. Lines beyond it are dropped and counted: requests do not wait for a log.
	accessFlush = 64 << 10
	accessBound = 4 << 20
)

// accessLog has a line for each request that was answered. A line quotes nothing that the client wrote: a path that leads
// nowhere or a filter may hold a key or what people searched for.
type accessLog struct {
	out     io.Writer // nil: nobody wants the lines
	format  AccessFormat
	sample  float64 // the share of the successes whose lines are written
	dropped prometheus.Counter

	mu      sync.Mutex // guards held
	held    []byte
	first   chan struct{} // holds a value when there are lines, and none were before
	full    chan struct{} // holds a value when they are not to be held any longer
	stop    func()        // ends run
	stopped sync.WaitGroup
}

// newAccessLog returns the log, which writes until close.
func newAccessLog(out io.Writer, format AccessFormat, sample float64, registry prometheus.Registerer) *accessLog {
	l := &accessLog{out: out, format: format, sample: sample, first: make(chan struct{}, 1), full: make(chan struct{}, 1), stop: func() {},
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sara_access_lines_dropped_total", Help: "Lines of the access log that were dropped because its reader did not keep up."})}
	registry.MustRegister(l.dropped)
	if out != nil {
		ending := make(chan struct{})
		l.stop = sync.OnceFunc(func() { close(ending) })
		l.stopped.Go(func() { l.run(ending) })
	}
	return l
}

// run writes lines some time after the first of them was put there.
func (l *accessLog) run(ending <-chan struct{}) {
	var spare []byte
	for {
		select {
		case <-ending:
			l.flush(spare)
			return
		case <-l.first:
		}
		timer := time.NewTimer(accessDelay)
		select {
		case <-ending:
		case <-l.full:
		case <-timer.C:
		}
		timer.Stop()
		spare = l.flush(spare)
	}
}

// flush writes what is held, and gives the buffer back for what comes next.
func (l *accessLog) flush(spare []byte) []byte {
	l.mu.Lock()
	lines := l.held
	l.held = spare[:0]
	l.mu.Unlock()
	if len(lines) > 0 {
		_, _ = l.out.Write(lines) // the output that it would complain on is this one
	}
	return lines
}

// close writes what is held, and ends the log. It may be called again.
func (l *accessLog) close() {
	l.stop()
	l.stopped.Wait()
}

// shareOf returns the share of the answers like this one whose lines are written, and whether its own is one of them. Errors
// all have a line. Of successes, those do whose request's id begins with a low number, so that anybody can tell.
func (l *accessLog) shareOf(id string, status int) (share float64, written bool) {
	if l.sample == 1 || status >= fasthttp.StatusBadRequest {
		return 1, true
	}
	const digits, bits = 8, 32
	number, err := strconv.ParseUint(id[len(requestIDPrefix):][:digits], 16, bits)
	return l.sample, err == nil && float64(number) < l.sample*(1<<bits)
}

// write puts the line of a request there.
func (l *accessLog) write(c *call, status int, code string, took time.Duration) {
	if l.out == nil {
		return
	}
	share, written := l.shareOf(c.id, status)
	if !written {
		return
	}
	l.mu.Lock()
	before := len(l.held)
	if before > accessBound {
		l.mu.Unlock()
		l.dropped.Inc()
		return
	}
	l.held = l.format.append(l.held, c, status, code, took, share)
	after := len(l.held)
	l.mu.Unlock()
	if before == 0 {
		signal(l.first)
	}
	if before < accessFlush && after >= accessFlush {
		signal(l.full)
	}
}

func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default: // it is known already
	}
}

// append appends the line of a request. One that stands for others too says which share of them it is.
func (f AccessFormat) append(dst []byte, c *call, status int, code string, took time.Duration, share float64) []byte {
	ended := c.started.Add(took)
	if f == AccessJSON {
		dst = append(dst, `{"time":"`...)
		dst = appendInstant(dst, ended)
		dst = append(dst, `","level":"INFO","msg":"request"`...)
	} else {
		dst = append(dst, "time="...)
		dst = appendInstant(dst, ended)
		dst = append(dst, " level=INFO msg=request"...)
	}
	dst = f.text(dst, "request_id", c.id)
	dst = f.text(dst, "operation", c.route.label())
	dst = strconv.AppendInt(f.name(dst, "status"), int64(status), 10)
	dst = strconv.AppendFloat(f.name(dst, "seconds"), took.Seconds(), 'g', -1, 64)
	dst = strconv.AppendInt(f.name(dst, "bytes"), int64(c.length()), 10)
	dst = f.text(dst, "client", c.client)
	if code != "" {
		dst = f.text(dst, "code", code)
	}
	if c.grant != nil {
		dst = f.text(dst, "key", c.grant.Key.ID)
		dst = f.text(dst, "account", c.grant.Key.AccountID)
	}
	if c.property != nil {
		dst = f.text(dst, "property", c.property.ID)
	}
	if id := c.traceID(); id != "" {
		dst = f.text(dst, "trace_id", id)
	}
	if share < 1 {
		dst = strconv.AppendFloat(f.name(dst, "sample"), share, 'g', -1, 64)
	}
	if f == AccessJSON {
		dst = append(dst, '}')
	}
	return append(dst, '\n')
}

// appendInstant appends a time as the log's handlers write it, with milliseconds: as RFC 3339, which the library writes several
// times as fast as other layouts, and the milliseconds put in.
func appendInstant(dst []byte, t time.Time) []byte {
	const seconds = len("2006-01-02T15:04:05")
	start := len(dst)
	dst = t.AppendFormat(dst, time.RFC3339)
	ms := t.Nanosecond() / int(time.Millisecond)
	return slices.Insert(dst, start+seconds, '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10))
}

func (f AccessFormat) name(dst []byte, name string) []byte {
	if f == AccessJSON {
		dst = append(dst, `,"`...)
		dst = append(dst, name...)
		return append(dst, `":`...)
	}
	dst = append(dst, ' ')
	dst = append(dst, name...)
	return append(dst, '=')
}

func (f AccessFormat) text(dst []byte, name, value string) []byte {
	dst = f.name(dst, name)
	switch plain := isPlain(value); {
	case f == AccessJSON && plain:
		dst = append(dst, '"')
		dst = append(dst, value...)
		return append(dst, '"')
	case f == AccessJSON:
		quoted, err := json.Marshal(value)
		if err != nil {
			panic("BUG: a string does not marshal: " + err.Error())
		}
		return append(dst, quoted...)
	case plain && value != "":
		return append(dst, value...)
	}
	return strconv.AppendQuote(dst, value)
}

// isPlain reports whether a value needs no quotes and no escapes. All do but the client's address that a proxy names.
func isPlain(value string) bool {
	for i := range len(value) {
		if c := value[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' || c == '=' {
			return false
		}
	}
	return true
}

package proxy

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"sara/policy"
	"sara/proxy/media"
)

// AccessFormat is the format of the access log. It should match the log that shares its output.
type AccessFormat uint8

// The formats are those of slog's handlers.
const (
	AccessText AccessFormat = iota // name=value
	AccessJSON
)

// AccessLogConfig configures the access log of a Server. The zero value is that of none.
type AccessLogConfig struct {
	// Out gets a line for each answered request, in one call of Write; nil: there is no access log. Requests wait for Write, so it should
	// only copy the line, which is valid until it returns.
	Out    io.Writer
	Format AccessFormat

	// Sample is the fraction (0-1) of successes to log, chosen by request id. Errors are always logged.
	Sample float64
}

func (c *AccessLogConfig) check() error {
	if !(c.Sample >= 0 && c.Sample <= 1) {
		return fmt.Errorf("the sampled fraction %v of the access log is not between 0 and 1", c.Sample)
	}
	return nil
}

// An accessLog writes a line for each answered request. A line quotes no text of the client: an unknown path or a filter may
// hold a key or search terms.
type accessLog struct {
	config AccessLogConfig

	mu     sync.Mutex // guards line and second
	line   []byte
	second second
}

// sampled is the sampling decision: it returns the fraction of answers of this kind that are logged, and whether this one is.
// Errors are always logged. A success is logged if the number at the start of its request id is low, so that the decision is
// the same on every replica.
func (l *accessLog) sampled(id string, status int) (fraction float64, ok bool) {
	if l.config.Sample == 1 || status >= fasthttp.StatusBadRequest {
		return 1, true
	}
	const digits, bits = 8, 32
	number, err := strconv.ParseUint(id[len(requestIDPrefix):][:digits], 16, bits)
	return l.config.Sample, err == nil && float64(number) < l.config.Sample*(1<<bits)
}

// write writes the line of a request.
func (l *accessLog) write(x *exchange, status int, code string, took time.Duration) {
	if l.config.Out == nil {
		return
	}
	fraction, ok := l.sampled(x.id, status)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line = l.append(l.line[:0], x, status, code, took, fraction)
	_, _ = l.config.Out.Write(l.line) // there is no other log to report the error to
}

// append appends the line of a request. A sampled line carries the sampling fraction. The caller holds the lock.
func (l *accessLog) append(dst []byte, x *exchange, status int, code string, took time.Duration, fraction float64) []byte {
	f := l.config.Format
	dst = f.word(l.begin(dst, x.started.Add(took)), "request_id", x.id)
	dst = f.word(dst, "operation", x.route.label())
	if x.message != "" {
		dst = f.text(dst, "message", x.message)
	}
	dst = strconv.AppendInt(f.name(dst, "status"), int64(status), 10)
	dst = appendSeconds(f.name(dst, "seconds"), took)
	dst = strconv.AppendInt(f.name(dst, "bytes"), int64(x.length()), 10)
	dst = f.text(dst, "client", x.client)
	if code != "" {
		dst = f.word(dst, "code", code)
	}
	if x.format != media.JSON {
		dst = f.word(dst, "format", x.format.String())
	}
	if m := x.memoized; m != nil && x.property != nil {
		dst = append(dst, m.logged...)
	} else {
		dst = f.appendTenant(dst, x.grant, x.property)
	}
	if id := x.traceID(); id != "" {
		dst = f.text(dst, "trace_id", id)
	}
	if fraction < 1 {
		dst = strconv.AppendFloat(f.name(dst, "sample"), fraction, 'g', -1, 64)
	}
	if f == AccessJSON {
		dst = append(dst, '}')
	}
	return append(dst, '\n')
}

// begin appends what every line begins with, as slog's handlers write it.
func (l *accessLog) begin(dst []byte, at time.Time) []byte {
	if l.config.Format == AccessJSON {
		dst = append(dst, `{"time":"`...)
		dst = l.second.appendInstant(dst, at)
		return append(dst, `","level":"INFO","msg":"request"`...)
	}
	dst = append(dst, "time="...)
	dst = l.second.appendInstant(dst, at)
	return append(dst, " level=INFO msg=request"...)
}

// appendTenant appends for whom a request is answered, as far as that is known: either may be nil.
func (f AccessFormat) appendTenant(dst []byte, grant *policy.Grant, property *policy.Property) []byte {
	if grant != nil {
		dst = f.text(dst, "key", grant.Key.ID)
		dst = f.text(dst, "account", grant.Key.AccountID)
	}
	if property != nil {
		dst = f.text(dst, "property", property.ID)
	}
	return dst
}

// A second is the text of one second, because a replica writes the time of thousands of lines in each.
type second struct {
	since time.Time // its beginning
	text  []byte    // in RFC 3339, with three digits of milliseconds; nil: none yet
}

// appendInstant appends a time as slog's handlers write it, with milliseconds.
func (s *second) appendInstant(dst []byte, t time.Time) []byte {
	const fraction = len("2006-01-02T15:04:05.")
	if since := t.Truncate(time.Second); s.text == nil || since != s.since {
		s.since, s.text = since, t.AppendFormat(s.text[:0], "2006-01-02T15:04:05.000Z07:00")
	}
	start, ms := len(dst)+fraction, t.Nanosecond()/int(time.Millisecond)
	dst = append(dst, s.text...)
	dst[start], dst[start+1], dst[start+2] = byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10)
	return dst
}

// appendSeconds appends d in seconds as a decimal, with as many digits as it needs. It must not be negative.
func appendSeconds(dst []byte, d time.Duration) []byte {
	dst = strconv.AppendInt(dst, int64(d/time.Second), 10)
	point := len(dst)
	dst = strconv.AppendInt(dst, int64(time.Second+d%time.Second), 10) // which is 1 and nine digits
	dst[point] = '.'
	return bytes.TrimSuffix(bytes.TrimRight(dst, "0"), []byte("."))
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
	switch {
	case f == AccessJSON:
		return appendText(dst, value)
	case value != "" && isPlain(value):
		return append(dst, value...)
	}
	return strconv.AppendQuote(dst, value)
}

// word appends a value of ours, which never needs quotes or escapes.
func (f AccessFormat) word(dst []byte, name, value string) []byte {
	dst = f.name(dst, name)
	if f == AccessJSON {
		dst = append(dst, '"')
		dst = append(dst, value...)
		return append(dst, '"')
	}
	return append(dst, value...)
}

// isPlain reports whether a value needs no quotes in a line of text. Only an address from the trusted proxy may need them.
func isPlain(value string) bool {
	for i := range len(value) {
		if c := value[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' || c == '=' {
			return false
		}
	}
	return true
}

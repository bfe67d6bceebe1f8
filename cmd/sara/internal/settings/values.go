package settings

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/dustin/go-humanize"

	"sara/policy"
)

// A value is the type of a setting: the flag, variable or entry sets its text, and then it is parsed. The tag has the limits
// and the example of the setting.
type value interface {
	set(text string)
	isSet() bool
	parse(tag *kong.Tag) error
}

// written is a setting's text.
type written struct{ text string }

func (w *written) set(text string) { w.text = text }
func (w *written) isSet() bool     { return w.text != "" }

// String returns the setting as it was written.
func (w written) String() string { return w.text }

// example returns a valid value of a setting: from its tag, or else its default.
func example(tag *kong.Tag) string {
	if tag.Has("example") {
		return tag.Get("example")
	}
	return tag.Default
}

// Count is a number from the min of its tag, by default 1, to its max.
type Count struct {
	written
	N int
}

func (c *Count) parse(tag *kong.Tag) (err error) {
	most, err := strconv.Atoi(tag.Get("max"))
	if err != nil {
		return fmt.Errorf("BUG: the tag max: %w", err)
	}
	least := 1
	if text := tag.Get("min"); text != "" {
		if least, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("BUG: the tag min: %w", err)
		}
	}
	if c.N, err = strconv.Atoi(c.text); err != nil || c.N < least || c.N > most {
		return fmt.Errorf("%q is not a number of %d to %d, such as %s", c.text, least, most, example(tag))
	}
	return nil
}

// Size is a number of bytes.
type Size struct {
	written
	Bytes int64
}

func (s *Size) parse(*kong.Tag) error {
	const least, most = 1 << 20, 1 << 40
	n, err := humanize.ParseBytes(s.text)
	if err != nil || n < least || n > most {
		return fmt.Errorf("%q is not a size of 1MiB to 1TiB, such as 256MiB or a number of bytes", s.text)
	}
	s.Bytes = int64(n)
	return nil
}

// Delay is a duration of up to an hour.
type Delay struct {
	written
	Duration time.Duration
}

func (d *Delay) parse(*kong.Tag) error {
	delay, err := time.ParseDuration(d.text)
	if err != nil || delay < 0 || delay > time.Hour {
		return fmt.Errorf("%q is not a duration of 0s to 1h, such as 10s", d.text)
	}
	d.Duration = delay
	return nil
}

// Offset is how much a process's clock is ahead of the real one; negative: behind.
type Offset struct {
	written
	Duration time.Duration
}

func (o *Offset) parse(*kong.Tag) error {
	const most = 100_000 * time.Hour
	offset, err := time.ParseDuration(o.text)
	if err != nil || offset < -most || offset > most {
		return fmt.Errorf("%q is not a duration of -100000h to 100000h, such as 11h59m", o.text)
	}
	o.Duration = offset
	return nil
}

// Shift returns a clock that is ahead of another one.
func (o *Offset) Shift(now func() time.Time) func() time.Time {
	if o.Duration == 0 {
		return now
	}
	return func() time.Time { return now().Add(o.Duration) }
}

// Note says that the clock is not the real one; empty if it is.
func (o *Offset) Note() string {
	if o.Duration == 0 {
		return ""
	}
	return fmt.Sprintf("SARA_CLOCK_OFFSET moves the clock by %v, which is for tests only", o.Duration)
}

// Fraction is a number from 0 to 1.
type Fraction struct {
	written
	Value float64
}

func (f *Fraction) parse(*kong.Tag) error {
	value, err := strconv.ParseFloat(f.text, 64)
	if err != nil || !(value >= 0 && value <= 1) { // negated, because NaN fails every comparison
		return fmt.Errorf("%q is not a fraction of 0 to 1, such as 0.1 for one line in ten", f.text)
	}
	f.Value = value
	return nil
}

// Switch is on or off.
type Switch struct {
	written
	On bool
}

func (s *Switch) parse(*kong.Tag) (err error) {
	s.On, err = either(s.text, "on", "off")
	return err
}

// Flag is true or false.
type Flag struct {
	written
	True bool
}

func (f *Flag) parse(*kong.Tag) (err error) {
	f.True, err = either(f.text, "true", "false")
	return err
}

// LogFormat is text or json.
type LogFormat struct {
	written
	JSON bool
}

func (f *LogFormat) parse(*kong.Tag) error {
	isText, err := either(f.text, "text", "json")
	f.JSON = !isText
	return err
}

// either reports whether text is the first of two words. Any third is an error.
func either(text, first, second string) (isFirst bool, err error) {
	if text != first && text != second {
		return false, fmt.Errorf("%q is neither %s nor %s", text, first, second)
	}
	return text == first, nil
}

// Level is the lowest level that is logged.
type Level struct {
	written
	Level slog.Level
}

func (l *Level) parse(*kong.Tag) error {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	level, ok := levels[l.text]
	if !ok {
		return fmt.Errorf("%q is not one of debug, info, warn, error", l.text)
	}
	l.Level = level
	return nil
}

// HeaderName is the name of an HTTP header.
type HeaderName struct{ written }

func (h *HeaderName) parse(*kong.Tag) error {
	if !isHeaderName(h.text) {
		return fmt.Errorf("%q is not the name of a header, such as X-Forwarded-For", h.text)
	}
	switch strings.ToLower(h.text) {
	case "authorization", "proxy-authorization", "cookie": // what this header has is in the access log
		return fmt.Errorf("%q has secrets, and no address; name the header that the proxy sets, such as X-Forwarded-For", h.text)
	case "forwarded": // RFC 7239: with the client's port, each connection would be an address of its own
		return fmt.Errorf("%q has more than an address, which sara does not read; name a header with addresses alone, such as X-Forwarded-For", h.text)
	}
	return nil
}

func isHeaderName(s string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~"
	return s != "" && strings.Trim(s, allowed) == ""
}

// KeyPrefix is the first word of an API key.
type KeyPrefix struct{ written }

func (k *KeyPrefix) parse(*kong.Tag) error { return policy.CheckKeyPrefix(k.text) }

package translate

import (
	"errors"
	"io"
	"unsafe"
)

// The bytes of a body that are in memory at a time. A window grows to maxWindow for a row, or another member, that is longer.
const (
	usualWindow = 64 << 10
	maxWindow   = 1 << 20
)

var errLongMember = errors.New("a row or member of more than 1 MiB")

// A bodyWindow is the part of a body that a scanner sees, while the body is read.
type bodyWindow struct {
	scanner
	source io.Reader
	buffer []byte // the scanner's text is its beginning
	before int    // bytes of the body before the buffer
	ended  bool   // the buffer has the rest of the body
}

// position returns the number of bytes that were parsed.
func (w *bodyWindow) position() int { return w.before + w.at }

// cut reports whether the scanner got to the end of the window, but not of the body: more of it may change what was parsed.
func (w *bodyWindow) cut() bool { return w.at >= len(w.text) && !w.ended }

// whole runs a step of the parser on a window that has all of its text. It runs the step again, with more of the body, if the
// step got to the end of the window. So a step must not retain text, and must change nothing before it is sure of its end.
func (w *bodyWindow) whole(step func() error) error {
	start := w.at
	err := step()
	for w.cut() {
		w.at = start
		if err := w.more(); err != nil {
			return err
		}
		start = w.at
		err = step()
	}
	return err
}

// peek skips white space and returns the next byte, 0 at the end of the body.
func (w *bodyWindow) peek() (byte, error) {
	c := w.next()
	for w.cut() {
		if err := w.more(); err != nil {
			return 0, err
		}
		c = w.next()
	}
	return c, nil
}

// more drops what was parsed, and fills the window up.
func (w *bodyWindow) more() error {
	filled := copy(w.buffer, w.buffer[w.at:len(w.text)])
	w.before, w.at = w.before+w.at, 0
	if filled == len(w.buffer) {
		if filled >= maxWindow {
			return errLongMember
		}
		w.buffer = append(w.buffer, make([]byte, len(w.buffer))...)
	}
	empty := 0
	for filled < len(w.buffer) && !w.ended {
		n, err := w.source.Read(w.buffer[filled:])
		filled += n
		if empty++; n > 0 {
			empty = 0
		}
		switch {
		case err == io.EOF: // by identity: a wrapped one is a body that was cut off
			w.ended = true
		case err != nil:
			return err
		case empty > mostEmptyReads:
			return io.ErrNoProgress
		}
	}
	// Without a copy. The text is not used once the buffer changes.
	w.text = unsafe.String(unsafe.SliceData(w.buffer), filled)
	return nil
}

// list reads a JSON object or array that need not fit into the window, calling element for each element.
func (w *bodyWindow) list(open, end byte, element func() error) error {
	c, err := w.peek()
	if err != nil {
		return err
	}
	if c != open {
		return ErrSyntax
	}
	w.at++
	for first := true; ; first = false {
		c, err := w.peek()
		switch {
		case err != nil:
			return err
		case c == end:
			w.at++
			return nil
		case first:
		case c == ',':
			w.at++
		default:
			return ErrSyntax
		}
		if err := element(); err != nil {
			return err
		}
	}
}

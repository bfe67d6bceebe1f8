package tabular

import (
	"bytes"
	"errors"
	"fmt"
	"unsafe"

	"github.com/tidwall/gjson"
)

// A scanner reads compact JSON.
type scanner struct {
	text []byte
	at   int
}

var errTruncated = errors.New("the JSON ends too early")

// peek returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

// skip moves beyond the next byte, which must be c.
func (s *scanner) skip(c byte) error {
	switch got := s.peek(); got {
	case c:
		s.at++
		return nil
	case 0:
		return errTruncated
	default:
		return fmt.Errorf("byte %d of the JSON is %q, not %q", s.at, got, c)
	}
}

func (s *scanner) end() error {
	if s.at < len(s.text) {
		return fmt.Errorf("the JSON continues after byte %d", s.at)
	}
	return nil
}

// list calls element in front of each element of the array that comes next; element must read it.
func (s *scanner) list(element func() error) error {
	return s.sequence('[', ']', element)
}

// object calls member with the name of each member of the object that comes next; member must read its value.
func (s *scanner) object(member func(name []byte) error) error {
	return s.sequence('{', '}', func() error {
		name, err := s.string()
		if err != nil {
			return err
		}
		if err := s.skip(':'); err != nil {
			return err
		}
		return member(plain(name))
	})
}

func (s *scanner) sequence(first, last byte, item func() error) error {
	if err := s.skip(first); err != nil {
		return err
	}
	if s.peek() == last {
		s.at++
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		if s.peek() == last {
			s.at++
			return nil
		}
		if err := s.skip(','); err != nil {
			return err
		}
	}
}

// value returns the value that comes next, as it is.
func (s *scanner) value() ([]byte, error) {
	begin, depth := s.at, 0
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case '"':
			if _, err := s.string(); err != nil {
				return nil, err
			}
		case '[', '{':
			depth++
			s.at++
		case ']', '}':
			if depth == 0 {
				return s.from(begin)
			}
			depth--
			s.at++
		case ',':
			if depth == 0 {
				return s.from(begin)
			}
			s.at++
		default:
			s.at++
			continue
		}
		if depth == 0 {
			return s.from(begin)
		}
	}
	return nil, errTruncated
}

// from returns what was read since begin, which must be something.
func (s *scanner) from(begin int) ([]byte, error) {
	if s.at == begin {
		return nil, fmt.Errorf("byte %d of the JSON is %q, which begins no value", s.at, s.peek())
	}
	return s.text[begin:s.at], nil
}

// string returns the string that comes next, with its quotes.
func (s *scanner) string() ([]byte, error) {
	begin := s.at
	if err := s.skip('"'); err != nil {
		return nil, err
	}
	for {
		n := bytes.IndexByte(s.text[s.at:], '"')
		if n < 0 {
			return nil, errTruncated
		}
		s.at += n + 1
		escapes := 0
		for s.text[s.at-2-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return s.text[begin:s.at], nil
		}
	}
}

// plain returns the text of a JSON string, and any other value as it is.
func plain(raw []byte) []byte {
	switch {
	case len(raw) == 0 || raw[0] != '"':
		return raw
	case bytes.IndexByte(raw, '\\') < 0:
		return raw[1 : len(raw)-1]
	}
	return []byte(gjson.ParseBytes(raw).String())
}

// view returns the bytes as a string without a copy. It is valid only until the bytes change.
func view(text []byte) string { return unsafe.String(unsafe.SliceData(text), len(text)) }

// find returns the rows and the meta of an answer: the members data.rows and meta, of which the meta comes last. The answer may end within
// the meta, which is returned up to there.
func find(answer []byte) (rows, meta []byte, err error) {
	s := scanner{text: answer}
	err = s.object(func(name []byte) error {
		switch string(name) {
		case "data":
			rows, err = s.member("rows")
			return err
		case "meta":
			meta = s.text[s.at:]
			return errFound
		}
		_, err := s.value()
		return err
	})
	switch {
	case err == nil:
		err = errors.New("the answer has no meta")
	case errors.Is(err, errFound) && rows == nil:
		err = errors.New("the answer has no rows")
	case errors.Is(err, errFound):
		err = nil
	}
	return rows, meta, err
}

// errFound ends the search for the meta.
var errFound = errors.New("found")

// member returns a member of the object that comes next, nil if it has none of this name.
func (s *scanner) member(wanted string) (found []byte, err error) {
	err = s.object(func(name []byte) error {
		value, err := s.value()
		if string(name) == wanted {
			found = value
		}
		return err
	})
	return found, err
}

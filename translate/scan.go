package translate

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// ErrSyntax is wrapped by the error of RowsReader.Read for a body that is not JSON, is cut off, or is not a response at all.
var ErrSyntax = errors.New("invalid JSON, or not a response")

// A scanner is a strict one-pass parser for the rows of an upstream body. gjson would take twice as long for a wide sample,
// and two allocations for each key with an escape; it validates the rare parts only.
type scanner struct {
	text  string
	at    int
	dated bool // the keys of the rows begin with a day
}

// next skips white space and returns the next byte, 0 at the end.
func (s *scanner) next() byte {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// consume consumes a text if it comes next, without white space before it.
func (s *scanner) consume(text string) bool {
	if !strings.HasPrefix(s.text[s.at:], text) {
		return false
	}
	s.at += len(text)
	return true
}

// accept consumes c if it is the next byte.
func (s *scanner) accept(c byte) bool {
	if s.next() != c {
		return false
	}
	s.at++
	return true
}

// object reads a JSON object. For each member, it reads the name and the colon, and calls member to read the value.
func (s *scanner) object(member func(name string) error) error {
	if !s.accept('{') {
		return ErrSyntax
	}
	if s.accept('}') {
		return nil
	}
	for {
		name, err := s.name()
		if err != nil {
			return err
		}
		if err := member(name); err != nil {
			return err
		}
		if s.accept('}') {
			return nil
		}
		if !s.accept(',') {
			return ErrSyntax
		}
	}
}

// name reads the name of a member and the colon.
func (s *scanner) name() (string, error) {
	name, escaped, err := s.str()
	if err != nil {
		return "", err
	}
	if escaped {
		name = string(appendUnescaped(nil, name))
	}
	if !s.accept(':') {
		return "", ErrSyntax
	}
	return name, nil
}

// str reads a string and returns the raw text between its quotes.
func (s *scanner) str() (raw string, escaped bool, err error) {
	if !s.accept('"') {
		return "", false, ErrSyntax
	}
	for start := s.at; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c > '"' && c != '\\':
		case c == '"':
			raw = s.text[start:s.at]
			s.at++
			if escaped && !gjson.Valid(s.text[start-1:s.at]) {
				err = ErrSyntax
			}
			return raw, escaped, err
		case c == '\\':
			escaped = true
			s.at++
		case c < ' ':
			return "", false, ErrSyntax
		}
	}
	return "", false, ErrSyntax
}

// number reads a number that is not negative.
func (s *scanner) number() (float64, error) {
	s.next()
	start := s.at
	whole, digits := s.digits()
	if digits == 0 || digits > 1 && s.text[start] == '0' {
		return 0, ErrSyntax
	}
	places, exponent := 0, false
	value := whole
	if s.at < len(s.text) && s.text[s.at] == '.' {
		s.at++
		var fraction uint64
		if fraction, places = s.digits(); places == 0 {
			return 0, ErrSyntax
		}
		value = fraction + whole*powerOfTen(places)
	}
	if s.at < len(s.text) && (s.text[s.at] == 'e' || s.text[s.at] == 'E') {
		s.at++
		exponent = true
		if s.at < len(s.text) && (s.text[s.at] == '+' || s.text[s.at] == '-') {
			s.at++
		}
		if _, digits := s.digits(); digits == 0 {
			return 0, ErrSyntax
		}
	}
	if whole == 0 {
		digits = 0
	}
	if !exponent && digits+places <= exactDigits {
		return decimal(value, places), nil
	}
	f, err := strconv.ParseFloat(s.text[start:s.at], 64)
	if err != nil {
		return 0, ErrSyntax // out of range
	}
	return f, nil
}

// digits reads decimal digits and returns how many they are, and their value if they are at most exactDigits.
func (s *scanner) digits() (value uint64, n int) {
	start := s.at
	for ; s.at < len(s.text); s.at++ {
		c := s.text[s.at]
		if c < '0' || c > '9' {
			break
		}
		value = value*10 + uint64(c-'0')
	}
	return value, s.at - start
}

// skip skips any value, within the depth of ValidJSON.
func (s *scanner) skip() error {
	s.next()
	start, depth := s.at, 0
	for s.at < len(s.text) {
		switch c := s.next(); c {
		case '"':
			if _, _, err := s.str(); err != nil {
				return err
			}
		case '{', '[':
			if depth++; depth > maxJSONDepth {
				return ErrSyntax
			}
			s.at++
		case ',', ':':
			s.at++
		case '}', ']':
			depth--
			s.at++
		default:
			s.literal()
		}
		if depth <= 0 {
			return s.checked(start)
		}
	}
	return ErrSyntax
}

// checked validates the text from start on that was skipped.
func (s *scanner) checked(start int) error {
	if !gjson.Valid(s.text[start:s.at]) {
		return ErrSyntax
	}
	return nil
}

// literal skips a number, true, false or null.
func (s *scanner) literal() {
	end := strings.IndexAny(s.text[s.at:], ",:]} \t\n\r\"")
	if end < 0 {
		end = len(s.text) - s.at
	}
	s.at += end
}

// appendUnescaped appends the decoded inside of a valid JSON string. A lone surrogate or invalid UTF-8 becomes the replacement
// character, so that the result can always be encoded again.
func appendUnescaped(dst []byte, raw string) []byte {
	for i := 0; i < len(raw); {
		if raw[i] != '\\' || i+1 >= len(raw) {
			r, size := utf8.DecodeRuneInString(raw[i:])
			dst = utf8.AppendRune(dst, r)
			i += size
			continue
		}
		c := raw[i+1]
		i += 2
		switch c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r := hex4(raw, i)
			i += 4
			if utf16.IsSurrogate(r) {
				low := rune(utf8.RuneError)
				if i+1 < len(raw) && raw[i] == '\\' && raw[i+1] == 'u' {
					low = hex4(raw, i+2)
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					i += 6
				}
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// hex4 reads the four hexadecimal digits at i, or returns the replacement character.
func hex4(s string, i int) rune {
	if i+4 > len(s) {
		return utf8.RuneError
	}
	n, err := strconv.ParseUint(s[i:i+4], 16, 16)
	if err != nil {
		return utf8.RuneError
	}
	return rune(n)
}

package translate

import "unicode/utf8"

// rawText is a JSON string as it is in a body, without the quotes.
type rawText struct {
	raw   string
	plain bool // valid UTF-8 without escapes
}

// longest returns the most bytes that appendTo may append: an invalid byte becomes a replacement character of three.
func (t rawText) longest() int {
	if t.plain {
		return len(t.raw)
	}
	return 3 * len(t.raw)
}

func (t rawText) appendTo(dst []byte) []byte {
	if t.plain {
		return append(dst, t.raw...)
	}
	return appendUnescaped(dst, t.raw)
}

// rowKey is the key of a row: of that of a grid, the day comes first.
type rowKey struct{ day, rest rawText }

func (k rowKey) longest() int { return k.day.longest() + k.rest.longest() }

func (k rowKey) appendTo(dst []byte) []byte { return k.rest.appendTo(k.day.appendTo(dst)) }

// key reads an array of exactly one string, or of two if the keys are dated.
func (s *scanner) key() (key rowKey, err error) {
	if !s.accept('[') {
		return key, ErrSyntax
	}
	if key.day.plain = true; s.dated {
		if key.day, err = s.rawText(); err != nil {
			return key, err
		}
		if !s.accept(',') {
			return key, ErrSyntax
		}
	}
	if key.rest, err = s.rawText(); err != nil {
		return key, err
	}
	if !s.accept(']') {
		return key, ErrSyntax
	}
	return key, nil
}

func (s *scanner) rawText() (t rawText, err error) {
	raw, escaped, err := s.str()
	return rawText{raw: raw, plain: !escaped && utf8.ValidString(raw)}, err
}

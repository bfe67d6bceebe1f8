package translate

import (
	"math/bits"
	"strings"
	"unicode/utf8"
)

// usualRow reads a row as Search Console writes it: with these members in this order, of which ctr may be missing, and integer counts.
// ok is false for any other row, which may be sound too, and for one that the text may not have all of: then nothing is consumed.
func (s *scanner) usualRow() (key rowKey, m Metrics, ok bool) {
	start := s.at
	ok = (s.consume(`{"keys":`) || s.accept('{') && s.member("keys")) && s.usualKey(&key) &&
		(s.consume(`,"clicks":`) || s.accept(',') && s.member("clicks")) && s.plainCount(&m.Clicks) &&
		(s.consume(`,"impressions":`) || s.accept(',') && s.member("impressions")) && s.plainCount(&m.Impressions) &&
		s.usualCTR(&m) &&
		(s.consume(`,"position":`) || s.accept(',') && s.member("position")) && s.plainFraction(&m.Position) &&
		s.accept('}') && s.at < len(s.text)
	if !ok {
		s.at = start
	}
	return key, m, ok
}

// usualCTR reads a ctr, or sets it if it is missing.
func (s *scanner) usualCTR(m *Metrics) bool {
	start := s.at
	if s.consume(`,"ctr":`) || !strings.HasPrefix(s.text[s.at:], `,"position":`) && s.accept(',') && s.member("ctr") {
		return s.plainFraction(&m.CTR)
	}
	s.at = start
	return m.setCTR() == nil
}

// usualKey reads the array of a key, which seldom has escapes.
func (s *scanner) usualKey(key *rowKey) bool {
	start := s.at
	if s.accept('[') && (!s.dated || s.plainText(&key.day.raw) && s.accept(',')) && s.plainText(&key.rest.raw) && s.accept(']') {
		key.day.plain, key.rest.plain = true, true
		return true
	}
	s.at = start
	var err error
	*key, err = s.key()
	return err == nil
}

// member consumes this name of a member and the colon, if they come next.
func (s *scanner) member(name string) bool {
	if !s.accept('"') {
		return false
	}
	rest := s.text[s.at:]
	if len(rest) <= len(name) || rest[:len(name)] != name || rest[len(name)] != '"' {
		return false
	}
	s.at += len(name) + 1
	return s.accept(':')
}

// plainText reads a string of valid UTF-8 without escapes.
func (s *scanner) plainText(raw *string) bool {
	if !s.accept('"') {
		return false
	}
	rest := s.text[s.at:]
	length := plainASCII(rest)
	if length == len(rest) || rest[length] != '"' {
		if length = strings.IndexByte(rest, '"'); length < 0 {
			return false
		}
		if text := rest[:length]; !isPrintable(text) || strings.IndexByte(text, '\\') >= 0 || !utf8.ValidString(text) {
			return false
		}
	}
	*raw = rest[:length]
	s.at += length + 1
	return true
}

const ones, highs = 0x0101010101010101, 0x8080808080808080

// plainASCII returns the length of the printable ASCII text without quotes and escapes with which a text begins.
func plainASCII(text string) int {
	at := 0
	for ; len(text)-at >= 8; at += 8 {
		x := word(text[at : at+8])
		quotes, escapes := x^'"'*ones, x^'\\'*ones
		// In each, the lowest byte with its high bit set is one that is looked for, and those above it may be wrong.
		if found := (x | (x - ' '*ones) | (quotes-ones)&^quotes | (escapes-ones)&^escapes) & highs; found != 0 {
			return at + bits.TrailingZeros64(found)/8
		}
	}
	for at < len(text) && ' ' <= text[at] && text[at] < utf8.RuneSelf && text[at] != '"' && text[at] != '\\' {
		at++
	}
	return at
}

// word returns eight bytes of text, the first as the lowest.
func word(text string) uint64 {
	_ = text[7]
	return uint64(text[0]) | uint64(text[1])<<8 | uint64(text[2])<<16 | uint64(text[3])<<24 |
		uint64(text[4])<<32 | uint64(text[5])<<40 | uint64(text[6])<<48 | uint64(text[7])<<56
}

// isPrintable reports whether no byte is an ASCII control character below the space.
func isPrintable(text string) bool {
	for len(text) >= 8 {
		if x := word(text); (x-' '*ones)&^x&highs != 0 { // a byte below the space
			return false
		}
		text = text[8:]
	}
	for i := range len(text) {
		if text[i] < ' ' {
			return false
		}
	}
	return true
}

// plainCount reads an integer of up to 15 digits, or those of another number, after which no comma comes.
func (s *scanner) plainCount(n *int64) bool {
	const most = 15
	s.next()
	start := s.at
	value, digits := s.digits()
	*n = int64(value)
	return digits > 0 && digits <= most && (digits == 1 || s.text[start] != '0')
}

func (s *scanner) plainFraction(f *float64) bool {
	var err error
	*f, err = s.number()
	return err == nil && isFraction(*f)
}

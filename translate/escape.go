package translate

import (
	"errors"
	"net/url"
	"strings"
	"unicode/utf8"
)

// unescape decodes one name or value of a query string. Unlike lenient parsers it refuses what it cannot decode: a value
// that was altered on its way would be answered under a label that it does not have.
func unescape(s string) (string, error) {
	s, err := url.QueryUnescape(s)
	if err != nil {
		return "", errors.New("has a broken percent escape")
	}
	return s, checkText(s)
}

// UnescapePathSegment decodes one percent-encoded path segment, strictly.
func UnescapePathSegment(s string) (string, error) {
	s, err := url.PathUnescape(s)
	if err != nil {
		return "", invalid("the path has a broken percent escape")
	}
	if err := checkText(s); err != nil {
		return "", invalid("the path %v", err)
	}
	return s, nil
}

func checkText(s string) error {
	switch {
	case !utf8.ValidString(s):
		return errors.New("is not UTF-8")
	case strings.IndexByte(s, 0) >= 0:
		return errors.New("holds a NUL character")
	}
	return nil
}

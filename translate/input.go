package translate

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// The codes of an InputError (spec: Errors).
const (
	CodeValidation           = "VALIDATION_ERROR"
	CodeUnsupportedParameter = "UNSUPPORTED_PARAMETER"
	CodeDateRangeTooOld      = "DATE_RANGE_TOO_OLD"
)

// An InputError is an invalid request. Its message names the parameter and the reason, for the client to read.
type InputError struct {
	Code    string
	Message string
}

func (e *InputError) Error() string { return e.Message }

func invalid(format string, args ...any) error {
	return &InputError{Code: CodeValidation, Message: fmt.Sprintf(format, args...)}
}

// unescape decodes a name or value of a query string. It is strict: a value that a lenient parser repairs would be answered
// under a label that the client did not ask for.
func unescape(s string) (string, error) {
	s, err := url.QueryUnescape(s)
	if err != nil {
		return "", errors.New("has a broken percent escape")
	}
	return s, checkText(s)
}

// UnescapePathSegment decodes a percent-encoded path segment, as strictly.
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

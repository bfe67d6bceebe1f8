package settings

import (
	"errors"
	"fmt"
	"strings"
)

// ErrUsage matches an Error about the value of a flag. One about the contents of a file that a flag names is no wrong usage.
var ErrUsage = errors.New("the value of a flag is wrong")

// Error is a problem with a setting, or with a source of settings, and its fix.
type Error struct {
	Where   string // the setting's name in the environment, or a file
	Problem string
	origin  string // empty for the environment, and until Locate
	inFile  bool   // the problem is the contents of the file that the setting names
}

// Is implements the matching of errors.Is.
func (e *Error) Is(target error) bool {
	return target == ErrUsage && strings.HasPrefix(e.origin, flagPrefix) && !e.inFile
}

func (e *Error) Error() string {
	if e.origin != "" {
		return fmt.Sprintf("%s (%s): %s", e.Where, e.origin, e.Problem)
	}
	return e.Where + ": " + e.Problem
}

// Errorf returns an Error about a setting.
func Errorf(where, format string, args ...any) error {
	return &Error{Where: where, Problem: fmt.Sprintf(format, args...)}
}

// ErrorOf returns the part of an error of kong that is about settings, nil if there is none. Kong prefixes it with the name
// of an unrelated flag.
func ErrorOf(err error) error {
	for ; err != nil; err = errors.Unwrap(err) {
		if _, ok := err.(*Error); ok {
			return err
		}
		if _, ok := err.(interface{ Unwrap() []error }); ok && errors.As(err, new(*Error)) {
			return err
		}
	}
	return nil
}

// Locate adds to the setting errors in err where their settings come from, and returns err.
func (l *Loader) Locate(err error) error {
	switch e := err.(type) {
	case *Error:
		e.origin = l.origin(e.Where)
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			_ = l.Locate(part)
		}
	case interface{ Unwrap() error }:
		_ = l.Locate(e.Unwrap())
	}
	return err
}

// origin returns where a setting comes from. It is empty for the environment, because the name in the error already shows
// that.
func (l *Loader) origin(name string) string {
	for flag := range l.values() {
		if environmentName(flag.Name) == name && l.onCommandLine(flag.Name) {
			return flagPrefix + flag.Name
		}
	}
	switch file := name + secretFileSuffix; {
	case l.environment[name] != "":
		return ""
	case l.environment[file] != "":
		return file
	case l.file == nil:
		return ""
	}
	entry := strings.ToLower(strings.TrimPrefix(name, prefix))
	if set := l.file.entries[entry]; set.text != "" {
		return fmt.Sprintf("%s, line %d", l.file.path, set.line)
	}
	if defaults(Below(l.parsed.Model.Node))[entry] != "" {
		return "by default"
	}
	return ""
}

package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"sara/archive/sqlstore"
)

// A usageError is a command line that can be parsed, but has a value that is wrong whatever is stored.
type usageError struct{ error }

// Unwrap returns the error that is wrapped.
func (e usageError) Unwrap() error { return e.error }

// usage marks an error as one of the command line; nil stays nil.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// isUsage reports whether an error is one of the command line. A value that the store refuses comes from there: a command that reads it from
// a file returns another error.
func isUsage(err error) bool {
	return errors.As(err, new(usageError)) || errors.As(err, new(*sqlstore.InputError))
}

// emptyTag is the tag of flags that may be empty.
const emptyTag = "empty"

// checkEmpty returns an error if the command line has an empty argument or a flag with an empty value, such as that of a variable that a script
// has not set: without the flag a command does more than was meant, as for all properties, or a key that is not restricted.
func checkEmpty(parsed *kong.Context) error {
	for _, step := range parsed.Path {
		switch {
		case step.Positional != nil && isEmpty(step.Positional):
			return fmt.Errorf("%s: it is empty: give it a value", step.Positional.Summary())
		case step.Flag == nil || step.Resolved || step.Flag.Tag.Has(emptyTag) || !isEmpty(step.Flag.Value):
		case step.Flag.Required:
			return fmt.Errorf("--%s: it is empty: give it a value", step.Flag.Name)
		default:
			return fmt.Errorf("--%s: it is empty: leave the flag out, or give it a value", step.Flag.Name)
		}
	}
	return nil
}

// isEmpty reports whether a text of the command line is empty, or one of several. Settings find that out by themselves.
func isEmpty(argument *kong.Value) bool {
	switch value := argument.Target.Interface().(type) {
	case string:
		return value == ""
	case []string:
		return len(value) == 0 || slices.Contains(value, "")
	case commaList:
		return slices.Contains(value, "")
	}
	return false
}

// A commaList is the value of a flag that may be repeated, and each value a list with commas. Unlike kong's lists it keeps an empty part, so
// that checkEmpty finds it.
type commaList []string

// Decode implements kong's parsing of a value.
func (l *commaList) Decode(c *kong.DecodeContext) error {
	var text string
	if err := c.Scan.PopValueInto("value", &text); err != nil {
		return err
	}
	*l = append(*l, strings.Split(text, ",")...)
	return nil
}

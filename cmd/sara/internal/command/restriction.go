package command

import (
	"errors"
	"strings"

	"github.com/alecthomas/kong"
)

// A restriction is the value of a flag that restricts a key; without the flag the key is not restricted. So an empty value, such as that
// of a variable that a script has not set, is an error: it must not make a key that may do more than was meant.
type restriction string

// Decode implements kong's parsing of a value.
func (r *restriction) Decode(c *kong.DecodeContext) error {
	var text string
	if err := c.Scan.PopValueInto("value", &text); err != nil {
		return err
	}
	if text == "" {
		return errors.New("it is empty: leave the flag out, or give it a value")
	}
	*r = restriction(text)
	return nil
}

// restrictions is a restriction to any of several values. The flag may be repeated, and a value may be a list with commas.
type restrictions []string

// Decode implements kong's parsing of a value.
func (r *restrictions) Decode(c *kong.DecodeContext) error {
	var one restriction
	if err := one.Decode(c); err != nil {
		return err
	}
	*r = append(*r, strings.Split(string(one), ",")...)
	return nil
}

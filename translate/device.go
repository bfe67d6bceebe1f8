package translate

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// Devices returns the upstream's devices, as it writes them.
func Devices() []string { return []string{"DESKTOP", "MOBILE", "TABLET"} }

// Bounds of a device's regular expression, which is compiled here. Twenty filters of 200 characters, with the letters of all scripts repeated
// 49 times each, would take a quarter of a second and megabytes each.
const (
	maxDeviceRepeat = 7 // a name has no more letters
	maxDeviceParts  = 500
)

// normaliseDevice validates a filter of devices. Only equals must name one: the other operators mean the names that they match.
func (f *Filter) normaliseDevice() error {
	switch f.Operator {
	case "equals":
		device := strings.ToUpper(f.Value)
		if !isASCII(f.Value) || !slices.Contains(Devices(), device) {
			return fmt.Errorf("value %.40q is not one of desktop, mobile, tablet", f.Value)
		}
		f.Value = device
	case "regex", "not_regex":
		parsed, err := syntax.Parse(f.Value, syntax.Perl)
		switch {
		case err != nil:
			return fmt.Errorf("value is not an RE2 expression: %w", err)
		case longestRepeat(parsed) > maxDeviceRepeat:
			return fmt.Errorf("value repeats more than %d times, which is longer than the name of a device", maxDeviceRepeat)
		case parts(parsed) > maxDeviceParts:
			return fmt.Errorf("value is too complex: with its repeats written out, it has more than %d parts", maxDeviceParts)
		}
	}
	return nil
}

func longestRepeat(expression *syntax.Regexp) (longest int) {
	if expression.Op == syntax.OpRepeat {
		longest = max(expression.Min, expression.Max)
	}
	for _, part := range expression.Sub {
		longest = max(longest, longestRepeat(part))
	}
	return longest
}

// parts returns how many parts an expression has once its repeats are written out: operators and characters. A class counts as one for
// each eight of its ranges: that of all letters, as 83.
func parts(expression *syntax.Regexp) int {
	const runesOfPart = 16 // two for each range
	n := 1 + len(expression.Rune)
	if expression.Op == syntax.OpCharClass {
		n = 1 + len(expression.Rune)/runesOfPart
	}
	for _, part := range expression.Sub {
		n += parts(part)
	}
	if expression.Op == syntax.OpRepeat {
		n *= max(1, expression.Min, expression.Max)
	}
	return n
}

// deviceMatcher returns which devices pass the filter, case-insensitive.
func (f *Filter) deviceMatcher() func(name string) bool {
	var matches func(name string) bool
	operator, negated := strings.CutPrefix(f.Operator, "not_")
	switch operator {
	case "equals":
		matches = func(name string) bool { return strings.EqualFold(name, f.Value) }
	case "contains":
		matches = func(name string) bool { return isASCII(f.Value) && strings.Contains(name, strings.ToUpper(f.Value)) }
	case "regex":
		// normaliseDevice has parsed the value, which need not parse within a group.
		matches = regexp.MustCompile("(?i)" + f.Value).MatchString
	}
	return func(name string) bool { return matches(name) != negated }
}

// noDevice is the operator of a Condition that no row meets. The upstream does not have it.
const noDevice = "none"

// deviceCondition returns the condition of the devices that all filters of devices leave. There must be such a filter. It is a
// condition even if all are left, because a filtered question differs from an unfiltered one.
func deviceCondition(filters []Filter) Condition {
	left := Devices()
	for _, f := range filters {
		if f.Dimension == "device" {
			matches := f.deviceMatcher()
			left = slices.DeleteFunc(left, func(name string) bool { return !matches(name) })
		}
	}
	c := Condition{Dimension: "device"}
	switch len(left) {
	case 0:
		c.Operator = noDevice
	case 1:
		c.Operator, c.Expression = "equals", left[0]
	case 2:
		absent := slices.IndexFunc(Devices(), func(name string) bool { return !slices.Contains(left, name) })
		c.Operator, c.Expression = "notEquals", Devices()[absent]
	default:
		c.Operator, c.Expression = "includingRegex", strings.Join(left, "|")
	}
	return c
}

// MatchNothing reports whether no row meets the conditions, so that the upstream need not be asked.
func MatchNothing(conditions []Condition) bool {
	return slices.ContainsFunc(conditions, func(c Condition) bool { return c.Operator == noDevice })
}

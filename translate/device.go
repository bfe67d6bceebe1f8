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

// maxDeviceRepeat bounds the counted repeats of a device's regular expression, which is compiled here: a name has no more letters.
const maxDeviceRepeat = 7

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
		if err != nil {
			return fmt.Errorf("value is not an RE2 expression: %w", err)
		}
		if longestRepeat(parsed) > maxDeviceRepeat {
			return fmt.Errorf("value repeats more than %d times, which is longer than the name of a device", maxDeviceRepeat)
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

// matchesDevice reports whether a device passes the filter, case-insensitive.
func (f *Filter) matchesDevice(name string) bool {
	operator, negated := strings.CutPrefix(f.Operator, "not_")
	var matches bool
	switch operator {
	case "equals":
		matches = strings.EqualFold(name, f.Value)
	case "contains":
		matches = strings.Contains(name, strings.ToUpper(f.Value))
	case "regex":
		matches = regexp.MustCompile("(?i)" + f.Value).MatchString(name) // normaliseDevice has parsed the value, which need not parse within a group
	}
	return matches != negated
}

// noDevice is the operator of a Condition that no row meets. The upstream does not have it.
const noDevice = "none"

// deviceCondition returns the condition of the devices that all filters of devices leave. There must be such a filter. It is a
// condition even if all are left, because a filtered question is another one than an unfiltered one.
func deviceCondition(filters []Filter) Condition {
	left := slices.DeleteFunc(Devices(), func(name string) bool {
		return slices.ContainsFunc(filters, func(f Filter) bool { return f.Dimension == "device" && !f.matchesDevice(name) })
	})
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

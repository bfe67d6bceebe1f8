package gscsim

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// condition is one filter. All filters of all groups must match, because AND is the only group type.
type condition struct {
	dimension dimension
	holds     func(value string) bool
}

func (q *parsedQuery) filtersOn(d dimension) bool {
	return slices.ContainsFunc(q.filters, func(c condition) bool { return c.dimension == d })
}

func (r *queryRequest) parseFilters(q *parsedQuery) *apiError {
	for g, group := range r.DimensionFilterGroups {
		at := fmt.Sprintf("dimension_filter_groups[%d]", g)
		if group.GroupType != nil {
			if _, ok := parseEnum(*group.GroupType, "and AND"); !ok {
				return invalidEnum(at+".group_type", "google.searchconsole.v1.searchanalytics.GroupType", *group.GroupType)
			}
		}
		for i, f := range group.Filters {
			c, err := f.parse(fmt.Sprintf("%s.filters[%d]", at, i))
			if err != nil {
				return err
			}
			q.filters = append(q.filters, c)
		}
	}
	return nil
}

func (f *filter) parse(at string) (condition, *apiError) {
	d, ok := parseFilterDimension(f.Dimension)
	if !ok {
		return condition{}, invalidEnum(at+".dimension", "google.searchconsole.v1.searchanalytics.FilterDimension", f.Dimension)
	}
	operator := 0
	if f.Operator != nil {
		operator, ok = parseEnum(*f.Operator, "equals EQUALS", "notEquals NOT_EQUALS", "contains CONTAINS",
			"notContains NOT_CONTAINS", "includingRegex INCLUDING_REGEX", "excludingRegex EXCLUDING_REGEX")
		if !ok {
			return condition{}, invalidEnum(at+".operator", "google.searchconsole.v1.searchanalytics.FilterOperator", *f.Operator)
		}
	}
	holds, err := match(operator/2, f.Expression, at)
	if err != nil {
		return condition{}, err
	}
	if operator%2 == 1 { // odd operators negate the one before
		positive := holds
		holds = func(value string) bool { return !positive(value) }
	}
	return condition{dimension: d, holds: holds}, nil
}

// parseFilterDimension accepts neither date nor hour: only the range selects days. Names are case-insensitive here.
func parseFilterDimension(text string) (dimension, bool) {
	for i, name := range dimensionNames() {
		wire, enum, _ := strings.Cut(name, " ")
		if d := dimension(i); d != byDate && d != byHour && (strings.EqualFold(text, wire) || strings.EqualFold(text, enum)) {
			return d, true
		}
	}
	return 0, false
}

// maxRegex bounds a regular expression, in characters.
const maxRegex = 4096

// match returns the predicate of equals (0), contains (1) or a regular expression (2). All ignore case; a regular expression can
// turn that off with (?-i), and its dot does not match a newline.
func match(kind int, expression, at string) (func(string) bool, *apiError) {
	switch kind {
	case 0:
		return func(value string) bool { return strings.EqualFold(value, expression) }, nil
	case 1:
		lower := strings.ToLower(expression)
		return func(value string) bool { return strings.Contains(strings.ToLower(value), lower) }, nil
	}
	if len([]rune(expression)) > maxRegex {
		return nil, invalid(at+".expression", "Invalid value at '%s.expression', the regular expression is longer than %d characters", at, maxRegex)
	}
	compiled, err := regexp.Compile("(?i)" + expression)
	if err != nil {
		return nil, invalid(at+".expression", "Invalid value at '%s.expression', not a valid RE2 regular expression: %s", at, expression)
	}
	return compiled.MatchString, nil
}

// filterMask selects the cells that pass all filters, with one mask over the values of each filtered dimension. Traffic without
// a value in that dimension (an anonymised query, no rich result) never passes.
type filterMask struct {
	query, page, country, device, appearance []bool
}

func newFilterMask(w *world, filters []condition) *filterMask {
	s := &filterMask{}
	for _, c := range filters {
		switch c.dimension {
		case byQuery:
			s.query = narrow(s.query, w.queries, c.holds)
		case byPage:
			s.page = narrow(s.page, w.pages, c.holds)
		case byCountry:
			s.country = narrow(s.country, w.countries, c.holds)
		case byDevice:
			s.device = narrow(s.device, devices(), c.holds)
		case byAppearance:
			s.appearance = narrow(s.appearance, w.appearances, c.holds)
		}
	}
	return s
}

func narrow(mask []bool, values []string, holds func(string) bool) []bool {
	if mask == nil {
		mask = make([]bool, len(values))
		for i := range mask {
			mask[i] = true
		}
	}
	for i, value := range values {
		mask[i] = mask[i] && holds(value)
	}
	return mask
}

//go:norace
func (s *filterMask) passes(w *world, c *cell) bool {
	if s.query != nil && (c.query == none || !s.query[c.query]) {
		return false
	}
	if s.page != nil && !s.page[c.page] || s.country != nil && !s.country[c.country] || s.device != nil && !s.device[c.device] {
		return false
	}
	if s.appearance != nil {
		kind := w.appearance[c.page]
		return kind != none && s.appearance[kind]
	}
	return true
}

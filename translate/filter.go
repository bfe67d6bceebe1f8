package translate

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// A Filter is a valid element of the filters parameter (spec: Filter object).
type Filter struct {
	Dimension string // query, page, country, device, brand or page_group
	Operator  string // contains, equals or regex, each also with not_; is and is_not are aliases of equals and not_equals
	Value     string // 1 to 200 characters, pages percent-encoded; of equals, countries in lower case and devices in upper case
}

// MaxFilters bounds the filters of one request.
const MaxFilters = 20

const maxFilterValue = 200

// FilterDimensions returns the dimensions of filters.
func FilterDimensions() []string {
	return []string{"query", "page", "country", "device", "brand", "page_group"}
}

// FilterOperators returns the operators of filters.
func FilterOperators() []string {
	return []string{"contains", "equals", "regex", "not_contains", "not_equals", "not_regex", "is", "is_not"}
}

// ParseFilters reads the filters parameter: a JSON array of at most MaxFilters filter objects. An empty array is no filter.
// Anything unknown is an error: ignoring a filter would give unfiltered numbers under a filtered label.
func ParseFilters(s string) ([]Filter, error) {
	if !ValidJSON(s) {
		return nil, invalid("filters is not valid JSON: write a URL-encoded array of filter objects")
	}
	array := gjson.Parse(s)
	if !array.IsArray() {
		return nil, invalid("filters is not a JSON array")
	}
	elements := array.Array()
	if len(elements) > MaxFilters {
		return nil, invalid("filters has %d elements: at most %d are allowed", len(elements), MaxFilters)
	}
	var filters []Filter
	for i, element := range elements {
		f, err := parseFilter(element)
		if err != nil {
			return nil, invalid("filters[%d]: %v", i, err)
		}
		filters = append(filters, f)
	}
	return filters, nil
}

func parseFilter(object gjson.Result) (f Filter, err error) {
	if !object.IsObject() {
		return f, fmt.Errorf("it is not an object")
	}
	seen := make(map[string]bool, 3)
	object.ForEach(func(name, value gjson.Result) bool {
		var field *string
		switch name.Str {
		case "dimension":
			field = &f.Dimension
		case "operator":
			field = &f.Operator
		case "value":
			field = &f.Value
		default:
			err = fmt.Errorf("unknown member %.40q: a filter has dimension, operator and value", name.Str)
			return false
		}
		switch {
		case seen[name.Str]:
			err = fmt.Errorf("%s is given twice", name.Str)
		case value.Type != gjson.String:
			err = fmt.Errorf("%s is not a string", name.Str)
		case strings.ContainsRune(value.Str, 0):
			err = fmt.Errorf("%s holds a NUL character", name.Str)
		case strings.ContainsRune(value.Str, utf8.RuneError):
			// A lone surrogate decodes to the replacement character, which would match something else.
			err = fmt.Errorf("%s holds a character that is not valid Unicode text", name.Str)
		}
		seen[name.Str], *field = true, value.Str
		return err == nil
	})
	if err != nil {
		return f, err
	}
	for _, name := range []string{"dimension", "operator", "value"} {
		if !seen[name] {
			return f, fmt.Errorf("%s is missing", name)
		}
	}
	return f, f.normalise()
}

// normalise validates the filter and brings it into canonical form, so that equal filters are equal.
func (f *Filter) normalise() error {
	if !slices.Contains(FilterDimensions(), f.Dimension) {
		return fmt.Errorf("dimension %.40q is not one of %s", f.Dimension, strings.Join(FilterDimensions(), ", "))
	}
	if !slices.Contains(FilterOperators(), f.Operator) {
		return fmt.Errorf("operator %.40q is not one of %s", f.Operator, strings.Join(FilterOperators(), ", "))
	}
	if n := utf8.RuneCountInString(f.Value); n < 1 || n > maxFilterValue {
		return fmt.Errorf("value has %d characters: 1 to %d are allowed", n, maxFilterValue)
	}
	switch f.Operator {
	case "is":
		f.Operator = "equals"
	case "is_not":
		f.Operator = "not_equals"
	}
	return f.normaliseValue()
}

func (f *Filter) normaliseValue() error {
	exact := f.Operator == "equals" || f.Operator == "not_equals"
	switch f.Dimension {
	case "brand":
		if f.Value != "brand" && f.Value != "non-brand" {
			return fmt.Errorf("value %.40q is not one of brand, non-brand", f.Value)
		}
		fallthrough
	case "page_group":
		if !exact {
			return fmt.Errorf("operator %s does not apply to %s: use equals, not_equals, is or is_not", f.Operator, f.Dimension)
		}
		return nil
	case "device":
		return f.normaliseDevice()
	case "page":
		if f.Operator != "regex" && f.Operator != "not_regex" {
			f.Value = encodePage(f.Value)
		}
	case "country":
		if exact {
			country := strings.ToLower(f.Value)
			if !isASCII(f.Value) || !IsCountry(country) {
				return fmt.Errorf("value %.40q is not a country: three letters, as in ISO 3166-1 alpha-3", f.Value)
			}
			f.Value = country
		}
	}
	if f.Operator == "regex" || f.Operator == "not_regex" {
		if err := checkExpression(f.Value); err != nil {
			return fmt.Errorf("value is not an RE2 expression: %w", err)
		}
	}
	return nil
}

// checkExpression reports why s is not RE2. It only parses: 200 characters with counted repeats compile to megabytes, and a
// request may have twenty of them.
func checkExpression(s string) error {
	_, err := syntax.Parse(s, syntax.Perl)
	return err
}

// isASCII guards case folding: some letters of other scripts, such as the dotless i, fold to ASCII letters.
func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

// IsCountry reports whether s has the form of the upstream's countries: three lower-case letters, as in ISO 3166-1 alpha-3.
func IsCountry(s string) bool {
	return len(s) == 3 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz") == ""
}

// Segments is the configuration of a property that defines the virtual dimensions brand and page_group.
type Segments struct {
	BrandTerms []BrandTerm
	PageGroups []PageGroup
}

// UsesSegments reports whether a filter has a virtual dimension, for which Conditions needs the Segments.
func UsesSegments(filters []Filter) bool {
	return slices.ContainsFunc(filters, func(f Filter) bool { return f.Dimension == "brand" || f.Dimension == "page_group" })
}

const byPageNote = "Search Console counts by page where a filter names pages: these figures do not add up to the unfiltered totals."

// aggregationNotes has the note of figures that the upstream counted by page, although neither their keys nor a filter are pages.
func (p *Params) aggregationNotes(rows *Rows, by Dimension) []string {
	if !rows.traits.byPage || by == ByPage || slices.Contains(p.Notes, byPageNote) {
		return nil
	}
	return []string{"Search Console counted these figures by page: they do not add up to the unfiltered totals."}
}

// filterNotes says why the figures under some filters do not add up.
func filterNotes(filters []Filter) (notes []string) {
	has := func(dimensions ...string) bool {
		return slices.ContainsFunc(filters, func(f Filter) bool { return slices.Contains(dimensions, f.Dimension) })
	}
	if has("page", "page_group") {
		notes = append(notes, byPageNote)
	}
	if has("brand") {
		notes = append(notes, "Brand and non-brand figures do not add up to the total: Search Console withholds rare queries, which are in neither.")
	}
	return notes
}

// Conditions expands filters into the conditions of an upstream query, in canonical form: sorted, without duplicates, and one for
// all filters of devices. The upstream cannot be asked if they MatchNothing.
func Conditions(filters []Filter, segments Segments) ([]Condition, error) {
	if len(filters) == 0 {
		return nil, nil
	}
	conditions := make([]Condition, len(filters))
	for i, f := range filters {
		if f.Dimension == "device" {
			conditions[i] = deviceCondition(filters)
			continue
		}
		c, err := f.condition(segments)
		if err != nil {
			return nil, invalid("filters[%d]: %v", i, err)
		}
		conditions[i] = c
	}
	slices.SortFunc(conditions, Condition.compare)
	return slices.Compact(conditions), nil
}

func (f Filter) condition(segments Segments) (Condition, error) {
	switch f.Dimension {
	case "brand":
		return brandCondition(f, segments.BrandTerms)
	case "page_group":
		return pageGroupCondition(f, segments.PageGroups)
	}
	return Condition{Dimension: f.Dimension, Operator: upstreamOperator(f.Operator), Expression: f.Value}, nil
}

func upstreamOperator(operator string) string {
	switch operator {
	case "contains":
		return "contains"
	case "not_contains":
		return "notContains"
	case "equals":
		return "equals"
	case "not_equals":
		return "notEquals"
	case "regex":
		return "includingRegex"
	case "not_regex":
		return "excludingRegex"
	}
	panic("BUG: filter operator " + operator + " passed normalise")
}

// membership returns the operator that keeps the rows inside a segment, or those outside.
func membership(inside bool) string {
	if inside {
		return "includingRegex"
	}
	return "excludingRegex"
}

func brandCondition(f Filter, terms []BrandTerm) (Condition, error) {
	if len(terms) == 0 {
		return Condition{}, fmt.Errorf("the property has no brand terms, so its %s queries cannot be identified", f.Value)
	}
	expression, err := brandExpression(terms)
	if err != nil {
		return Condition{}, err
	}
	inside := (f.Value == "brand") == (f.Operator == "equals")
	return Condition{Dimension: "query", Operator: membership(inside), Expression: expression}, nil
}

func pageGroupCondition(f Filter, groups []PageGroup) (Condition, error) {
	i := slices.IndexFunc(groups, func(g PageGroup) bool { return g.Name == f.Value })
	if i < 0 {
		return Condition{}, fmt.Errorf("the property has no page group %q", f.Value)
	}
	expression, err := pageGroupExpression(groups[i])
	if err != nil {
		return Condition{}, err
	}
	return Condition{Dimension: "page", Operator: membership(f.Operator == "equals"), Expression: expression}, nil
}

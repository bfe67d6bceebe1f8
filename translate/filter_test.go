package translate

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// oneFilter returns a filters array with one element, whose members are inserted raw.
func oneFilter(dimension, operator, value string) string {
	return fmt.Sprintf(`[{"dimension":"%s","operator":"%s","value":"%s"}]`, dimension, operator, value)
}

// wantFilterError checks the error message of a filters value.
func wantFilterError(t *testing.T, filters, message string) {
	t.Helper()
	got, err := ParseFilters(filters)
	var input *InputError
	if !errors.As(err, &input) || input.Code != CodeValidation || input.Message != message {
		t.Errorf("%.120q:\n got %v, %v\nwant %s", filters, got, err, message)
	}
	if got != nil {
		t.Errorf("%.120q: filters beside an error: %v", filters, got)
	}
}

func segments() Segments {
	return Segments{
		BrandTerms: []BrandTerm{{Term: "acme", MatchType: "contains"}, {Term: "a.b", MatchType: "exact"}, {Term: "ac+me", MatchType: "regex"}},
		PageGroups: []PageGroup{{Name: "blog", Rules: []PageRule{{Type: "prefix", Value: "/blog/"}}}},
	}
}

func TestFilterDimensionsAndOperators(t *testing.T) {
	const brand, blog = `(?is)(?:acme)|(?:^a\.b$)|(?:ac+me)`, `(?is)(?:^[a-z]+://[^/?#]+/blog/)`
	upstream := map[string]string{"contains": "contains", "equals": "equals", "regex": "includingRegex", "not_contains": "notContains",
		"not_equals": "notEquals", "not_regex": "excludingRegex", "is": "equals", "is_not": "notEquals"}
	f := func(dimension, operator, value string, want Condition) {
		t.Helper()
		filters, err := ParseFilters(oneFilter(dimension, operator, value))
		if err != nil {
			t.Errorf("%s %s %s: %v", dimension, operator, value, err)
			return
		}
		conditions, err := Conditions(filters, segments())
		if err != nil || !slices.Equal(conditions, []Condition{want}) {
			t.Errorf("%s %s %s: %v, %v, want %v", dimension, operator, value, conditions, err, want)
		}
	}
	for _, operator := range FilterOperators() {
		f("query", operator, "Running Shoes", Condition{"query", upstream[operator], "Running Shoes"})
		f("page", operator, "https://example.com/%C3%A9", Condition{"page", upstream[operator], "https://example.com/%C3%A9"})
		f("page", operator, "/blog/ä b", Condition{"page", upstream[operator],
			map[bool]string{true: "/blog/ä b", false: "/blog/%C3%A4%20b"}[strings.Contains(operator, "regex")]})
		f("device", operator, "Mobile", Condition{"device",
			map[bool]string{true: "notEquals", false: "equals"}[strings.Contains(operator, "not")], "MOBILE"})
		switch operator {
		case "equals", "is", "not_equals", "is_not":
			f("country", operator, "uSa", Condition{"country", upstream[operator], "usa"})
			inside, outside := "includingRegex", "excludingRegex"
			if strings.Contains(operator, "not") {
				inside, outside = outside, inside
			}
			f("brand", operator, "brand", Condition{"query", inside, brand})
			f("brand", operator, "non-brand", Condition{"query", outside, brand})
			f("page_group", operator, "blog", Condition{"page", inside, blog})
		default:
			f("country", operator, "u", Condition{"country", upstream[operator], "u"})
			for dimension, value := range map[string]string{"brand": "brand", "page_group": "blog"} {
				wantFilterError(t, oneFilter(dimension, operator, value), fmt.Sprintf(
					"filters[0]: operator %s does not apply to %s: use equals, not_equals, is or is_not", operator, dimension))
			}
		}
	}
}

func TestIsAndIsNotAreAliases(t *testing.T) {
	for _, dimension := range FilterDimensions() {
		value := map[string]string{"query": "a", "page": "b", "country": "usa", "device": "tablet", "brand": "brand", "page_group": "c"}[dimension]
		for is, equals := range map[string]string{"is": "equals", "is_not": "not_equals"} {
			got, err1 := ParseFilters(oneFilter(dimension, is, value))
			want, err2 := ParseFilters(oneFilter(dimension, equals, value))
			if err1 != nil || err2 != nil || !slices.Equal(got, want) {
				t.Errorf("%s %s: %v, %v, want as %s: %v, %v", dimension, is, got, err1, equals, want, err2)
			}
		}
	}
}

func TestParseFiltersRefusesMalformedFilters(t *testing.T) {
	const notJSON, notArray = "filters is not valid JSON: write a URL-encoded array of filter objects", "filters is not a JSON array"
	for _, filters := range []string{"", " ", "x", "[", "]", "[{]", "[}", "[{}", "[,]", "[{},]", "[{} {}]", "[]]", "[] []", "[]x", "'[]'",
		`[{"dimension":"query" "operator":"is"}]`, `[{dimension:"query"}]`, `[{"dimension":'query'}]`, `[{"value":"\x41"}]`,
		"[{\"value\":\"a\nb\"}]", `[{"value":"\u12"}]`, `[{"value":"\ud8"}]`, "[01]", "[1.]", "[.5]", "[+1]", "[NaN]", "[nul]", "\ufeff[]", "[]\x00",
		"%5B%5D", "[//\n]", "[/**/]"} {
		wantFilterError(t, filters, notJSON)
	}
	for _, filters := range []string{"{}", "null", "true", "1", `"x"`, `"[]"`, `{"dimension":"query","operator":"is","value":"a"}`} {
		wantFilterError(t, filters, notArray)
	}
	for _, element := range []string{"null", "true", "1", `"x"`, "[]", `[{"dimension":"query","operator":"is","value":"a"}]`, "[[]]"} {
		wantFilterError(t, "["+element+"]", "filters[0]: it is not an object")
		wantFilterError(t, `[{"dimension":"query","operator":"is","value":"a"}, `+element+"]", "filters[1]: it is not an object")
	}
	f := func(object, message string) {
		t.Helper()
		wantFilterError(t, "["+object+"]", "filters[0]: "+message)
	}
	f(`{}`, "dimension is missing")
	f(`{"operator":"is","value":"a"}`, "dimension is missing")
	f(`{"dimension":"query","value":"a"}`, "operator is missing")
	f(`{"dimension":"query","operator":"is"}`, "value is missing")
	unknown := func(name string) string {
		return "unknown member " + name + ": a filter has dimension, operator and value"
	}
	f(`{"dimension":"query","operator":"is","value":"a","x":1}`, unknown(`"x"`))
	f(`{"x":{"dimension":"query"},"dimension":"query","operator":"is","value":"a"}`, unknown(`"x"`))
	f(`{"Dimension":"query","operator":"is","value":"a"}`, unknown(`"Dimension"`))
	f(`{"dimension ":"query","operator":"is","value":"a"}`, unknown(`"dimension "`))
	f(`{"":"query","operator":"is","value":"a"}`, unknown(`""`))
	f(`{"`+strings.Repeat("n", 50)+`":1}`, unknown(`"`+strings.Repeat("n", 40)+`"`))
	for _, value := range []string{"1", "true", "null", "{}", "[]", `["query"]`, `{"$ne":""}`, "1e9", "[[[]]]"} {
		f(`{"dimension":`+value+`,"operator":"is","value":"a"}`, "dimension is not a string")
		f(`{"dimension":"query","operator":`+value+`,"value":"a"}`, "operator is not a string")
		f(`{"dimension":"query","operator":"is","value":`+value+`}`, "value is not a string")
	}
	f(`{"dimension":"query","operator":"is","value":"a","value":"a"}`, "value is given twice")
	f(`{"dimension":"query","operator":"is","value":"a","val\u0075e":"b"}`, "value is given twice")
	f(`{"d\u0069mension":"query","operator":"is","value":"a","dimension":"page"}`, "dimension is given twice")
	f(`{"dimension":"query","operator":"is","\u006fperator":"is_not","value":"a"}`, "operator is given twice")
	f(`{"dimension":"query","operator":"is","value":1,"value":"a"}`, "value is not a string")
	dimensions, operators := strings.Join(FilterDimensions(), ", "), strings.Join(FilterOperators(), ", ")
	for _, name := range []string{"", "Query", "QUERY", "date", "searchAppearance", "query ", "pages"} {
		f(`{"dimension":"`+name+`","operator":"is","value":"a"}`, fmt.Sprintf("dimension %q is not one of %s", name, dimensions))
	}
	for _, name := range []string{"", "Is", "notContains", "includingRegex", "=", "isnot", "is "} {
		f(`{"dimension":"query","operator":"`+name+`","value":"a"}`, fmt.Sprintf("operator %q is not one of %s", name, operators))
	}
	// The first invalid filter is reported.
	good := `{"dimension":"query","operator":"is","value":"a"}`
	wantFilterError(t, "["+good+","+good+`,{"dimension":"query","operator":"is","value":""}]`,
		"filters[2]: value has 0 characters: 1 to 200 are allowed")
}

func TestFilterMemberNamesMayHaveEscapes(t *testing.T) {
	got, err := ParseFilters(` [ {"v\u0061lue":"\u0061\n\"\\\/\u00e9\ud83d\ude00", "dim\u0065nsion":"\u0071uery" , "operator" : "is"} ] `)
	if want := []Filter{{Dimension: "query", Operator: "equals", Value: "a\n\"\\/é😀"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

func TestFilterValueLength(t *testing.T) {
	for _, char := range []string{"a", "é", "中", "😀", `\u0061`, `\u4e2d`, `\ud83d\ude00`, `\n`} {
		for n, ok := range map[int]bool{1: true, 199: true, 200: true, 201: false, 1000: false} {
			filters := oneFilter("query", "contains", strings.Repeat(char, n))
			if !ok {
				wantFilterError(t, filters, fmt.Sprintf("filters[0]: value has %d characters: 1 to 200 are allowed", n))
			} else if got, err := ParseFilters(filters); err != nil || len(got) != 1 || len([]rune(got[0].Value)) != n {
				t.Errorf("%d times %s: %q, %v", n, char, got, err)
			}
		}
	}
	for _, operator := range FilterOperators() {
		wantFilterError(t, oneFilter("query", operator, ""), "filters[0]: value has 0 characters: 1 to 200 are allowed")
	}
	if _, err := ParseFilters(oneFilter("query", "contains", " ")); err != nil {
		t.Errorf("a space: %v", err)
	}
}

func TestFilterValuesAreUnicode(t *testing.T) {
	for _, text := range []string{`\ud800`, `a\udfffb`, `\ud800\ud800`, `\ud800\u0041`, `\udc00\ud800`, `\ud83d`, "\ufffd", `\ufffd`, "\xff", "\xc3",
		"\xed\xa0\x80"} {
		wantFilterError(t, oneFilter("query", "contains", text), "filters[0]: value holds a character that is not valid Unicode text")
		wantFilterError(t, oneFilter(text, "contains", "a"), "filters[0]: dimension holds a character that is not valid Unicode text")
		wantFilterError(t, oneFilter("query", text, "a"), "filters[0]: operator holds a character that is not valid Unicode text")
	}
	for _, text := range []string{`\u0000`, `a\u0000`} {
		wantFilterError(t, oneFilter("query", "contains", text), "filters[0]: value holds a NUL character")
		wantFilterError(t, oneFilter(text, "contains", "a"), "filters[0]: dimension holds a NUL character")
		wantFilterError(t, oneFilter("query", text, "a"), "filters[0]: operator holds a NUL character")
	}
}

func TestFiltersAreBounded(t *testing.T) {
	list := func(n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(`{"dimension":"query","operator":"is","value":"a"},`, n), ",") + "]"
	}
	for _, n := range []int{0, 1, 20} {
		if got, err := ParseFilters(list(n)); err != nil || len(got) != n {
			t.Errorf("%d filters: %d, %v", n, len(got), err)
		}
	}
	for _, n := range []int{21, 100} {
		wantFilterError(t, list(n), fmt.Sprintf("filters has %d elements: at most 20 are allowed", n))
	}
	wantFilterError(t, "["+strings.Repeat("1,", 20)+"1]", "filters has 21 elements: at most 20 are allowed")
}

func TestFilterValuesOfDeviceCountryBrand(t *testing.T) {
	good := func(dimension, operator, value, want string) {
		t.Helper()
		if got, err := ParseFilters(oneFilter(dimension, operator, value)); err != nil || got[0].Value != want {
			t.Errorf("%s %s %s: %v, %v, want %s", dimension, operator, value, got, err, want)
		}
	}
	for _, spelling := range []string{"desktop", "DESKTOP", "Desktop", "dESKTOP"} {
		good("device", "is", spelling, "DESKTOP")
		good("device", "not_regex", spelling, spelling)
	}
	good("device", "is", "tablet", "TABLET")
	good("country", "is", "DEU", "deu")
	good("country", "is_not", "zzz", "zzz")
	good("country", "contains", "DE", "DE") // exact matches only need three letters
	good("country", "regex", "^(usa|DEU)$", "^(usa|DEU)$")
	good("query", "is", "BRAND", "BRAND") // the case of text is preserved
	good("page", "equals", "https://Example.com/A", "https://Example.com/A")

	bad := func(dimension, operator, value, message string) {
		t.Helper()
		wantFilterError(t, oneFilter(dimension, operator, value), "filters[0]: value "+message)
	}
	// Unicode letters that fold to ASCII (long s, dotless i, Kelvin sign, dotted I) are not accepted for it.
	for _, value := range []string{"phone", "desk", "desktop ", "deſktop", "mobıle", "Watch", "^mobile$"} {
		for _, operator := range []string{"equals", "is"} {
			bad("device", operator, value, fmt.Sprintf("%q is not one of desktop, mobile, tablet", value))
		}
	}
	bad("device", "regex", "(", "is not an RE2 expression: error parsing regexp: missing closing ): `(`")
	bad("device", "not_regex", "(.{3}|[a-z]{8})", "repeats more than 7 times, which is longer than the name of a device")
	for _, value := range []string{`^(\\pL{7}){7}`, `\\pL{7}`, strings.Repeat("(.{0,7}){0,7}", 5)} {
		bad("device", "regex", value, "is too complex: with its repeats written out, it has more than 500 parts")
	}
	good("device", "not_regex", strings.Repeat("x", 200), strings.Repeat("x", 200))
	good("device", "regex", `^(?:\\pL+|[\\w-]{1,7}|tab.*)$`, `^(?:\pL+|[\w-]{1,7}|tab.*)$`)
	bad("device", "regex", ".{2,}{9,}", "is not an RE2 expression: error parsing regexp: invalid nested repetition operator: `{2,}{9,}`")
	for _, value := range []string{"us", "usaa", "u1a", "us ", "éa", "\u212aaz", "İta", "中", "u-s", "123"} {
		for _, operator := range []string{"equals", "is", "not_equals", "is_not"} {
			bad("country", operator, value, fmt.Sprintf("%q is not a country: three letters, as in ISO 3166-1 alpha-3", value))
		}
	}
	for _, value := range []string{"Brand", "nonbrand", "non_brand", "true", "acme", "brand "} {
		bad("brand", "is", value, fmt.Sprintf("%q is not one of brand, non-brand", value))
		bad("brand", "contains", value, fmt.Sprintf("%q is not one of brand, non-brand", value))
	}
}

func TestFilterExpressionsAreRE2(t *testing.T) {
	const re2 = "filters[0]: value is not an RE2 expression: error parsing regexp: "
	for _, dimension := range []string{"query", "page", "country"} {
		for _, operator := range []string{"regex", "not_regex"} {
			f := func(value, message string) {
				t.Helper()
				wantFilterError(t, oneFilter(dimension, operator, value), re2+message)
			}
			f(`foo(?=bar)`, "invalid or unsupported Perl syntax: `(?=`")
			f(`foo(?!bar)`, "invalid or unsupported Perl syntax: `(?!`")
			f(`(?<=foo)bar`, "invalid named capture: `(?<=foo)bar`")
			f(`(a)\\1`, "invalid escape sequence: `\\1`")
			f(`a(`, "missing closing ): `a(`")
			f(`a)`, "unexpected ): `a)`")
			f(`[`, "missing closing ]: `[`")
			f(`*a`, "missing argument to repetition operator: `*`")
			f(`a{1001}`, "invalid repeat count: `{1001}`")
			f(`a\\`, "trailing backslash at end of expression: ``")
			for _, value := range []string{"a|b", "(?i)a", `\\bshoes\\b`, "^$", ".*", "[[:alpha:]]", `\\p{Greek}`} {
				if _, err := ParseFilters(oneFilter(dimension, operator, value)); err != nil {
					t.Errorf("%s %s %s: %v", dimension, operator, value, err)
				}
			}
		}
		for _, operator := range []string{"contains", "not_contains", "not_equals"} {
			if _, err := ParseFilters(oneFilter("query", operator, "a(")); err != nil {
				t.Errorf("plain text was read as an expression: %v", err)
			}
		}
	}
}

func TestConditionsNeedSegments(t *testing.T) {
	f := func(filters []Filter, segments Segments, message string) {
		t.Helper()
		got, err := Conditions(filters, segments)
		var input *InputError
		if !errors.As(err, &input) || input.Code != CodeValidation || input.Message != message || got != nil {
			t.Errorf("%v: %v, %v, want %s", filters, got, err, message)
		}
	}
	plain, brand, group := Filter{"query", "equals", "a"}, Filter{"brand", "equals", "non-brand"}, Filter{"page_group", "not_equals", "Blog"}
	f([]Filter{plain, brand}, Segments{}, "filters[1]: the property has no brand terms, so its non-brand queries cannot be identified")
	f([]Filter{group}, Segments{}, `filters[0]: the property has no page group "Blog"`)
	f([]Filter{plain, plain, group}, segments(), `filters[2]: the property has no page group "Blog"`) // the group is "blog"

	for want, filters := range map[bool][]Filter{false: {plain, {"page", "regex", "brand"}}, true: {plain, brand}} {
		if got := UsesSegments(filters); got != want {
			t.Errorf("UsesSegments of %v is %v", filters, got)
		}
	}
	if !UsesSegments([]Filter{group}) || UsesSegments(nil) {
		t.Error("UsesSegments is true without filters, or false for a page group")
	}
	if got, err := Conditions(nil, Segments{}); got != nil || err != nil {
		t.Errorf("no filters: %v, %v", got, err)
	}
}

// The canonical form does not depend on the order, the spelling or the repetition of filters.
func TestEqualFiltersHaveEqualQueries(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	elements := []string{
		`{"dimension":"query","operator":"contains","value":"a"}`,
		`{"dimension":"query","operator":"contains","value":"b"}`,
		`{"dimension":"query","operator":"not_contains","value":"a"}`,
		`{"dimension":"page","operator":"is","value":"https://example.com/"}`,
		`{"dimension":"device","operator":"equals","value":"mobile"}`,
		`{"dimension":"country","operator":"is_not","value":"usa"}`,
		`{"dimension":"brand","operator":"is","value":"brand"}`,
		`{"dimension":"page_group","operator":"is","value":"blog"}`,
	}
	others := []string{
		`{"value":"\u0061","operator":"contains","dimension":"query"}`,
		`{ "dimension" : "query", "operator" : "contains", "value" : "b" }`,
		`{"dimension":"query","value":"a","operator":"not_contains"}`,
		`{"dimension":"page","operator":"equals","value":"https:\/\/example.com\/"}`,
		`{"dimension":"device","operator":"is","value":"MOBILE"}`,
		`{"dimension":"country","operator":"not_equals","value":"USA"}`,
		`{"dimension":"brand","operator":"is_not","value":"non-brand"}`,
		`{"dimension":"page_group","operator":"equals","value":"blog"}`,
	}
	body := func(elements []string) string {
		filters, err := ParseFilters("[" + strings.Join(elements, ",") + "]")
		if err != nil {
			t.Fatal(err)
		}
		before := slices.Clone(filters)
		conditions, err := Conditions(filters, segments())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(filters, before) {
			t.Fatal("Conditions changed its argument")
		}
		return string(SeriesQuery("sc-domain:example.com", DateRange{}, conditions).Body())
	}
	want := body(elements)
	if n := strings.Count(want, `"expression"`); n != len(elements) {
		t.Fatalf("%d conditions for %d filters", n, len(elements))
	}
	for range 200 {
		mixed := slices.Clone(elements)
		for i := range mixed {
			if random.IntN(2) == 0 {
				mixed[i] = others[i]
			}
		}
		for range random.IntN(5) {
			mixed = append(mixed, others[random.IntN(len(others))])
		}
		random.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		if got := body(mixed); got != want {
			t.Fatalf("%s\nasks %s\nwant %s", mixed, got, want)
		}
	}
	for i := range elements { // different filters have different queries
		if body(slices.Delete(slices.Clone(elements), i, i+1)) == want {
			t.Errorf("without %s the question is the same", elements[i])
		}
	}
}

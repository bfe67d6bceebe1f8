package translate

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// keeps reports whether the upstream returns a row with this key for the condition.
func keeps(t *testing.T, c Condition, key string) bool {
	t.Helper()
	matches := regexp.MustCompile(c.Expression).MatchString(key)
	switch c.Operator {
	case "includingRegex":
		return matches
	case "excludingRegex":
		return !matches
	}
	t.Fatalf("a segment became %v", c)
	return false
}

// fold maps characters that differ only in case to the same character.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, s)
}

// matchesTerm matches one brand term alone, with a regular expression only for a regex term.
func matchesTerm(term BrandTerm, query string) bool {
	switch term.MatchType {
	case "exact":
		return fold(query) == fold(term.Term)
	case "regex":
		return regexp.MustCompile("(?is)" + term.Term).MatchString(query)
	}
	return strings.Contains(fold(query), fold(term.Term))
}

// matchesRule matches one page rule alone.
func matchesRule(rule PageRule, page string) bool {
	text, value := fold(page), fold(rule.Value)
	switch rule.Type {
	case "contains":
		return strings.Contains(text, value)
	case "regex":
		return regexp.MustCompile("(?is)" + rule.Value).MatchString(page)
	}
	if strings.HasPrefix(rule.Value, "/") {
		scheme, rest, ok := strings.Cut(text, "://")
		path := strings.IndexAny(rest, "/?#")
		if !ok || path < 1 || strings.Trim(strings.ToLower(scheme), "abcdefghijklmnopqrstuvwxyz") != "" || scheme == "" {
			return false
		}
		text = rest[path:]
	}
	if rule.Type == "equals" {
		return text == value
	}
	return strings.HasPrefix(text, value)
}

// words returns text of few letters, for frequent matches, and of characters that are special in expressions.
func words(random *rand.Rand, atMost int) string {
	const letters = `aaabbbAB éÉſsSkKßΣσςıİ中😀.*+?()[]{}|^$\/-&~#:,<>!='"` + "\n\t\u212a\u2028\u0301"
	runes := []rune(letters)
	n := 1 + random.IntN(atMost)
	s := make([]rune, n)
	for i := range s {
		s[i] = runes[random.IntN(len(runes))]
	}
	return string(s)
}

func randomExpression(random *rand.Rand) string {
	expressions := []string{"a.b", "^a", "b$", "a|b", "a+b*", "(?-i)A", "(?-s)a.b", "(?m)^b$", "[^a]b", "[éß]", `\ba`, `\.`, "(a)(b)?",
		"(?i:k)a", "(?U)a+", "a{2}", `\Qa.\E`, "s", `\x{212a}`, "$", "b|^$"}
	return expressions[random.IntN(len(expressions))]
}

func TestBrandMatchesIfAnyTermMatches(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	hits := 0
	for range 1000 {
		terms := make([]BrandTerm, 1+random.IntN(5))
		for i := range terms {
			terms[i] = BrandTerm{Term: words(random, 3), MatchType: []string{"contains", "exact", "regex"}[random.IntN(3)]}
			for terms[i].MatchType != "regex" && strings.TrimSpace(terms[i].Term) == "" {
				terms[i].Term = words(random, 3)
			}
			if terms[i].MatchType == "regex" {
				terms[i].Term = randomExpression(random)
			}
		}
		if err := CheckBrandTerms(terms); err != nil {
			t.Fatalf("%q: %v", terms, err)
		}
		var conditions []Condition
		for _, f := range []Filter{{"brand", "equals", "brand"}, {"brand", "not_equals", "non-brand"}, {"brand", "equals", "non-brand"},
			{"brand", "not_equals", "brand"}} {
			c, err := Conditions([]Filter{f}, Segments{BrandTerms: terms})
			if err != nil || len(c) != 1 || c[0].Dimension != "query" {
				t.Fatalf("%v: %v, %v", f, c, err)
			}
			conditions = append(conditions, c[0])
		}
		if conditions[0] != conditions[1] || conditions[2] != conditions[3] {
			t.Fatalf("a negated filter has another query than its opposite: %v", conditions)
		}
		for range 5 {
			query := words(random, 8)
			if random.IntN(2) == 0 {
				query = strings.ToUpper(terms[0].Term) + query
			}
			if random.IntN(4) == 0 {
				query = terms[0].Term
			}
			brand, nonBrand := keeps(t, conditions[0], query), keeps(t, conditions[2], query)
			want := slices.ContainsFunc(terms, func(term BrandTerm) bool { return matchesTerm(term, query) })
			if brand != want || nonBrand == brand {
				t.Fatalf("%q with %q: brand %v, non-brand %v, want brand %v", query, terms, brand, nonBrand, want)
			}
			if brand {
				hits++
			}
		}
	}
	if hits < 500 || hits > 4500 {
		t.Errorf("%d of 5000 queries are brand: the test hardly tells anything", hits)
	}
}

func TestPageGroupMatchesIfAnyRuleMatches(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	hits := 0
	origins := []string{"https://example.com", "http://www.example.com:8080", "HTTPS://b", "https://", "a", "", "x1://a", "https://a?b", "https://a#b"}
	for range 1000 {
		rules := make([]PageRule, 1+random.IntN(4))
		for i := range rules {
			rules[i] = PageRule{Type: []string{"prefix", "contains", "equals", "regex"}[random.IntN(4)], Value: "/" + words(random, 3)}
			switch {
			case rules[i].Type == "regex":
				rules[i].Value = randomExpression(random)
			case random.IntN(3) == 0:
				rules[i].Value = origins[0] + rules[i].Value
			}
		}
		group := PageGroup{Name: "g", Rules: rules}
		if err := CheckPageGroups([]PageGroup{group}); err != nil {
			t.Fatalf("%q: %v", rules, err)
		}
		var conditions []Condition
		for _, operator := range []string{"equals", "not_equals"} {
			c, err := Conditions([]Filter{{"page_group", operator, "g"}}, Segments{PageGroups: []PageGroup{{Name: "other"}, group}})
			if err != nil || len(c) != 1 || c[0].Dimension != "page" {
				t.Fatalf("%v, %v", c, err)
			}
			conditions = append(conditions, c[0])
		}
		for range 5 {
			page := origins[random.IntN(len(origins))]
			switch rule := rules[0]; random.IntN(3) {
			case 0:
				page += "/" + words(random, 6)
			case 1:
				page += strings.ToUpper(rule.Value) + words(random, 2)
			default:
				page += rule.Value
			}
			inside, outside := keeps(t, conditions[0], page), keeps(t, conditions[1], page)
			want := slices.ContainsFunc(rules, func(rule PageRule) bool { return matchesRule(rule, page) })
			if inside != want || outside == inside {
				t.Fatalf("%q with %q: in the group %v, outside %v, want in the group %v", page, rules, inside, outside, want)
			}
			if inside {
				hits++
			}
		}
	}
	if hits < 500 || hits > 4500 {
		t.Errorf("%d of 5000 pages are in the group: the test hardly tells anything", hits)
	}
}

// A rule that starts with a slash matches from the path of the URL on, any other the whole URL.
func TestRulesWithASlashMatchThePath(t *testing.T) {
	f := func(kind, value, page string, want bool) {
		t.Helper()
		group := PageGroup{Name: "g", Rules: []PageRule{{Type: kind, Value: value}}}
		conditions, err := Conditions([]Filter{{"page_group", "equals", "g"}}, Segments{PageGroups: []PageGroup{group}})
		if err != nil {
			t.Fatal(err)
		}
		if got := keeps(t, conditions[0], page); got != want {
			t.Errorf("%s %s, page %s: in the group %v, want %v", kind, value, page, got, want)
		}
	}
	f("prefix", "/blog", "https://example.com/blog", true)
	f("prefix", "/blog", "https://example.com/blog/a?b", true)
	f("prefix", "/blog", "https://example.com:8443/BLOG", true)
	f("prefix", "/blog", "https://example.com/a/blog", false)
	f("prefix", "/blog", "https://example.com/?q=/blog", false)
	f("prefix", "/blog", "https://example.com?q=/blog", false)
	f("prefix", "/blog", "https://example.com#/blog", false)
	f("prefix", "/blog", "/blog", false)
	f("prefix", "/", "https://example.com/", true)
	f("prefix", "/", "https://example.com/anything", true)
	f("prefix", "/a.b", "https://example.com/axb", false)
	f("prefix", "https://example.com/a", "https://example.com/abc", true)
	f("prefix", "example.com/a", "https://example.com/abc", false)
	f("equals", "/", "https://example.com/", true)
	f("equals", "/", "https://example.com/a", false)
	f("equals", "/a", "https://example.com/a", true)
	f("equals", "/a", "https://example.com/a?b", false)
	f("equals", "/a?b", "https://example.com/a?b", true)
	f("equals", "/caf%C3%A9", "https://example.com/caf%c3%a9", true)
	f("equals", "https://example.com/", "https://example.com/", true)
	f("contains", "/b/", "https://example.com/a/b/c", true)
	f("contains", "?", "https://example.com/a", false)
	f("regex", "/p/[0-9]+$", "https://example.com/p/12", true)
	f("regex", "/p/[0-9]+$", "https://example.com/p/12x", false)
}

func TestParseBrandTerm(t *testing.T) {
	f := func(s, term, matchType string) {
		t.Helper()
		if got, err := ParseBrandTerm(s); err != nil || got != (BrandTerm{Term: term, MatchType: matchType}) {
			t.Errorf("%q: %+v, %v, want %s %q", s, got, err, matchType, term)
		}
	}
	f("acme", "acme", "contains")
	f("exact:acme", "acme", "exact")
	f("regex:ac+me", "ac+me", "regex")
	f("a:b", "a:b", "contains")
	f("Exact:acme", "Exact:acme", "contains")
	f("contains:acme", "contains:acme", "contains")
	f("exact:regex:a", "regex:a", "exact")
	f("a(b", "a(b", "contains")
	f("exact:a(b", "a(b", "exact")
	f(" acme ", " acme ", "contains")
	f(strings.Repeat("é", 200), strings.Repeat("é", 200), "contains")

	bad := func(s, message string) {
		t.Helper()
		if got, err := ParseBrandTerm(s); err == nil || err.Error() != fmt.Sprintf("brand term %q: ", s)+message {
			t.Errorf("%q: %+v, %v, want %s", s, got, err, message)
		}
	}
	bad("", "it has 0 characters: 1 to 200 are allowed, not all of them spaces")
	bad(" \t", "it has 2 characters: 1 to 200 are allowed, not all of them spaces")
	bad("exact:", "it has 0 characters: 1 to 200 are allowed, not all of them spaces")
	bad("regex:", "it has 0 characters: 1 to 200 are allowed, not all of them spaces")
	bad(strings.Repeat("é", 201), "it has 201 characters: 1 to 200 are allowed, not all of them spaces")
	bad("a\x00", "it is not plain UTF-8 text")
	bad("a\xff", "it is not plain UTF-8 text")
	bad("regex:a(", "not an RE2 expression: error parsing regexp: missing closing ): `a(`")
	bad("regex:a)|(b", "not an RE2 expression: error parsing regexp: unexpected ): `a)|(b`")
	bad(`regex:\Qa`, `it has \Q without \E`)
	bad(`regex:a|\Q`, `it has \Q without \E`)
	bad("regex:(?=a)", "not an RE2 expression: error parsing regexp: invalid or unsupported Perl syntax: `(?=`")
}

func TestCheckBrandTerms(t *testing.T) {
	repeat := func(n, length int) []BrandTerm {
		return slices.Repeat([]BrandTerm{{Term: strings.Repeat("a", length), MatchType: "contains"}}, n)
	}
	for _, terms := range [][]BrandTerm{nil, repeat(1, 200), repeat(100, 30), repeat(19, 200)} {
		if err := CheckBrandTerms(terms); err != nil {
			t.Errorf("%d terms: %v", len(terms), err)
		}
	}
	bad := func(terms []BrandTerm, message string) {
		t.Helper()
		if err := CheckBrandTerms(terms); err == nil || err.Error() != message {
			t.Errorf("%d terms: %v, want %s", len(terms), err, message)
		}
	}
	bad(repeat(101, 1), "101 brand terms are too many: at most 100")
	bad(repeat(20, 200), "the brand terms make an expression of 4104 characters: Search Console allows 4096")
}

func TestCheckPageGroups(t *testing.T) {
	rule := PageRule{Type: "prefix", Value: "/a"}
	group := func(name string, rules ...PageRule) PageGroup { return PageGroup{Name: name, Rules: rules} }
	if err := CheckPageGroups([]PageGroup{group("a", rule), group("A", slices.Repeat([]PageRule{rule}, 50)...)}); err != nil {
		t.Error(err)
	}
	if err := CheckPageGroups(nil); err != nil {
		t.Error(err)
	}
	bad := func(message string, groups ...PageGroup) {
		t.Helper()
		if err := CheckPageGroups(groups); err == nil || err.Error() != message {
			t.Errorf("%v, want %s", err, message)
		}
	}
	bad("101 page groups are too many: at most 100", slices.Repeat([]PageGroup{group("a", rule)}, 101)...)
	bad(`page group name "": it has 0 characters: 1 to 200 are allowed, not all of them spaces`, group("", rule))
	bad(`page group "a" appears twice`, group("a", rule), group("b", rule), group("a", rule))
	bad(`page group "a" has 0 rules: 1 to 50 are allowed`, group("a"))
	bad(`page group "a" has 51 rules: 1 to 50 are allowed`, group("a", slices.Repeat([]PageRule{rule}, 51)...))
	bad(`page group "a", rule 2: type "suffix" is not one of prefix, contains, equals, regex`, group("a", rule, PageRule{"suffix", "/a"}))
	bad(`page group "a", rule 1: type "" is not one of prefix, contains, equals, regex`, group("a", PageRule{"", "/a"}))
	bad(`page group "a", rule 1: it has 0 characters: 1 to 200 are allowed, not all of them spaces`, group("a", PageRule{"prefix", ""}))
	bad("page group \"a\", rule 1: not an RE2 expression: error parsing regexp: missing closing ]: `[`", group("a", PageRule{"regex", "["}))
	bad("page group \"a\", rule 1: it has \\Q without \\E", group("a", PageRule{"regex", `/\Q.`}))
	bad("the rules of page group a make an expression of 10254 characters: Search Console allows 4096",
		group("a", slices.Repeat([]PageRule{{"contains", strings.Repeat("é", 200)}}, 50)...))
}

// Any accepted configuration gives an expression within the upstream's limit.
func TestExpressionsStayWithinTheUpstreamLimit(t *testing.T) {
	terms := slices.Repeat([]BrandTerm{{Term: strings.Repeat("é", 195), MatchType: "contains"}}, 20)
	conditions, err := Conditions([]Filter{{"brand", "equals", "brand"}}, Segments{BrandTerms: terms})
	if err != nil {
		t.Fatal(err)
	}
	if n := utf8.RuneCountInString(conditions[0].Expression); n > 4096 {
		t.Errorf("%d characters", n)
	}
	terms = slices.Repeat(terms, 2)
	if _, err := Conditions([]Filter{{"brand", "equals", "brand"}}, Segments{BrandTerms: terms}); err == nil {
		t.Error("40 terms of 195 characters were accepted")
	}
}

func TestUnescapePathSegment(t *testing.T) {
	f := func(segment, want string) {
		t.Helper()
		if got, err := UnescapePathSegment(segment); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", segment, got, err, want)
		}
	}
	f("", "")
	f("example.com", "example.com")
	f("sc-domain%3Aexample.com", "sc-domain:example.com")
	f("https%3A%2F%2Fexample.com%2Fa%2F", "https://example.com/a/")
	f("a+b", "a+b") // a plus is a space only in a query string
	f("a%2Bb%25", "a+b%")
	f("m%C3%BCnchen", "münchen")
	f("münchen", "münchen")

	bad := func(segment, message string) {
		t.Helper()
		wantInputError(t, segment, message)
	}
	for _, segment := range []string{"%", "%4", "%zz", "a%2", "%%41"} {
		bad(segment, "the path has a broken percent escape")
	}
	for _, segment := range []string{"%ff", "\xff", "%ED%A0%80", "%C0%80"} {
		bad(segment, "the path is not UTF-8")
	}
	bad("%00", "the path holds a NUL character")
	bad("a\x00", "the path holds a NUL character")
}

func wantInputError(t *testing.T, segment, message string) {
	t.Helper()
	_, err := UnescapePathSegment(segment)
	if input, ok := err.(*InputError); !ok || input.Code != CodeValidation || input.Message != message {
		t.Errorf("%q: %v, want %s", segment, err, message)
	}
}

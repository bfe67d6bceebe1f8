package translate

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// A BrandTerm is a search term for the property's brand. The terms of a property are ORed.
type BrandTerm struct {
	ID        string
	Term      string
	MatchType string // contains, exact or regex
	CreatedAt time.Time
}

// A PageGroup is a named set of pages: those that at least one rule matches.
type PageGroup struct {
	ID        string
	Name      string
	Rules     []PageRule
	CreatedAt time.Time
}

// A PageRule matches a page by its URL as the upstream reports it, percent-encoded. If the value of a prefix or equals rule
// starts with a slash, it matches from the path of the URL on.
type PageRule struct {
	Type  string `json:"type"` // prefix, contains, equals or regex
	Value string `json:"value"`
}

// Bounds of the configuration. The upstream's limit of an expression is maxExpression characters.
const (
	MaxBrandTerms   = 100
	MaxPageGroups   = 100
	MaxPageRules    = 50
	MaxSegmentValue = 200
	maxExpression   = 4096
)

// ParseBrandTerm reads TERM (contains), exact:TERM or regex:TERM.
func ParseBrandTerm(s string) (BrandTerm, error) {
	term := BrandTerm{Term: s, MatchType: "contains"}
	if kind, rest, ok := strings.Cut(s, ":"); ok && (kind == "exact" || kind == "regex") {
		term = BrandTerm{Term: rest, MatchType: kind}
	}
	if err := checkSegmentValue(term.Term, term.MatchType == "regex"); err != nil {
		return BrandTerm{}, fmt.Errorf("brand term %q: %w", s, err)
	}
	return term, nil
}

// CheckBrandTerms validates the brand terms of a property: their number, and the length of their upstream expression.
func CheckBrandTerms(terms []BrandTerm) error {
	if len(terms) > MaxBrandTerms {
		return fmt.Errorf("%d brand terms are too many: at most %d", len(terms), MaxBrandTerms)
	}
	if len(terms) == 0 {
		return nil
	}
	_, err := brandExpression(terms)
	return err
}

// CheckPageGroups validates the page groups of a property. Its errors name the group and the rule.
func CheckPageGroups(groups []PageGroup) error {
	if len(groups) > MaxPageGroups {
		return fmt.Errorf("%d page groups are too many: at most %d", len(groups), MaxPageGroups)
	}
	seen := make(map[string]bool, len(groups))
	for _, g := range groups {
		if err := checkSegmentValue(g.Name, false); err != nil {
			return fmt.Errorf("page group name %q: %w", g.Name, err)
		}
		if seen[g.Name] {
			return fmt.Errorf("page group %q appears twice", g.Name)
		}
		seen[g.Name] = true
		if err := checkPageGroup(g); err != nil {
			return err
		}
	}
	return nil
}

func checkPageGroup(g PageGroup) error {
	if len(g.Rules) == 0 || len(g.Rules) > MaxPageRules {
		return fmt.Errorf("page group %q has %d rules: 1 to %d are allowed", g.Name, len(g.Rules), MaxPageRules)
	}
	for i, rule := range g.Rules {
		switch rule.Type {
		case "prefix", "contains", "equals", "regex":
		default:
			return fmt.Errorf("page group %q, rule %d: type %q is not one of prefix, contains, equals, regex", g.Name, i+1, rule.Type)
		}
		if err := checkSegmentValue(rule.Value, rule.Type == "regex"); err != nil {
			return fmt.Errorf("page group %q, rule %d: %w", g.Name, i+1, err)
		}
	}
	_, err := pageGroupExpression(g)
	return err
}

func checkSegmentValue(value string, isRegex bool) error {
	switch n := utf8.RuneCountInString(value); {
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return fmt.Errorf("it is not plain UTF-8 text")
	case strings.TrimSpace(value) == "" || n > MaxSegmentValue:
		return fmt.Errorf("it has %d characters: 1 to %d are allowed, not all of them spaces", n, MaxSegmentValue)
	}
	if isRegex {
		if err := checkExpression(value); err != nil {
			return fmt.Errorf("not an RE2 expression: %w", err)
		}
		// It would quote the end of the group that alternation puts it in.
		if checkExpression("(?:"+value+")") != nil {
			return errors.New(`it has \Q without \E`)
		}
	}
	return nil
}

// brandExpression returns one expression that matches the queries that any of the terms matches.
func brandExpression(terms []BrandTerm) (string, error) {
	alternatives := make([]string, len(terms))
	for i, t := range terms {
		switch t.MatchType {
		case "exact":
			alternatives[i] = "^" + regexp.QuoteMeta(t.Term) + "$"
		case "regex":
			alternatives[i] = t.Term
		default:
			alternatives[i] = regexp.QuoteMeta(t.Term)
		}
	}
	return alternation("brand terms", alternatives)
}

// anyOrigin matches the scheme and the host of a URL.
const anyOrigin = "^[a-z]+://[^/?#]+"

// pageGroupExpression returns one expression that matches the pages that any rule of the group matches.
func pageGroupExpression(g PageGroup) (string, error) {
	alternatives := make([]string, len(g.Rules))
	for i, rule := range g.Rules {
		quoted := regexp.QuoteMeta(rule.Value)
		start := "^"
		if strings.HasPrefix(rule.Value, "/") {
			start = anyOrigin
		}
		switch rule.Type {
		case "prefix":
			alternatives[i] = start + quoted
		case "equals":
			alternatives[i] = start + quoted + "$"
		case "regex":
			alternatives[i] = rule.Value
		default:
			alternatives[i] = quoted
		}
	}
	return alternation("rules of page group "+g.Name, alternatives)
}

// alternation joins alternatives into one case-insensitive expression, since the upstream has no OR between filters. The dot
// matches newlines, which real queries contain. Each alternative, which checkSegmentValue accepts, has a group, and so
// flags, of its own.
func alternation(what string, alternatives []string) (string, error) {
	expression := "(?is)(?:" + strings.Join(alternatives, ")|(?:") + ")"
	if n := utf8.RuneCountInString(expression); n > maxExpression {
		return "", fmt.Errorf("the %s make an expression of %d characters: Search Console allows %d", what, n, maxExpression)
	}
	if err := checkExpression(expression); err != nil {
		return "", fmt.Errorf("the %s make no RE2 expression: %w", what, err)
	}
	return expression, nil
}

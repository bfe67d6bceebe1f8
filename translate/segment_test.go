package translate

import (
	"regexp"
	"testing"
)

// A rule that starts with a slash is matched against the path: a query string behind a bare host is not one.
func TestPathRulesStartAtThePath(t *testing.T) {
	group := PageGroup{Name: "blog", Rules: []PageRule{{Type: "prefix", Value: "/blog"}}}
	conditions, err := Conditions([]Filter{{Dimension: "page_group", Operator: "equals", Value: "blog"}}, Segments{PageGroups: []PageGroup{group}})
	if err != nil {
		t.Fatal(err)
	}
	expression := regexp.MustCompile(conditions[0].Expression)
	f := func(page string, want bool) {
		t.Helper()
		if got := expression.MatchString(page); got != want {
			t.Errorf("%s: in the group %v, want %v", page, got, want)
		}
	}
	f("https://example.com/blog", true)
	f("https://example.com/blog/a?b", true)
	f("https://example.com:8443/BLOG", true)
	f("https://example.com/a/blog", false)
	f("https://example.com/?q=/blog", false)
	f("https://example.com?q=/blog", false)
	f("https://example.com#/blog", false)
	f("/blog", false)
}

package translate

import (
	"strings"
	"testing"
)

// The operators of a device are matched against the three names; the upstream is asked for those that are left.
func TestDeviceConditions(t *testing.T) {
	t.Parallel()
	one := func(name string) Condition { return Condition{"device", "equals", name} }
	without := func(name string) Condition { return Condition{"device", "notEquals", name} }
	all, none := Condition{"device", "includingRegex", "DESKTOP|MOBILE|TABLET"}, Condition{Dimension: "device", Operator: "none"}
	for _, c := range []struct {
		filters string // operator value, separated by semicolons
		want    Condition
	}{
		{"is tablet", one("TABLET")}, {"is_not tablet", without("TABLET")}, {"not_equals watch", all},
		{"contains e", all}, {"contains B", without("DESKTOP")}, {"contains top", one("DESKTOP")}, {"contains watch", none},
		{"not_contains e", none}, {"not_contains Le", one("DESKTOP")}, {"not_contains x", all},
		{"contains mobıle", none}, {"not_contains deſk", all}, // letters that fold to those of the names
		{"regex ^(desk|tab)", without("MOBILE")}, {"regex ^Mobile$", one("MOBILE")}, {"regex mob", one("MOBILE")}, {"regex (?-i:mobile)", none},
		{"regex ^.{6}$", without("DESKTOP")}, {"not_regex ^.{6}$", one("DESKTOP")}, {"not_regex .", none}, {"regex a|b", without("DESKTOP")},
		{`regex \\Qmobile`, one("MOBILE")}, {`not_regex mobile\\Q`, without("MOBILE")}, {`regex \\Qtab\\E.et`, one("TABLET")},
		{"contains le;not_contains mob", one("TABLET")}, {"is mobile;is tablet", none}, {"is mobile;regex M", one("MOBILE")},
	} {
		var filters []Filter
		for text := range strings.SplitSeq(c.filters, ";") {
			operator, value, _ := strings.Cut(text, " ")
			list, err := ParseFilters(oneFilter("device", operator, value))
			if err != nil {
				t.Fatal(err)
			}
			filters = append(filters, list...)
		}
		got, err := Conditions(filters, Segments{})
		if err != nil || len(got) != 1 || got[0] != c.want || MatchNothing(got) != (c.want == none) {
			t.Errorf("%s means %v, %v, want %v", c.filters, got, err, c.want)
		}
	}
}

func TestFilterFormNotes(t *testing.T) {
	t.Parallel()
	const full = "filters[0] matches nothing: a page is a full URL, such as https://www.example.com/blog/; use contains for a part of it."
	for _, c := range []struct{ dimension, operator, value, want string }{
		{"page", "equals", "/blog/", full}, {"page", "is", "www.example.com/", full}, {"page", "equals", "ftp://example.com/", full},
		{"page", "is_not", "/blog/", strings.Replace(full, "matches", "excludes", 1)},
		{"page", "equals", "https://example.com",
			"filters[0] matches nothing: a page has a path, which is / for the home page, such as https://www.example.com/."},
		{"page", "equals", "HTTPS://example.com/ä", ""}, {"page", "contains", "/blog/", ""}, {"page", "regex", "^/blog/", ""},
		{"country", "contains", "usa1", "filters[0] matches nothing: a country is three letters, as in ISO 3166-1 alpha-3."},
		{"country", "contains", "germ", "filters[0] matches nothing: a country is three letters, as in ISO 3166-1 alpha-3."},
		{"country", "not_contains", "us-", "filters[0] excludes nothing: a country is three letters, as in ISO 3166-1 alpha-3."},
		{"country", "contains", "S", ""}, {"country", "regex", "....", ""}, {"query", "equals", "ä B", ""},
		{"device", "contains", "watch", "The filters of the device leave none of desktop, mobile and tablet."},
		{"device", "contains", "MOB", ""},
	} {
		filters, err := ParseFilters(oneFilter(c.dimension, c.operator, c.value))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(formNotes(filters), "|"); got != c.want {
			t.Errorf("%s %s %s has the notes %q, want %q", c.dimension, c.operator, c.value, got, c.want)
		}
	}
	if notes := formNotes(nil); notes != nil {
		t.Errorf("no filter has the notes %q", notes)
	}
}

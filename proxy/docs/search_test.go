package docs

import (
	"slices"
	"strings"
	"testing"
)

// A search finds metrics, parameters, codes and prose, in any case, and every result leads somewhere.
func TestSearchFinds(t *testing.T) {
	p := sharedPages(t)
	for query, want := range map[string]string{
		"ctr":             "/operations/getSummary",
		"CTR":             "/operations/listQueries",
		"retry-after":     "/guides/limits",
		"min_clicks":      "/operations/listQueryMovers",
		"RATE_LIMITED":    "/errors#RATE_LIMITED",
		"rate_lim":        "/errors#RATE_LIMITED",
		"anonymised":      "/guides/numbers",
		"brand non-brand": "/guides/filters",
		"python":          "/guides/first-request#python",
	} {
		results := p.search.find(query)
		if !slices.ContainsFunc(results, func(r result) bool { return strings.HasPrefix(r.Place, want) }) {
			t.Errorf("%q does not find %s but %v", query, want, results)
		}
		for _, r := range results {
			p.checkLink(t, SearchPath, "/api"+Path+r.Place, true)
			if r.Match != "" && !strings.EqualFold(r.Match, strings.Fields(query)[0]) && len(strings.Fields(query)) == 1 {
				t.Errorf("%q marks %q", query, r.Match)
			}
		}
	}
	if first := p.search.find("movers")[0]; first.Kind != "Operation" && first.Kind != "Guide" || !strings.Contains(first.title+first.text, "movers") {
		t.Errorf("movers finds %s first", first.Title)
	}
}

// What is searched for cannot make the work large, and is shown as text.
func TestSearchIsBounded(t *testing.T) {
	p := sharedPages(t)
	for _, query := range []string{"", " ", "nothing-has-this", strings.Repeat("a b ", 1000), "\xff\xfe", `"><script>alert(1)</script>`,
		strings.Repeat("ä", 60)} {
		f, err := p.Search(query)
		if err != nil {
			t.Fatal(err)
		}
		page := plain(f)
		if strings.Contains(page, "<script>") || f.Cache != keepNothing || !strings.Contains(page, "<h1>Search</h1>") {
			t.Errorf("%.20q gives %s", query, page)
		}
	}
	if n := len(p.search.find("e")); n != maxResults {
		t.Errorf("%d results", n)
	}
}

func BenchmarkSearch(b *testing.B) {
	p, err := New(Config{BaseURL: "https://api.example.com", Codes: codes(), Document: published(b)})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := p.Search("impressions of the six words here"); err != nil {
			b.Fatal(err)
		}
	}
}

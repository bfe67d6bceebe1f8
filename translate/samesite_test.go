package translate

import "testing"

// A property is counted by another one that is the same site, or that it is a part of: a subdomain or a URL prefix of a domain, or a
// longer URL prefix.
func TestCountedByOthers(t *testing.T) {
	for _, c := range []struct {
		name  string
		sites []string
		want  int
	}{
		{"none", nil, 0},
		{"one", []string{"sc-domain:example.com"}, 0},
		{"a site three times", []string{"sc-domain:example.com", "sc-domain:example.com", "sc-domain:example.com"}, 2},
		{"a prefix of a domain", []string{"https://example.com/", "sc-domain:example.com"}, 1},
		{"a prefix of a subdomain, with a port", []string{"sc-domain:example.com", "http://shop.example.com:8080/"}, 1},
		{"a subdomain", []string{"sc-domain:a.b.example.com", "sc-domain:example.com"}, 1},
		{"a longer prefix", []string{"https://example.com/", "https://example.com/shop/", "https://example.com/shop/new/"}, 2},
		{"a part of two others", []string{"sc-domain:example.com", "https://example.com/", "https://example.com/shop/"}, 2},
		{"one prefix twice in a domain", []string{"sc-domain:example.com", "https://example.com/", "https://example.com/"}, 2},
		{"other domains", []string{"sc-domain:example.com", "sc-domain:notexample.com", "https://example.org/", "sc-domain:com.example"}, 0},
		{"other prefixes", []string{"https://example.com/", "http://example.com/", "https://www.example.com/", "https://example.com:8443/"}, 0},
		{"neighbours", []string{"https://example.com/shop/", "https://example.com/shopping/", "https://example.com/blog/"}, 0},
	} {
		var rows []*portfolioRow
		for _, site := range c.sites {
			rows = append(rows, &portfolioRow{PortfolioProperty: &PortfolioProperty{Site: site, Summary: Head{}}})
		}
		if got := countedByOthers(rows); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
		for _, row := range rows {
			row.Summary = nil // without figures nothing is counted
		}
		if got := countedByOthers(rows); got != 0 {
			t.Errorf("%s, without figures: %d, want 0", c.name, got)
		}
	}
}

package translate

import "strings"

// countedByOthers returns how many of the rows have figures that another row has, too: those of the same site, and those of a part of it,
// since Search Console counts a click for every property that the page belongs to.
func countedByOthers(rows []*portfolioRow) (n int) {
	sites := make(map[string]int, len(rows)) // rows with figures, by domain or URL prefix
	for _, row := range rows {
		if row.Summary != nil {
			sites[strings.TrimPrefix(row.Site, "sc-domain:")]++
		}
	}
	for site, same := range sites {
		n += same
		if !isPart(site, sites) {
			n--
		}
	}
	return n
}

// isPart reports whether a domain or a URL prefix is a part of one of the sites.
func isPart(site string, sites map[string]int) bool {
	has := func(whole string) bool { return sites[whole] > 0 }
	domain := site
	if _, rest, ok := strings.Cut(site, "://"); ok {
		host, _, _ := strings.Cut(rest, "/")
		root := len(site) - len(rest) + len(host)
		for end := len(site) - 1; end > root; {
			end = strings.LastIndexByte(site[:end], '/')
			if has(site[:end+1]) {
				return true
			}
		}
		if domain, _, _ = strings.Cut(host, ":"); has(domain) {
			return true
		}
	}
	for more := true; more; {
		if _, domain, more = strings.Cut(domain, "."); has(domain) {
			return true
		}
	}
	return false
}

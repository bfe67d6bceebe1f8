package main

import (
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Requests are numbered from 0 to maxRequests-1. The digits of a number, in mixed bases and lowest first, are the site,
// the table, the number of days, the last day, a filter and a limit. All except the limit make a new cache entry.
const (
	sites   = 8 // each in its own account, because one account can fill only a part of the cache
	lengths = 7
	ends    = 200
	words   = 8

	maxRequests = sites * lengths * ends * words * 4 * 3 // 4 tables and 3 limits
)

func domain(site int) string { return fmt.Sprintf("soak%d.example", site) }

// path returns the path of a request, and its site.
func path(number int, lastDay time.Time) (path string, site int) {
	digit := func(base int) int {
		d := number % base
		number /= base
		return d
	}
	var b strings.Builder
	site = digit(sites)
	b.WriteString("/v1/properties/" + domain(site))
	b.WriteString([]string{"/queries", "/pages", "/countries", "/devices"}[digit(4)])
	length, back := digit(lengths), digit(ends)
	end := lastDay.AddDate(0, 0, -back)
	b.WriteString("?start_date=" + end.AddDate(0, 0, -length).Format(time.DateOnly) + "&end_date=" + end.Format(time.DateOnly))
	// No query contains the word, so the filter removes only the anonymised traffic, and answers keep their size.
	if word := digit(words); word > 0 {
		b.WriteString("&filters=" + url.QueryEscape(fmt.Sprintf(`[{"dimension":"query","operator":"not_contains","value":"zzz%d"}]`, word)))
	}
	b.WriteString([]string{"", "&limit=10", "&limit=1000"}[digit(3)])
	return b.String(), site
}

// bigPath is path for -big: page rows of a range that no earlier request had, or an order of them.
func bigPath(number int, lastDay time.Time) (path string, site int) {
	orders := []string{"-clicks", "-impressions", "position"}
	site, number = number%sites, number/sites
	order, number := orders[number%len(orders)], number/len(orders)
	length, back := number%lengths, number/lengths%ends
	end := lastDay.AddDate(0, 0, -back)
	return fmt.Sprintf("/v1/properties/%s/pages?start_date=%s&end_date=%s&limit=1000&order_by=%s", domain(site),
		end.AddDate(0, 0, -length).Format(time.DateOnly), end.Format(time.DateOnly), order), site
}

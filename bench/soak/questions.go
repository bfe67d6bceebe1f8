package main

import (
	"fmt"
	"iter"
	"net/url"
	"strings"
	"time"

	"sara/bench/internal/stage"
)

// Every question is one number from 0 to maxQuestions-1, written with these digits, the fastest first: site, table,
// days, where the days end, a filter, and a limit. Only the limit makes no new canonical question.
const (
	sites   = 8 // each of an account of its own, since one account may fill a part of the memory only
	lengths = 7
	ends    = 200
	words   = 8

	maxQuestions = sites * lengths * ends * words * 4 * 3 // 4 tables and 3 limits
)

func domain(site int) string { return fmt.Sprintf("soak%d.example", site) }

// path returns the path of a question, and the site that it is about.
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
	// What no query contains filters nothing out but the anonymised traffic: the answers stay as large.
	if word := digit(words); word > 0 {
		b.WriteString("&filters=" + url.QueryEscape(fmt.Sprintf(`[{"dimension":"query","operator":"not_contains","value":"zzz%d"}]`, word)))
	}
	b.WriteString([]string{"", "&limit=10", "&limit=1000"}[digit(3)])
	return b.String(), site
}

// questions returns those from one number to before another, with the keys by account.
func questions(from, to int, keys [][]string, lastDay time.Time) iter.Seq[stage.Request] {
	return func(yield func(stage.Request) bool) {
		for number := from; number < to; number++ {
			path, site := path(number, lastDay)
			if !yield(stage.Request{Key: keys[site][0], Path: path}) {
				return
			}
		}
	}
}

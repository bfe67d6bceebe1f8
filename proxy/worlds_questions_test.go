package proxy

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"sara/translate"
)

// A question is one request about a random world, with its resolved days.
type question struct {
	endpoint string
	table    string   // what is counted: "total" or a table
	query    []string // name, value pairs
	from, to date
	preset   string
	compare  bool // with the period before, as compare= and the movers do
	byYear   bool // that period is the same dates a year before
	filter   *worldFilter

	cacheControl string
	limit        int
	offset       int
	order        string
}

func (q *question) days() int { return int(q.to-q.from) + 1 }

// counterpart returns the day that a day is compared with. No question reaches a February 29.
func (q *question) counterpart(d date) date {
	if q.byYear {
		year, month, day := d.Time().Date()
		return translate.NewDate(year-1, month, day)
	}
	return d - date(q.days())
}

// knowsMore reports whether a question may need more than a copy of the series from the day before shows of the last days: whether a filter's own
// rows show more, or where the figures begin.
func (q *question) knowsMore() bool {
	return q.table == "total" && q.filter != nil || q.counterpart(q.from) < liveStart+30
}

// A worldFilter is a filter, with the upstream's name of its operator and the upstream's spelling of its value.
type worldFilter struct{ dimension, operator, name, value string }

// worldFilters are filters that some rows of most sites satisfy, but for one that none does.
func worldFilters(pages []string) []worldFilter {
	return []worldFilter{
		{"query", "contains", "contains", "e"}, {"query", "not_contains", "notContains", "s"}, {"query", "regex", "includingRegex", "^[a-m]"},
		{"page", "contains", "contains", "/"}, {"page", "equals", "equals", pages[0]}, {"page", "is_not", "notEquals", pages[1]},
		{"device", "is", "equals", "MOBILE"}, {"device", "equals", "equals", "TABLET"},
		{"country", "equals", "equals", "usa"}, {"country", "not_equals", "notEquals", "gbr"}, {"query", "equals", "equals", "no such query"},
	}
}

// drawFilter makes a question a filtered one.
func (x *truth) drawFilter(r *rand.Rand, q *question) {
	filter := pick(r, worldFilters(x.upstream.Pages(x.site.URL))...)
	q.filter = &filter
	q.query = append(q.query, "filters", filtersOf(filter.dimension, filter.operator, filter.value))
}

// draw draws a question: a preset, or explicit days around one where something begins or ends.
func (x *truth) draw(r *rand.Rand) *question {
	q := &question{preset: "custom", order: "-clicks", limit: 100}
	switch r.IntN(6) {
	case 0, 1:
		q.endpoint, q.table = "/summary", "total"
		if r.IntN(3) > 0 {
			q.compare, q.query = true, []string{"compare", "previous_period"}
			if q.byYear = r.IntN(3) == 0; q.byYear {
				q.query[1] = "previous_year"
			}
		}
	case 2:
		q.endpoint, q.table = "/timeseries", "total"
	case 3:
		q.endpoint, q.table, _ = strings.Cut(pick(r, "/movers/queries query", "/movers/pages page"), " ")
		q.compare, q.limit = true, pick(r, 1, 10, 50)
		q.query = []string{"limit", strconv.Itoa(q.limit)}
	default:
		q.endpoint, q.table, _ = strings.Cut(pick(r, "/queries query", "/pages page", "/countries country", "/devices device"), " ")
		q.order, q.limit = pick(r, "-clicks", "-clicks", "-impressions", "key"), pick(r, 1, 3, 100)
		q.query = []string{"order_by", q.order, "limit", strconv.Itoa(q.limit)}
		if r.IntN(3) == 0 {
			q.offset = pick(r, 0, 1, 2, 5, 30)
			q.query = append(q.query, "offset", strconv.Itoa(q.offset))
		}
	}
	if !strings.HasPrefix(q.endpoint, "/movers") && r.IntN(5) == 0 {
		x.drawFilter(r, q)
	}
	x.drawDays(r, q)
	return q
}

// presetDays are the days of presets at noon.
func presetDays() map[string][2]date {
	november := translate.NewDate(2026, 11, 1)
	return map[string][2]date{
		"last_7d": {lastDay - 6, lastDay}, "last_28d": {lastDay - 27, lastDay}, "last_30d": {lastDay - 29, lastDay}, "last_90d": {lastDay - 89, lastDay},
		"month_to_date": {november, lastDay}, "previous_month": {november - 31, november - 1}, "last_16m": {liveStart, lastDay},
		"previous_year": {translate.NewDate(2025, 1, 1), translate.NewDate(2025, 12, 31)},
	}
}

func (x *truth) drawDays(r *rand.Rand, q *question) {
	if presets := presetDays(); r.IntN(3) == 0 {
		q.preset = pick(r, slices.Sorted(maps.Keys(presets))...)
		q.from, q.to = presets[q.preset][0], presets[q.preset][1]
		q.query = append(q.query, "date_range", q.preset)
		return
	}
	edges := []date{lastDay, lastDay, liveStart, liveStart, x.lastPublished}
	if first, last, ok := x.bounds(); ok {
		edges = append(edges, first, last)
	}
	if days := slices.Sorted(maps.Keys(x.archive.days)); len(days) > 0 {
		edges = append(edges, days[0], days[len(days)-1], pick(r, days...))
	}
	length := date(pick(r, 1, 1, 2, 3, 7, 14, 28, 40))
	q.from = pick(r, edges...) - date(r.IntN(int(length)+6)) + 3
	q.from = max(earliestDay, min(q.from, lastDay))
	q.to = min(lastDay, q.from+length-1)
	q.query = append(q.query, "start_date", q.from.String(), "end_date", q.to.String())
}

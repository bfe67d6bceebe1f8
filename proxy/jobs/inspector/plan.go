package inspector

import (
	"cmp"
	"math"
	"slices"
	"time"

	"sara/archive/sqlstore"
	"sara/translate"
)

// plan returns the URLs that are due on an upstream day, by priority: first those that were never inspected, then the others by age,
// weighted with the clicks. Among equals, those with more clicks are first. day returns the upstream's day of an instant.
//
// Ages are whole days, so that a run that continues another one uses the same order.
func plan(urls []sqlstore.TrackedURL, today translate.Date, day func(time.Time) translate.Date) []sqlstore.TrackedURL {
	type candidate struct {
		sqlstore.TrackedURL
		priority float64
	}
	var due []candidate
	for _, u := range urls {
		if u.InspectedAt == nil {
			due = append(due, candidate{u, math.Inf(1)})
		} else if age := ageOn(today, day(*u.InspectedAt)); age > 0 {
			due = append(due, candidate{u, float64(age) * (1 + math.Log2(1+float64(u.Clicks)))})
		}
	}
	slices.SortFunc(due, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(b.Clicks, a.Clicks), cmp.Compare(a.URL, b.URL))
	})
	planned := make([]sqlstore.TrackedURL, len(due))
	for i, c := range due {
		planned[i] = c.TrackedURL
	}
	return planned
}

// ageOn returns how many days ago a URL was inspected. An inspection later than tomorrow was recorded by a wrong clock, and would keep the
// URL from being inspected until then: it counts as one of yesterday.
func ageOn(today, inspected translate.Date) translate.Date {
	if inspected > today+1 {
		return 1
	}
	return today - inspected
}

package inspector

import (
	"fmt"
	"testing"
	"time"

	"sara/archive/sqlstore"
	"sara/translate"
)

func TestPlan(t *testing.T) {
	const today = translate.Date(20_000)
	day := func(t time.Time) translate.Date { return translate.Date(t.Unix() / 86400) }
	url := func(name string, clicks int64, daysAgo ...translate.Date) sqlstore.TrackedURL {
		u := sqlstore.TrackedURL{URL: name, Clicks: clicks}
		if len(daysAgo) > 0 {
			at := (today - daysAgo[0]).Time().Add(time.Hour)
			u.InspectedAt = &at
		}
		return u
	}
	for name, test := range map[string]struct {
		urls []sqlstore.TrackedURL
		want []string
	}{
		"empty":                               {nil, []string{}},
		"those of today are done":             {[]sqlstore.TrackedURL{url("a", 9, 0), url("b", 0, 1)}, []string{"b"}},
		"a clock that was ahead":              {[]sqlstore.TrackedURL{url("a", 9, -1)}, []string{}},
		"a clock that was far ahead":          {[]sqlstore.TrackedURL{url("a", 9, -30), url("c", 9, -2), url("b", 9, 2)}, []string{"b", "a", "c"}},
		"never inspected before all":          {[]sqlstore.TrackedURL{url("a", 1_000_000, 300), url("b", 0)}, []string{"b", "a"}},
		"never inspected by clicks, then URL": {[]sqlstore.TrackedURL{url("c", 1), url("a", 1), url("b", 2)}, []string{"b", "a", "c"}},
		"the stalest first":                   {[]sqlstore.TrackedURL{url("a", 5, 2), url("b", 5, 3)}, []string{"b", "a"}},
		"clicks add weight":                   {[]sqlstore.TrackedURL{url("a", 0, 3), url("b", 15, 1)}, []string{"b", "a"}},
		"age adds weight":                     {[]sqlstore.TrackedURL{url("a", 0, 6), url("b", 15, 1)}, []string{"a", "b"}},
		"ties by clicks, then URL":            {[]sqlstore.TrackedURL{url("c", 1, 2), url("a", 0, 4), url("b", 1, 2)}, []string{"b", "c", "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := []string{}
			for _, u := range plan(test.urls, today, day) {
				got = append(got, u.URL)
			}
			equal(t, "order", got, test.want)
		})
	}
}

// A daily quota of a tenth of the URLs is enough to inspect even those without clicks.
func TestPlanStarvesNoURL(t *testing.T) {
	const n, quota, days = 100, 10, 600
	day := func(t time.Time) translate.Date { return translate.Date(t.Unix() / 86400) }
	urls := make([]sqlstore.TrackedURL, n)
	for i := range urls {
		urls[i] = sqlstore.TrackedURL{URL: fmt.Sprintf("%03d", i), Clicks: int64(i * i)}
	}
	index := make(map[string]int, n)
	for i, u := range urls {
		index[u.URL] = i
	}
	longest := make([]translate.Date, n)
	for today := translate.Date(20_000); today < 20_000+days; today++ {
		for _, u := range plan(urls, today, day)[:quota] {
			i := index[u.URL]
			if u.InspectedAt != nil {
				longest[i] = max(longest[i], today-day(*u.InspectedAt))
			}
			at := today.Time()
			urls[i].InspectedAt = &at
		}
	}
	for i, u := range urls {
		if age := translate.Date(20_000+days-1) - day(*u.InspectedAt); max(age, longest[i]) > 200 {
			t.Errorf("%s with %d clicks waited %d days", u.URL, u.Clicks, max(age, longest[i]))
		}
	}
	if longest[0] <= longest[n-1] {
		t.Errorf("without clicks %d days, with the most %d", longest[0], longest[n-1])
	}
}

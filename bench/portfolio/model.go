package main

import (
	"time"

	"sara/policy"
)

// seriesTTL is how long a copy of a property's daily series answers without another call, for a range that may still change.
const seriesTTL = 10 * time.Minute

// The property of a request that is not about a single one.
const (
	allOfThem  = -1
	noneOfThem = -2
)

// A finished is when requests are done under a plan, and how many calls they cost.
type finished struct {
	after time.Duration // from the start
	calls int
}

// finish models one key that sends requests sequentially, each as soon as the plan's limits admit it, and returns when the last one
// is admitted. The limits are requests a minute, as a bucket that refills continuously; requests an hour and a day, by the clock;
// and live calls a day. A request about one of the properties, 0 to n-1, costs a call if there is no copy of its series from the last ten
// minutes; one about all of them, a call for each missing copy; one about none of them, none. Answers take no time.
func finish(p policy.Plan, begin time.Time, n int, requests []int) (f finished) {
	at, spent := begin, time.Time{} // spent: when the per-minute bucket is full again
	filled := make(map[int]time.Time)
	var hour, day int64
	inHour, inDay, callsInDay := 0, 0, 0
	each := time.Minute / time.Duration(p.RequestsPerMinutePerKey)
	for _, property := range requests {
		for {
			if h := at.Unix() / 3600; h != hour {
				hour, inHour = h, 0
			}
			if d := at.Unix() / 86400; d != day {
				day, inDay, callsInDay = d, 0, 0
			}
			needs := expired(filled, at, property, n)
			switch {
			case inDay >= p.RequestsPerDay || callsInDay+len(needs) > p.SearchConsoleCallsPerDay:
				at = time.Unix((day+1)*86400, 0)
				continue
			case inHour >= p.RequestsPerHour:
				at = time.Unix((hour+1)*3600, 0)
				continue
			}
			if spent.Before(at) {
				spent = at
			}
			if wait := spent.Add(each).Sub(at) - time.Minute; wait > 0 {
				at = at.Add(wait)
				continue
			}
			spent = spent.Add(each)
			inHour, inDay, callsInDay, f.calls = inHour+1, inDay+1, callsInDay+len(needs), f.calls+len(needs)
			for _, property := range needs {
				filled[property] = at
			}
			break
		}
	}
	f.after = at.Sub(begin)
	return f
}

// expired returns the properties for which a request costs a call.
func expired(filled map[int]time.Time, at time.Time, property, n int) (needs []int) {
	first, last := property, property
	switch property {
	case allOfThem:
		first, last = 0, n-1
	case noneOfThem:
		return nil
	}
	for p := first; p <= last; p++ {
		if t, ok := filled[p]; !ok || at.Sub(t) >= seriesTTL {
			needs = append(needs, p)
		}
	}
	return needs
}

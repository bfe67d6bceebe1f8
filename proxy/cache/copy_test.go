package cache

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sara/policy/redisconn"
	"sara/policy/redistest"
	"sara/translate"
)

// seriesQuery asks for the days of a year up to one.
func seriesQuery(last translate.Date) translate.Query {
	return translate.SeriesQuery("site", translate.DateRange{Start: last - 364, End: last}, nil)
}

// seriesRows returns a row for each of the last n days up to one.
func seriesRows(t *testing.T, last translate.Date, n int) *translate.Rows {
	t.Helper()
	var rows []string
	for d := last - translate.Date(n) + 1; d <= last; d++ {
		rows = append(rows, fmt.Sprintf(`{"keys":["%s"],"clicks":1,"impressions":10,"ctr":0.1,"position":2}`, d))
	}
	body := `{"responseAggregationType":"byProperty","rows":[` + strings.Join(rows, ",") + `]}`
	read, err := translate.ReadRows(strings.NewReader(body), translate.ByDate)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// wantAtHand checks how many days the copy at hand has, 0 for none, and the last day of its query.
func wantAtHand(t *testing.T, r *replica, shared bool, days int, last translate.Date, queries ...translate.Query) {
	t.Helper()
	entry, of := r.AtHand(t.Context(), shared, "p", "account", queries...)
	got := 0
	if entry != nil {
		got = entry.Rows().Len()
	}
	if got != days || of.Range.End != last {
		t.Errorf("a copy of %d days up to %s is at hand, want %d up to %s", got, of.Range.End, days, last)
	}
}

func TestAtHandLooksIntoRedisOnlyIfMemoryHasNoCopy(t *testing.T) {
	t.Parallel()
	redistest.OnBoth(t, func(t *testing.T, connect func() redisconn.Client) {
		client, clock := connect(), newClock()
		here, there := newReplica(t, client, clock), newReplica(t, connect(), clock)
		today := translate.NewDate(2026, 11, 18)
		now, before := seriesQuery(today), seriesQuery(today-1)
		wantAtHand(t, here, true, 0, 0, now, before)

		there.do(t, answering(seriesRows(t, today-1, 5)).request("p", before), Filled)
		there.settle()
		wantAtHand(t, here, false, 0, 0, now, before)
		wantAtHand(t, here, true, 5, today-1, now, before) // the window of the day before
		wantAtHand(t, here, false, 5, today-1, now, before)

		clock.advance(time.Minute)
		there.do(t, answering(seriesRows(t, today, 7)).request("p", now), Filled)
		there.settle()
		trips := new(roundTrips)
		client.AddHook(trips)
		wantAtHand(t, here, true, 5, today-1, now, before)
		if n := trips.trips.Load(); n != 0 {
			t.Errorf("%d round trips although memory has a copy", n)
		}
		wantAtHand(t, there, true, 7, today, now, before) // the newest
		wantAtHand(t, newReplica(t, connect(), clock), true, 7, today, now, before)
	})
}

func TestAtHandIsAtMostADayOld(t *testing.T) {
	server, clock := redistest.Single(t), newClock()
	day := translate.NewDate(2026, 11, 18)
	first := newReplica(t, server.Client(), clock)
	first.do(t, answering(seriesRows(t, day, 5)).request("p", seriesQuery(day)), Filled)
	first.settle()
	clock.advance(MaxStale - time.Second)
	second := newReplica(t, server.Client(), clock)
	for _, r := range []*replica{first, second} {
		wantAtHand(t, r, true, 5, day, seriesQuery(day))
	}
	clock.advance(time.Second)
	for _, r := range []*replica{first, second, newReplica(t, server.Client(), clock)} {
		wantAtHand(t, r, true, 0, 0, seriesQuery(day))
	}
}

// A copy in memory that is too old does not hide the one that another replica has filled since: at hand, or beside a request.
func TestCopyTooOldDoesNotHideThatOfAnotherReplica(t *testing.T) {
	connect, clock := redistest.Single(t).Client, newClock()
	here, there := newReplica(t, connect(), clock), newReplica(t, connect(), clock)
	today := translate.NewDate(2026, 11, 18)
	now, before := seriesQuery(today), seriesQuery(today-1)
	here.do(t, answering(seriesRows(t, today-1, 5)).request("p", before), Filled)
	here.do(t, answering(seriesRows(t, today-1, 5)).request("beside", before), Filled)
	here.settle()
	clock.advance(MaxStale)
	there.do(t, answering(seriesRows(t, today, 7)).request("p", now), Filled)
	there.do(t, answering(seriesRows(t, today-1, 6)).request("beside", before), Filled)
	there.settle()
	wantAtHand(t, here, true, 7, today, now, before)

	rows := answering(rowsOf(t, 3)).request("beside", narrow("a"))
	rows.Beside = &before
	here.do(t, rows, Filled)
	if entry, _ := here.AtHand(t.Context(), false, "beside", "account", before); entry == nil || entry.Rows().Len() != 6 {
		t.Errorf("the copy beside the rows is %+v, want that of the other replica", entry)
	}
}

func TestAtHandWithoutRedisIsNoError(t *testing.T) {
	server, clock := redistest.Single(t), newClock()
	day := translate.NewDate(2026, 11, 18)
	filled, empty := newReplica(t, server.Client(), clock), newReplica(t, server.Client(), clock)
	filled.do(t, answering(seriesRows(t, day, 5)).request("p", seriesQuery(day)), Filled)
	filled.settle()
	server.Stop()
	wantAtHand(t, filled, true, 5, day, seriesQuery(day))
	wantAtHand(t, empty, true, 0, 0, seriesQuery(day))
}

// A copy of the query beside a request is read in the round trip that looks for its rows, and only then.
func TestBesideComesAlongFromRedis(t *testing.T) {
	connect, clock := redistest.Single(t).Client, newClock()
	day := translate.NewDate(2026, 11, 18)
	series := seriesQuery(day)
	rows := answering(rowsOf(t, 3))
	with := func(q translate.Query) Request {
		r := rows.request("p", q)
		r.Beside = &series
		return r
	}
	there := newReplica(t, connect(), clock)
	there.do(t, answering(seriesRows(t, day, 5)).request("p", series), Filled)
	there.do(t, rows.request("p", narrow("a")), Filled)
	there.do(t, rows.request("p", narrow("b")), Filled)
	there.settle()

	client, trips := connect(), new(roundTrips)
	here := newReplica(t, client, clock)
	here.do(t, rows.request("p", narrow("a")), HitShared) // without it
	client.AddHook(trips)
	here.do(t, with(narrow("a")), HitMemory)
	wantAtHand(t, here, false, 0, 0, series)
	if n := trips.trips.Load(); n != 0 {
		t.Errorf("%d round trips for rows that memory has", n)
	}

	here.do(t, with(narrow("b")), HitShared)
	wantAtHand(t, here, false, 5, day, series)
	if n := trips.trips.Load(); n != 1 {
		t.Errorf("%d round trips, want 1 for both", n)
	}

	missing := newReplica(t, connect(), clock)
	missing.do(t, with(narrow("c")), Filled) // along with a miss
	wantAtHand(t, missing, false, 5, day, series)
	series = seriesQuery(day + 1)
	missing.do(t, with(narrow("d")), Filled) // there is none
	wantAtHand(t, missing, false, 0, 0, series)
	rows.want(t, 4)
}

package proxy

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sara/archive"
	"sara/proxy/upstream/gscsim"
	"sara/translate"
)

// Every sentence of the notes on days that are not known, through the real server.

const (
	mainSite  = "sc-domain:example.com"
	lateDay   = "Search Console has not published 2026-11-19 yet."
	lateDays  = "Search Console has not published 2026-11-18 and 2026-11-19 yet."
	lateTwice = "2 of 7 days are missing on one side: both periods are compared over the other 5."
)

// late returns a world whose site has published nothing after a day.
func late(t *testing.T, last string, adjust ...func(*Config)) *world {
	t.Helper()
	w := newWorld(t, adjust...)
	w.must(w.sim.SetPublished(mainSite, last))
	return w
}

func wantNote(t *testing.T, r response, want ...string) {
	t.Helper()
	list, _ := r.meta()["notes"].([]any)
	var got []string
	for _, note := range list {
		got = append(got, note.(string))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the notes are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTimeseries200NotPublishedDaysAreLeftOut(t *testing.T) {
	t.Parallel()
	w := late(t, "2026-11-17")
	r := w.get("pro", w.path("main", "/timeseries"), "date_range", "last_7d").ok(t)
	wantRows(t, "days", r.rows(), "date", w.oracle().ask(t, mainSite, "date", "2026-11-13", "2026-11-17", 100))
	wantNote(t, r, lateDays)
	if r.meta()["row_count"] != 5.0 || r.meta()["source"] != "live" {
		t.Errorf("meta is %v", r.meta())
	}
	wantNote(t, w.get("pro", w.path("main", "/timeseries"), "start_date", "2026-11-01", "end_date", "2026-11-17").ok(t))
}

func TestSummary200NotPublishedDaysCountInNoTotal(t *testing.T) {
	t.Parallel()
	w := late(t, "2026-11-17")
	r := w.get("pro", w.path("main", "/summary"), "date_range", "last_7d", "compare", "previous_period").ok(t)
	o := w.oracle()
	wantMetrics(t, "totals", r.data()["totals"], o.total(t, mainSite, "2026-11-13", "2026-11-17"))
	wantMetrics(t, "previous", r.data()["previous"], o.total(t, mainSite, "2026-11-06", "2026-11-10"))
	wantNote(t, r, lateDays, lateTwice)
	if previous := r.data()["previous"].(map[string]any); previous["start_date"] != "2026-11-06" || previous["end_date"] != "2026-11-12" {
		t.Errorf("previous is %v", previous)
	}
}

func TestEveryPerformanceEndpoint200NothingPublished(t *testing.T) {
	t.Parallel()
	w := late(t, "2026-11-17")
	w.get("pro", w.path("main", "/timeseries")).ok(t)
	dates := []string{"start_date", "2026-11-18", "end_date", "2026-11-19"}
	for _, endpoint := range performanceEndpoints() {
		r := w.get("pro", w.path("main", endpoint), dates...).ok(t)
		wantNote(t, r, lateDays)
		if n := r.meta()["row_count"]; n != 0.0 && endpoint != "/summary" {
			t.Errorf("%s has %v rows", endpoint, n)
		}
	}
	r := w.get("pro", w.path("main", "/summary"), append(dates, "compare", "previous_period")...).ok(t)
	wantMetrics(t, "totals", r.data()["totals"], figure{})
	wantMetrics(t, "previous", r.data()["previous"], figure{})
	wantNote(t, r, lateDays)
}

func TestTimeseries200DaysWithoutTraffic(t *testing.T) {
	t.Parallel()
	w := late(t, "2026-11-13") // six days before the anchor
	r := w.get("pro", w.path("main", "/timeseries"), "date_range", "last_7d").ok(t)
	wantNote(t, r)
	if len(r.rows()) != 7 {
		t.Errorf("%d rows", len(r.rows()))
	}
	w = newWorld(t)
	// A hole, eight days before the last:
	w.answerWith(series(map[string]int{"2026-11-16": 1, "2026-11-17": 4}, "2026-11-01", "2026-11-17", "2026-11-09"))
	r = w.get("pro", w.path("main", "/timeseries"), "date_range", "last_7d").ok(t)
	wantNote(t, r)
	if len(r.rows()) != 7 {
		t.Errorf("%d rows", len(r.rows()))
	}
}

// series answers every query by date with the clicks of days from start to end but one: 10, or those named.
func series(clicks map[string]int, start, end, without string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		var rows []string
		for day := start; day <= end; {
			n, named := clicks[day]
			if !named {
				n = 10
			}
			if day != without {
				rows = append(rows, fmt.Sprintf(`{"keys":[%q],"clicks":%d,"impressions":100,"ctr":0.1,"position":2}`, day, n))
			}
			at, err := time.Parse(time.DateOnly, day)
			if err != nil {
				panic(err)
			}
			day = at.AddDate(0, 0, 1).Format(time.DateOnly)
		}
		mustWrite(rw, `{"rows":[`+strings.Join(rows, ",")+`],"responseAggregationType":"byProperty"}`)
	}
}

// Like with like: the days of a comparison are known on both sides.
func TestSummary200ComparesTheSameDays(t *testing.T) {
	t.Parallel()
	history, keeping := kept(t)
	w := newWorld(t, keeping)
	c := w.chronicle(history, "disconnected", "sc-domain:twin.example")
	c.keep(t, "2026-09-25", "2026-10-31")
	r := w.get("pro", w.path("disconnected", "/summary"), "compare", "previous_period").ok(t)
	wantMetrics(t, "totals", r.data()["totals"], c.total(t, "2026-10-23", "2026-10-31", never))
	wantMetrics(t, "previous", r.data()["previous"], c.total(t, "2026-09-25", "2026-10-03", never))
	wantText(t, "notes", notes(r), "19 days are not archived and not counted: 2026-11-01 to 2026-11-19.",
		"19 of 28 days are missing on one side: both periods are compared over the other 9.")
}

func TestSummary400NoDayInCommon(t *testing.T) {
	t.Parallel()
	history, keeping := kept(t)
	w := newWorld(t, keeping)
	c := w.chronicle(history, "archived", "sc-domain:archived.example")
	c.keep(t, "2026-10-02", "2026-10-02")
	c.keep(t, "2026-10-04", "2026-10-04")
	get := func(endpoint string) response {
		return w.get("pro", w.path("archived", endpoint), "start_date", "2026-10-03", "end_date", "2026-10-04", "compare", "previous_period")
	}
	get("/summary").ok(t)
	c.keep(t, "2026-10-06", "2026-10-06")
	w.get("pro", w.path("archived", "/summary"), "start_date", "2026-10-06", "end_date", "2026-10-08", "compare", "previous_period").
		want(t, http.StatusBadRequest, codeValidation, "has 2026-10-06", "has 2026-10-04", "2026-10-03 to 2026-10-05")
	w.get("pro", w.path("archived", "/summary"), "start_date", "2026-10-20", "end_date", "2026-10-21").
		want(t, http.StatusBadRequest, codeValidation, "its last stored day is 2026-10-06")
}

func TestMovers200NeverMixesLiveAndArchivedRows(t *testing.T) {
	t.Parallel()
	history, keeping := kept(t)
	w := newWorld(t, keeping)
	c := w.chronicle(history, "main", mainSite)
	dates := []string{"start_date", "2025-07-25", "end_date", "2025-07-30"} // before it: 2025-07-19 to 2025-07-24
	path := w.path("main", "/movers/queries")

	r := w.get("pro", path, dates...).ok(t)
	gainers, _ := naiveMovers(c.o.ask(t, mainSite, "query", "2025-07-26", "2025-07-30", 25000),
		c.o.ask(t, mainSite, "query", "2025-07-20", "2025-07-24", 25000), 0, 10)
	wantMovers(t, "gainers of live days", r.data()["gainers"], gainers)
	if r.meta()["source"] != "hybrid" { // the figures of live days, but not of all days
		t.Errorf("meta is %v", r.meta())
	}
	wantText(t, "notes", notes(r), "1 of 6 days is missing on one side: both periods are compared over the other 5.")

	c.keep(t, "2025-07-19", "2025-07-21")
	c.keep(t, "2025-07-25", "2025-07-30")
	w.advance(freshArchived)
	r = w.get("pro", path, dates...).ok(t)
	gainers, _ = naiveMovers(c.want(t, "query", "2025-07-25", "2025-07-27", never), c.want(t, "query", "2025-07-19", "2025-07-21", never), 0, 10)
	wantMovers(t, "gainers of archived days", r.data()["gainers"], gainers)
	wantSource(t, r, "stored")
	wantText(t, "notes", notes(r), "which keeps the 100 queries with the most clicks of each day", "3 of 6 days are missing on one side")
}

// The far edge: what the upstream no longer has comes from the archive.
func TestTimeseries200ArchivedDaysAtTheFarEdge(t *testing.T) {
	t.Parallel()
	history, keeping := kept(t)
	w := newWorld(t, keeping)
	c := w.chronicle(history, "main", mainSite)
	c.keep(t, "2025-07-18", "2025-07-22")
	o := w.oracle()
	lost := o.ask(t, mainSite, "date", "2025-07-23", "2026-11-19", 1000)
	w.answerWith(func(rw http.ResponseWriter, r *http.Request) {
		q, err := readQuestion(r)
		if err != nil {
			panic(err)
		}
		if q.StartDate == "2025-07-20" { // the series
			var rows []string
			for _, row := range lost {
				rows = append(rows, fmt.Sprintf(`{"keys":[%q],"clicks":%v,"impressions":%v,"ctr":%v,"position":%v}`, row.Keys[0], row.Clicks,
					row.Impressions, row.CTR, row.Position))
			}
			mustWrite(rw, `{"rows":[`+strings.Join(rows, ",")+`],"responseAggregationType":"byProperty"}`)
			return
		}
		mustWrite(rw, `{"rows":[{"keys":["`+q.StartDate+` to `+q.EndDate+
			`"],"clicks":1,"impressions":2,"ctr":0.5,"position":1}],"responseAggregationType":"byProperty"}`)
	})
	dates := []string{"start_date", "2025-07-20", "end_date", "2025-07-25"}
	r := w.get("pro", w.path("main", "/timeseries"), dates...).ok(t)
	wantRows(t, "days", r.rows(), "date", o.ask(t, mainSite, "date", "2025-07-20", "2025-07-25", 100))
	wantSource(t, r, "hybrid")

	r = w.get("pro", w.path("main", "/queries"), append(dates, "limit", "1000")...).ok(t)
	wantSource(t, r, "hybrid")
	if !strings.Contains(string(r.body), `"2025-07-23 to 2025-07-25"`) {
		t.Errorf("the live rows are of other days: %s", r.body)
	}
	whole := w.get("pro", w.path("main", "/timeseries"), "start_date", "2025-07-20", "end_date", "2025-07-22").ok(t)
	wantSource(t, whole, "stored")
	wantRows(t, "days", whole.rows(), "date", o.ask(t, mainSite, "date", "2025-07-20", "2025-07-22", 100))
	if d := w.get("pro", w.path("main", "")).ok(t).data()["data_window"].(map[string]any); d["earliest_data_date"] != "2025-07-18" {
		t.Errorf("data_window is %v", d)
	}
}

// Days before the first figure of a young site are zeros, even if they are archived as days without traffic.
func TestTimeseries200YoungSite(t *testing.T) {
	t.Parallel()
	history, keeping := kept(t)
	w := newWorld(t, keeping)
	var days []archive.Day
	for day := *dateOf(t, "2025-07-20"); day < *dateOf(t, "2026-11-01"); day++ {
		days = append(days, archive.Day{Date: day, Dimension: translate.ByDate, Final: true, Rows: new(translate.Rows)})
	}
	w.must(history.Merge(t.Context(), w.properties["main"].ID, days))
	w.chronicle(history, "main", mainSite).keep(t, "2026-11-01", "2026-11-03")
	w.answerWith(series(nil, "2026-11-01", "2026-11-19", ""))
	const begins = "Search Console's figures of this property begin on 2026-11-01."
	r := w.get("pro", w.path("main", "/timeseries")).ok(t)
	wantNote(t, r, begins)
	if len(r.rows()) != 28 || r.meta()["source"] != "live" {
		t.Errorf("%d rows, meta %v", len(r.rows()), r.meta())
	}
	wantMetrics(t, "the first day", r.rows()[0], figure{})
	wantNote(t, w.get("pro", w.path("main", "/timeseries"), "date_range", "last_7d").ok(t))
	if d := w.get("pro", w.path("main", "")).ok(t).data()["data_window"].(map[string]any); d["earliest_data_date"] != "2026-11-01" {
		t.Errorf("data_window is %v", d)
	}
}

func TestSummary200FailedUpstreamNamesTheDaysThatTheArchiveLacks(t *testing.T) {
	t.Parallel()
	history, keeping := kept(t)
	w := newWorld(t, keeping)
	c := w.chronicle(history, "main", mainSite)
	c.keep(t, "2026-11-01", "2026-11-15")
	w.faults(gscsim.Faults{Status: 503})
	r := w.get("pro", w.path("main", "/summary"), "date_range", "last_7d", "compare", "previous_period").ok(t)
	wantMetrics(t, "totals", r.data()["totals"], c.total(t, "2026-11-13", "2026-11-15", never))
	wantMetrics(t, "previous", r.data()["previous"], c.total(t, "2026-11-06", "2026-11-08", never))
	wantText(t, "notes", notes(r), "4 days are not archived and not counted: 2026-11-16 to 2026-11-19.",
		"4 of 7 days are missing on one side: both periods are compared over the other 3.")
	r = w.get("pro", w.path("main", "/summary"), "start_date", "2026-10-31", "end_date", "2026-11-06").ok(t)
	if strings.Contains(notes(r), "begin") { // of a day that is not archived, this is not known
		t.Errorf("notes %s", notes(r))
	}
}

func TestSummary200FiltersThatDoNotAddUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	get := func(dimension, value string) response {
		return w.get("pro", w.path("main", "/summary"), "filters", filtersOf(dimension, "is", value)).ok(t)
	}
	const byPage = "Search Console counts by page where a filter names pages: these figures do not add up to the unfiltered totals."
	wantNote(t, get("page_group", "Blog"), byPage)
	wantNote(t, get("brand", "brand"),
		"Brand and non-brand figures do not add up to the total: Search Console withholds rare queries, which are in neither.")
	wantNote(t, get("device", "mobile"))
}

func TestBreakdown200HasMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, order := range []string{"-clicks", "key"} {
		for limit, want := range map[string]bool{"2": true, "3": false, "4": false} {
			r := w.get("pro", w.path("main", "/devices"), "limit", limit, "order_by", order).ok(t)
			if r.meta()["has_more"] != want {
				t.Errorf("limit %s by %s: has_more is %v", limit, order, r.meta()["has_more"])
			}
		}
	}
}

// When the anchor lies in another month or year than today, a note says which one a preset means.
func TestTimeseries200PresetsAtAMonthsEdge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct{ at, preset, note string }{
		{"2026-12-02T12:00:00Z", "month_to_date", "month_to_date is relative to the last day with final data, 2026-11-30, so it covers November 2026."},
		{"2026-12-02T12:00:00Z", "previous_month", "previous_month is relative to the last day with final data, 2026-11-30, so it covers October 2026."},
		{"2026-12-02T12:00:00Z", "year_to_date", ""},
		{"2026-12-03T12:00:00Z", "month_to_date", ""},
		{"2027-01-02T12:00:00Z", "year_to_date", "year_to_date is relative to the last day with final data, 2026-12-31, so it covers 2026."},
		{"2027-01-02T12:00:00Z", "last_7d", ""},
	} {
		w.setClock(c.at)
		r := w.get("pro", w.path("prefix", "/timeseries"), "date_range", c.preset).ok(t)
		if notes(r) != c.note {
			t.Errorf("%s at %s: notes %q", c.preset, c.at, notes(r))
		}
	}
}

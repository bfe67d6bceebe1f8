package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sara/archive"
	"sara/archive/bucket/s3test"
	"sara/archive/sqlstore"
	"sara/policy"
	"sara/proxy/openapi"
	"sara/proxy/upstream/gscsim"
	"sara/translate"
)

// wantSource checks the source that an answer names.
func wantSource(t *testing.T, r response, source string) {
	t.Helper()
	if r.meta()["source"] != source || r.meta()["stale_reason"] != nil {
		t.Errorf("source %v, stale_reason %v; want %s", r.meta()["source"], r.meta()["stale_reason"], source)
	}
	if archived := strings.Contains(notes(r), "archive"); archived != (source != "live") {
		t.Errorf("source %s with the notes %q", source, notes(r))
	}
}

// Every endpoint, over ranges before, across and within the live window, combines the archived days and the upstream's rows of
// the rest.
func TestEveryPerformanceEndpoint200Stored(t *testing.T) {
	t.Parallel()
	testStored(t, t.TempDir())
}

// Not parallel: the credentials of the store are in the environment of the process.
func TestEveryPerformanceEndpoint200StoredInS3(t *testing.T) {
	testStored(t, s3test.Start(t).NewBucket(t))
}

func testStored(t *testing.T, location string) {
	t.Helper()
	history, keeping := keptIn(t, location)
	w := newWorld(t, keeping)
	c := w.chronicle(history, "prefix", "https://www.example.org/shop/")
	c.keep(t, "2025-06-20", "2025-07-22")
	for _, r := range []struct {
		start, end, source string
		calls              int64
	}{
		{"2025-07-01", "2025-07-10", "stored", 0},
		{"2025-07-15", "2025-07-19", "stored", 0},
		{"2025-07-15", "2025-07-20", "hybrid", 1},
		{"2025-07-16", "2025-07-25", "hybrid", 1},
		{"2025-07-20", "2025-07-25", "live", 1},
	} {
		dates := []string{"start_date", r.start, "end_date", r.end}
		name := r.start + " to " + r.end
		w.run("summary "+name, func(t *testing.T) {
			s := w.get("pro", w.path("prefix", "/summary"), dates...).ok(t)
			wantMetrics(t, "totals", s.data()["totals"], c.total(t, r.start, r.end, liveFrom))
			wantSource(t, s, r.source)
		})
		w.run("timeseries "+name, func(t *testing.T) {
			s := w.get("pro", w.path("prefix", "/timeseries"), dates...).ok(t)
			want := c.want(t, "date", r.start, r.end, liveFrom)
			slices.SortFunc(want, func(a, b figure) int { return cmp.Compare(a.Keys[0], b.Keys[0]) })
			wantRows(t, "days", s.rows(), "date", want)
			wantSource(t, s, r.source)
		})
		for endpoint, by := range breakdowns() {
			w.run(endpoint+" "+name, func(t *testing.T) {
				all := c.want(t, by, r.start, r.end, liveFrom)
				for _, order := range []string{"-clicks", "position", "-key"} {
					for _, limit := range []int{5, 1000} {
						want := rank(all, order)
						s := w.get("pro", w.path("prefix", endpoint), append(dates, "order_by", order, "limit", strconv.Itoa(limit))...).ok(t)
						wantRows(t, endpoint, s.rows(), "key", want[:min(limit, len(want))])
						wantSource(t, s, r.source)
						w.wantTruncated(t, s, c, by, r.start, min(r.end, "2025-07-19"), order == "-clicks" && len(all) > limit)
					}
				}
			})
		}
	}
	for _, r := range []struct{ start, end, source string }{
		{"2025-07-08", "2025-07-14", "stored"}, {"2025-07-18", "2025-07-22", "hybrid"}, {"2025-07-20", "2025-07-24", "hybrid"},
		{"2025-07-25", "2025-07-29", "live"},
	} {
		w.run("summary compared "+r.start+" to "+r.end, func(t *testing.T) {
			period := translate.Period{DateRange: translate.DateRange{Start: *dateOf(t, r.start), End: *dateOf(t, r.end)}}
			previous := period.Previous()
			s := w.get("pro", w.path("prefix", "/summary"), "start_date", r.start, "end_date", r.end, "compare", "previous_period").ok(t)
			wantMetrics(t, "totals", s.data()["totals"], c.total(t, r.start, r.end, liveFrom))
			wantMetrics(t, "previous", s.data()["previous"], c.total(t, previous.Start.String(), previous.End.String(), liveFrom))
			wantSource(t, s, r.source)
		})
	}
	for endpoint, by := range map[string]string{"/movers/queries": "query", "/movers/pages": "page"} {
		for _, r := range []struct{ start, end, source, live string }{
			{"2025-07-08", "2025-07-14", "stored", never}, {"2025-07-18", "2025-07-21", "stored", never}, {"2025-07-20", "2025-07-22", "stored", never},
			{"2025-07-25", "2025-07-29", "live", liveFrom},
		} {
			w.run(endpoint+" "+r.start+" to "+r.end, func(t *testing.T) {
				period := translate.Period{DateRange: translate.DateRange{Start: *dateOf(t, r.start), End: *dateOf(t, r.end)}}
				previous := period.Previous()
				gainers, losers := naiveMovers(c.want(t, by, r.start, r.end, r.live),
					c.want(t, by, previous.Start.String(), previous.End.String(), r.live), 0, 10)
				s := w.get("pro", w.path("prefix", endpoint), "start_date", r.start, "end_date", r.end).ok(t)
				wantMovers(t, "gainers", s.data()["gainers"], gainers)
				wantMovers(t, "losers", s.data()["losers"], losers)
				wantSource(t, s, r.source)
			})
		}
	}
}

// wantTruncated checks truncated_by: rows are missing if the limit dropped them, or if a day of the archive is full.
func (w *world) wantTruncated(t *testing.T, r response, c *chronicle, by, start, end string, cut bool) {
	t.Helper()
	if by == "query" || by == "page" {
		for day := *dateOf(t, start); day <= *dateOf(t, end); day++ {
			cut = cut || len(c.days[by][day]) == archive.TopRows
		}
	}
	var want any
	if cut {
		want = "clicks"
	}
	if r.meta()["truncated_by"] != want {
		t.Errorf("truncated_by is %v, want %v", r.meta()["truncated_by"], want)
	}
}

// A hybrid answer costs one upstream call, whose rows serve the next request too.
func TestQueries200HybridCalls(t *testing.T) {
	t.Parallel()
	history, keeping := kept(t)
	w := newWorld(t, keeping)
	w.chronicle(history, "prefix", "https://www.example.org/shop/").keep(t, "2025-07-10", "2025-07-19")
	hybrid := []string{"start_date", "2025-07-10", "end_date", "2025-07-25"}
	w.wantCacheStatus(t, "miss", 1, w.path("prefix", "/queries"), hybrid...)
	w.wantCacheStatus(t, "hit", 0, w.path("prefix", "/queries"), hybrid...)
	w.wantCacheStatus(t, "hit", 0, w.path("prefix", "/queries"), append(hybrid, "order_by", "key")...)
	w.wantCacheStatus(t, "miss", 1, w.path("prefix", "/summary"), append(hybrid, "compare", "none")...)
	w.wantCacheStatus(t, "hit", 0, w.path("prefix", "/summary"))
	stored := []string{"start_date", "2025-07-10", "end_date", "2025-07-15"}
	w.wantCacheStatus(t, "miss", 0, w.path("prefix", "/queries"), stored...)
	w.wantCacheStatus(t, "hit", 0, w.path("prefix", "/queries"), stored...)
}

// Missing days are counted and named; a range without any archived day is refused.
func TestSummary200MissingDays(t *testing.T) {
	t.Parallel()
	history, keeping := kept(t)
	w := newWorld(t, keeping)
	c := w.chronicle(history, "main", "sc-domain:example.com")
	for _, stretch := range [][2]string{{"2025-06-20", "2025-06-30"}, {"2025-07-04", "2025-07-06"}, {"2025-07-08", "2025-07-19"}} {
		c.keep(t, stretch[0], stretch[1])
	}
	r := w.get("pro", w.path("main", "/summary"), "start_date", "2025-06-25", "end_date", "2025-07-25").ok(t)
	wantMetrics(t, "totals", r.data()["totals"], c.total(t, "2025-06-25", "2025-07-25", liveFrom))
	wantSource(t, r, "hybrid")
	if want := "4 days are not archived and not counted: 2025-07-01 to 2025-07-03, 2025-07-07."; !strings.Contains(notes(r), want) {
		t.Errorf("the notes %q do not say %q", notes(r), want)
	}
	get := func(endpoint, start, end string, more ...string) response {
		return w.get("pro", w.path("main", endpoint), append([]string{"start_date", start, "end_date", end}, more...)...)
	}
	get("/summary", "2025-07-01", "2025-07-03").want(t, http.StatusBadRequest, codeValidation,
		"there are no figures from 2025-07-01 to 2025-07-03: the archive has days from 2025-06-20 to 2025-07-19, with gaps")
	get("/summary", "2025-07-07", "2025-07-07").want(t, http.StatusBadRequest, codeValidation, "there are no figures on 2025-07-07: the archive has")
	get("/queries", "2025-06-01", "2025-06-19").want(t, http.StatusBadRequest, codeTooOld, "2025-06-20")
	get("/summary", "2025-06-20", "2025-06-22", "compare", "previous_period").want(t, http.StatusBadRequest, codeTooOld,
		"there are no figures from 2025-06-17 to 2025-06-19: the first available day is 2025-06-20, so that periods of as many days can be compared from 2025-06-23 on")
	get("/movers/pages", "2025-06-20", "2025-06-22").want(t, http.StatusBadRequest, codeTooOld, "2025-06-20")
	get("/movers/pages", "2025-07-20", "2025-07-26").want(t, http.StatusBadRequest, codeValidation,
		"there are no archived figures from 2025-07-20 to 2025-07-26: the archive has days from 2025-06-20 to 2025-07-19; movers compare archived days only with archived days")
	get("/movers/queries", "2025-07-19", "2025-07-30").want(t, http.StatusBadRequest, codeValidation, "no day can be compared",
		"only with archived days")
	get("/summary", "2022-01-01", "2022-01-31").want(t, http.StatusBadRequest, codeTooOld, "2023-11-20") // the plan's own limit
	for _, endpoint := range []string{"/summary", "/timeseries", "/queries"} {
		for _, start := range []string{"2025-06-25", "2025-07-15"} {
			get(endpoint, start, "2025-07-25", "filters", filtersOf("device", "is", "mobile")).
				want(t, http.StatusServiceUnavailable, openapi.CodeFilteredUnavailable)
		}
	}
	get("/summary", "2025-06-25", "2025-06-30").ok(t)

	// This property has no archived day, so no note mentions the archive.
	r = w.get("pro", w.path("prefix", "/timeseries"), "start_date", "2025-07-18", "end_date", "2025-07-21").ok(t)
	if want := "2 days are not archived and not counted: 2025-07-18 to 2025-07-19."; notes(r) != want {
		t.Errorf("the notes are %q, not %q", notes(r), want)
	}
}

// Archived days from before those that the plan keeps, as an import can have, are not days that can be had: no error names them, and no data
// window reaches into the gap after them.
func TestSummary400OlderThanThePlan(t *testing.T) {
	t.Parallel()
	history, keeping := kept(t)
	w := newWorld(t, keeping)
	for _, property := range []string{"main", "archived"} {
		c := w.chronicle(history, property, w.properties[property].Site)
		c.keep(t, "2020-01-01", "2020-01-03")
		c.keep(t, "2025-06-20", "2025-07-19")
		w.must(w.store.SaveArchiveState(context.Background(), sqlstore.ArchiveState{PropertyID: w.properties[property].ID,
			First: dateOf(t, "2020-01-01"), Last: dateOf(t, "2025-07-19")}))
	}
	w.advance(2 * time.Second) // until the properties are looked up again
	for property, latest := range map[string]string{"main": "2026-11-19", "archived": "2025-07-19"} {
		window := w.get("pro", w.path(property, "")).ok(t).data()["data_window"].(map[string]any)
		if window["earliest_data_date"] != "2025-06-20" || window["latest_data_date"] != latest {
			t.Errorf("%s: the data window is %v", property, window)
		}
		for _, endpoint := range []string{"/summary", "/timeseries", "/queries", "/movers/pages"} {
			w.get("pro", w.path(property, endpoint), "start_date", "2025-06-01", "end_date", "2025-06-10").
				want(t, http.StatusBadRequest, codeTooOld, "the first available day is 2025-06-20")
		}
	}
	w.chronicle(history, "prefix", "https://www.example.org/shop/").keep(t, "2020-01-01", "2020-01-03")
	_, err := w.store.SetArchived(context.Background(), w.properties["prefix"].ID, true)
	w.must(err)
	w.advance(2 * time.Second)
	w.get("pro", w.path("prefix", "/summary"), "start_date", "2025-06-01", "end_date", "2025-06-10").
		want(t, http.StatusBadRequest, codeValidation, "no day that the plan keeps is stored")
}

// Days that were archived without totals get the totals of their devices.
func TestTimeseries200AddedUp(t *testing.T) {
	t.Parallel()
	history, keeping := kept(t)
	w := newWorld(t, keeping)
	o := w.elder()
	id := w.properties["prefix"].ID
	var days []archive.Day
	for day := *dateOf(t, "2025-07-01"); day <= *dateOf(t, "2025-07-05"); day++ {
		rows := o.ask(t, "https://www.example.org/shop/", "device", day.String(), day.String(), 100)
		days = append(days, archive.Day{Date: day, Dimension: translate.ByDevice, Rows: rowsOf(rows), Final: true})
	}
	w.must(history.Merge(context.Background(), id, days))
	r := w.get("pro", w.path("prefix", "/timeseries"), "start_date", "2025-07-01", "end_date", "2025-07-06").ok(t)
	want := o.ask(t, "https://www.example.org/shop/", "date", "2025-07-01", "2025-07-05", 100)
	wantRows(t, "days", r.rows(), "date", want)
	for _, note := range []string{"5 days were archived without totals", "1 day is not archived and not counted: 2025-07-06."} {
		if !strings.Contains(notes(r), note) {
			t.Errorf("the notes %q do not say %q", notes(r), note)
		}
	}
}

// Archived and disconnected properties are answered from the archive, the latter with the reason.
func TestEveryPerformanceEndpoint200ArchivedOrDisconnected(t *testing.T) {
	t.Parallel()
	history, keeping := kept(t)
	w := newWorld(t, keeping)
	for property, site := range map[string]string{"archived": "sc-domain:archived.example", "disconnected": "sc-domain:twin.example"} {
		c := w.chronicle(history, property, site) // the reference only has to have days
		c.keep(t, "2026-11-01", "2026-11-15")
		for _, endpoint := range performanceEndpoints() {
			w.run(property+endpoint, func(t *testing.T) {
				calls := w.calls(func() {
					for _, word := range []string{"miss", "hit"} {
						r := w.get("pro", w.path(property, endpoint), "start_date", "2026-11-08", "end_date", "2026-11-14").ok(t)
						if r.meta()["cache"] != word {
							t.Errorf("meta.cache is %v, want %s", r.meta()["cache"], word)
						}
						if reason := r.meta()["stale_reason"]; r.meta()["source"] != "stored" || (reason != nil) != (property == "disconnected") {
							t.Errorf("meta is %v", r.meta())
						}
					}
				})
				if calls != 0 {
					t.Errorf("%d upstream calls", calls)
				}
			})
		}
		w.run(property+" summary", func(t *testing.T) {
			r := w.get("pro", w.path(property, "/summary"), "date_range", "last_28d").ok(t)
			wantMetrics(t, "totals", r.data()["totals"], c.total(t, "2026-10-23", "2026-11-19", never))
			for _, note := range []string{"13 days are not archived", "The days up to 2026-11-15 come from the archive, with the totals of each day."} {
				if !strings.Contains(notes(r), note) {
					t.Errorf("the notes %q do not say %q", notes(r), note)
				}
			}
			w.get("pro", w.path(property, "/summary"), "filters", filtersOf("device", "is", "mobile")).
				want(t, http.StatusServiceUnavailable, openapi.CodeFilteredUnavailable)
		})
	}
}

// If the upstream fails and there is no copy, the archive answers.
func TestSummary200ArchiveForAnUpstreamThatFails(t *testing.T) {
	t.Parallel()
	history, keeping := kept(t)
	w := newWorld(t, keeping)
	c := w.chronicle(history, "prefix", "https://www.example.org/shop/")
	c.keep(t, "2026-11-01", "2026-11-15")
	for name, fault := range map[string]gscsim.Faults{"503": {Status: 503}, "forbidden": {Reason: "forbidden"},
		"quotaExceeded": {Reason: "quotaExceeded"}} {
		w.run(name, func(t *testing.T) {
			w.advance(15 * time.Minute) // until cached refusals expire
			w.faults(fault)
			r := w.get("pro", w.path("prefix", "/summary"), "start_date", "2026-11-01", "end_date", "2026-11-19").ok(t)
			wantMetrics(t, "totals", r.data()["totals"], c.total(t, "2026-11-01", "2026-11-19", never))
			if r.meta()["source"] != "stored" || r.meta()["stale_reason"] == nil || !strings.Contains(notes(r), "4 days are not archived") {
				t.Errorf("meta is %v", r.meta())
			}
			status, code := http.StatusServiceUnavailable, openapi.CodeUpstreamUnavailable
			if name == "quotaExceeded" {
				status, code = http.StatusTooManyRequests, policy.CodeUpstreamQuota
			}
			w.get("pro", w.path("prefix", "/summary"), "start_date", "2026-10-01", "end_date", "2026-10-19").want(t, status, code)
		})
	}
	w.get("pro", w.path("prefix", "/summary"), "start_date", "2025-06-01", "end_date", "2025-06-03").want(t, http.StatusBadRequest, codeTooOld,
		"the first available day is "+liveFrom)
	w.advance(15 * time.Minute)
	w.faults(gscsim.Faults{Status: http.StatusBadRequest}) // the question is wrong
	w.get("pro", w.path("prefix", "/summary"), "start_date", "2026-11-01", "end_date", "2026-11-19").want(t, http.StatusBadRequest, codeValidation)
	w.faults(gscsim.Faults{})
}

// brokenHistory is an archive that cannot be read.
type brokenHistory struct{}

func (brokenHistory) Read(context.Context, string, translate.Dimension, translate.DateRange, int) (archive.Result, error) {
	return archive.Result{}, errors.New("no such bucket")
}

func (brokenHistory) Sum(context.Context, string, translate.Dimension, translate.DateRange) (archive.Result, error) {
	return archive.Result{}, errors.New("no such bucket")
}

func (brokenHistory) Missing(context.Context, string, translate.Dimension, translate.DateRange) ([]translate.Date, *archive.DamageError, error) {
	return nil, nil, errors.New("no such bucket")
}

func (brokenHistory) Bounds(context.Context, string, translate.Dimension, date) (translate.DateRange, bool, error) {
	return translate.DateRange{}, false, errors.New("no such bucket")
}

func (brokenHistory) Version(context.Context, string) (uint64, error) {
	return 0, errors.New("no such bucket")
}

func (brokenHistory) Begins(context.Context, string, translate.Date) (translate.Date, bool, error) {
	return 0, false, errors.New("no such bucket")
}

// An answer with stored figures stays ready until the archive changes.
func TestQueries200StoredAnswersStayReadyUntilTheArchiveChanges(t *testing.T) {
	t.Parallel()
	history, keeping := kept(t)
	w := newWorld(t, keeping)
	stored, hybrid := w.chronicle(history, "archived", "sc-domain:archived.example"), w.chronicle(history, "main", mainSite)
	for _, test := range []struct {
		c           *chronicle
		calls       int64
		first, last string // of the archive
		end         string // of the request
		built       string // the status of an answer that is built again: a hybrid one has its live rows in memory
	}{{stored, 0, "2026-10-02", "2026-10-04", "2026-10-06", "miss"}, {hybrid, 1, "2025-07-14", "2025-07-17", "2025-08-10", "hit"}} {
		test.c.keep(t, test.first, test.last)
		path, dates := w.path(test.c.property, "/queries"), []string{"start_date", test.first, "end_date", test.end}
		before := w.wantCacheStatus(t, "miss", test.calls, path, dates...)
		for range 3 {
			w.advance(freshArchived + time.Second)
			w.wantCacheStatus(t, "hit", 0, path, dates...)
		}
		next := (*dateOf(t, test.last) + 1).String()
		test.c.keep(t, next, next)
		w.advance(freshArchived)
		after := w.wantCacheStatus(t, test.built, 0, path, dates...)
		if before.header.Get("Etag") == after.header.Get("Etag") {
			t.Errorf("%s: the answer does not have the new day", test.c.property)
		}
		next = (*dateOf(t, next) + 1).String()
		test.c.keep(t, next, next)
		w.advance(-time.Hour) // the clock is set back, which makes nothing younger
		w.get("pro", "/v1/me")
		w.advance(time.Second) // the key's minute began as used up
		if again := w.wantCacheStatus(t, test.built, 0, path, dates...); again.header.Get("Etag") == after.header.Get("Etag") {
			t.Errorf("%s: after the clock was set back, the answer does not have the new day", test.c.property)
		}
	}
}

// If the archive fails, live ranges are still answered.
func TestSummary503WithoutTheArchive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Reports.History = brokenHistory{} })
	w.get("pro", w.path("main", "/summary")).ok(t)
	for _, start := range []string{"2025-06-25", "2025-07-15"} {
		for _, endpoint := range performanceEndpoints() {
			r := w.get("pro", w.path("main", endpoint), "start_date", start, "end_date", "2025-07-25")
			r.want(t, http.StatusServiceUnavailable, openapi.CodeServiceUnavailable)
			if strings.Contains(fmt.Sprint(r.json), "bucket") {
				t.Errorf("the client sees internals: %s", r.body)
			}
		}
	}
	w.answerWith(series(nil, "2026-11-01", "2026-11-19", "")) // of a young site, or of one whose days before are archived
	w.get("pro", w.path("prefix", "/summary")).want(t, http.StatusServiceUnavailable, openapi.CodeServiceUnavailable)
}

// While the upstream denies access, its last answers are still there to be read, for a day. Then only archived days are.
func TestProperty200DataWindowOfCopies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.get("pro", w.path("main", "/summary")).ok(t)
	w.must(w.store.SaveArchiveState(context.Background(), sqlstore.ArchiveState{PropertyID: w.properties["main"].ID,
		First: dateOf(t, "2025-12-01"), Last: dateOf(t, "2026-10-31")}))
	w.faults(gscsim.Faults{RevokeTokens: true})
	w.get("pro", w.path("main", "/devices")).want(t, http.StatusServiceUnavailable, openapi.CodeUpstreamUnavailable)
	latest := func() any {
		return w.get("pro", w.path("main", "")).ok(t).data()["data_window"].(map[string]any)["latest_data_date"]
	}
	w.wantConnection(t, "main", false)
	w.get("pro", w.path("main", "/timeseries"), "date_range", "last_7d").ok(t)
	if day := latest(); day != "2026-11-19" {
		t.Errorf("with a copy, the latest day is %v", day)
	}
	w.advance(25 * time.Hour)
	if day := latest(); day != "2026-10-31" {
		t.Errorf("a day later, the latest day is %v", day)
	}
}

// The data window of a property is what can be read now.
func TestProperty200DataWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// So that the revocation is recorded:
	w.get("pro", w.path("disconnected", "/summary")).want(t, http.StatusServiceUnavailable, openapi.CodeUpstreamUnavailable)
	for _, c := range []struct {
		property, first, last      string
		earliest, latest, archived string
	}{
		{"main", "2023-12-01", "2026-11-18", "2023-12-01", "2026-11-19", "2026-11-18"},
		{"main", "2020-01-01", "2026-11-18", "2023-11-20", "2026-11-19", "2026-11-18"}, // no further than the plan
		{"prefix", "2026-01-01", "2026-11-10", "2025-07-20", "2026-11-19", "2026-11-10"},
		{"archived", "2024-12-01", "2026-10-31", "2024-12-01", "2026-10-31", "2026-10-31"},
		{"disconnected", "2024-12-01", "2026-10-31", "2024-12-01", "2026-10-31", "2026-10-31"},
		// Days before those of the plan cannot be read.
		{"prefix", "2020-01-01", "2023-01-31", "2025-07-20", "2026-11-19", "2023-01-31"},
		{"archived", "2020-01-01", "2023-01-31", "2025-07-20", "2026-11-19", "2023-01-31"},
		{"disconnected", "2020-01-01", "2023-01-31", "2025-07-20", "2026-11-19", "2023-01-31"},
	} {
		w.must(w.store.SaveArchiveState(context.Background(), sqlstore.ArchiveState{PropertyID: w.properties[c.property].ID,
			First: dateOf(t, c.first), Last: dateOf(t, c.last)}))
		w.advance(2 * time.Second) // until the property is looked up again
		d := w.get("pro", w.path(c.property, "")).ok(t).data()
		window := d["data_window"].(map[string]any)
		if window["earliest_data_date"] != c.earliest || window["latest_data_date"] != c.latest || d["last_archived_date"] != c.archived {
			t.Errorf("%s from %s to %s: data_window %v, last_archived_date %v", c.property, c.first, c.last, window, d["last_archived_date"])
		}
	}
	said := notes(w.get("pro", w.path("archived", "")).ok(t))
	if said != "The property is archived: it serves stored history only, of which the plan keeps none." {
		t.Errorf("the notes are %q", said)
	}
}

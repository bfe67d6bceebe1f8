package proxy

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"sara/archive"
	"sara/archive/sqlstore"
	"sara/proxy/upstream/gscsim"
	"sara/translate"
)

// newLossyWorld has a property "lost" of which Search Console lacks a number of days at the start of its window. What is archived of it has
// the figures of another site, so that the source of a figure shows.
func newLossyWorld(t *testing.T, days int) (*world, *chronicle) {
	t.Helper()
	const site = "https://www.example.org/blog/"
	history, configure := kept(t)
	w := newWorldWith(t, []gscsim.Site{{URL: site, Queries: 50, Pages: 10, Publication: gscsim.Publication{LostDays: days}}},
		new(gscsim.Worlds), configure)
	added, err := w.store.AddProperty(context.Background(), sqlstore.PropertySpec{Connection: w.properties["prefix"].Connection.ID, Site: site})
	w.must(err)
	w.properties["lost"] = added
	return w, w.chronicle(history, "lost", "https://www.example.org/shop/")
}

// Days at the start of the live window that neither the upstream nor the archive has are missing if the archive has earlier figures:
// the site is not young, so nothing is known of them.
func TestPerformance200LostDaysAreMissing(t *testing.T) {
	t.Parallel()
	w, archived := newLossyWorld(t, 1)
	archived.keep(t, "2025-06-19", "2025-06-23")
	days := []string{"start_date", "2025-07-20", "end_date", "2025-07-22"} // the live window begins on the first of them
	series := w.get("pro", w.path("lost", "/timeseries"), days...).ok(t)
	if len(series.rows()) != 2 {
		t.Errorf("the series has the rows %v, want those of two days", series.rows())
	}
	wantText(t, "the notes of the series", notes(series), "1 day is not archived and not counted: 2025-07-20.")
	for _, endpoint := range []string{"/summary", "/countries"} {
		wantText(t, endpoint, notes(w.get("pro", w.path("lost", endpoint), days...).ok(t)), "1 day is not archived and not counted: 2025-07-20.")
	}
	w.get("pro", w.path("lost", "/summary"), "start_date", "2025-07-20", "end_date", "2025-07-20").want(t, http.StatusBadRequest,
		codeValidation, "2025-07-20")
}

// If only totals of earlier days are archived, such as those of an imported file, lost days have no queries, and the error names no archived
// ones.
func TestQueries400LostDaysWithOnlyTotalsArchived(t *testing.T) {
	t.Parallel()
	w, archived := newLossyWorld(t, 3)
	var total translate.RowsBuilder
	total.Add(nil, translate.Metrics{Clicks: 5, Impressions: 10, CTR: 0.5, Position: 2})
	earlier := archive.Day{Date: *dateOf(t, "2025-06-20"), Dimension: translate.ByDate, Final: true, Rows: total.Rows()}
	w.must(archived.history.Merge(t.Context(), w.properties["lost"].ID, []archive.Day{earlier}))
	w.get("pro", w.path("lost", "/timeseries")).ok(t)
	refused := w.get("pro", w.path("lost", "/queries"), "start_date", "2025-07-20", "end_date", "2025-07-22")
	refused.want(t, http.StatusBadRequest, codeValidation,
		"there are no figures from 2025-07-20 to 2025-07-22: no day that the plan keeps is archived by query")
}

// The edge of what the upstream has moves on with the day. With a copy of the series of the day before, the archive answers for the day
// that was the first one with figures.
func TestBreakdown200LostDaysAfterTheAnchorMoved(t *testing.T) {
	t.Parallel()
	w, archived := newLossyWorld(t, 1)
	w.get("pro", w.path("lost", "/timeseries")).ok(t)
	const untilNextDay = 23 * time.Hour
	w.advance(untilNextDay)
	first := []string{"start_date", "2025-07-21", "end_date", "2025-07-21"} // of the live window
	wantNote(t, w.get("pro", w.path("lost", "/devices"), first...).ok(t))
	w.advance(-untilNextDay) // because the oracle's credentials expire
	archived.keep(t, "2025-07-18", "2025-07-25")
	w.advance(untilNextDay + freshArchived)
	r := w.get("pro", w.path("lost", "/devices"), first...).ok(t)
	wantRows(t, "devices", r.rows(), "key", archived.want(t, "device", "2025-07-21", "2025-07-21", never))
	wantSource(t, r, "stored")
}

// What was found at the far edge depends on the archive, and is looked up again once that has changed.
func TestTimeseries200ArchivedAtTheFarEdgeInTheMeantime(t *testing.T) {
	t.Parallel()
	w, archived := newLossyWorld(t, 2)
	for _, want := range []string{"Search Console's figures of this property begin on 2025-07-22.",
		"1 day is not archived and not counted: 2025-07-21.", ""} {
		for _, endpoint := range []string{"/timeseries", "/devices"} {
			r := w.get("pro", w.path("lost", endpoint), "start_date", "2025-07-21", "end_date", "2025-07-24").ok(t)
			if text := notes(r); want == "" && strings.Contains(text, "2025-07-22") || !strings.Contains(text, want) {
				t.Errorf("%s has the notes %q, want %q", endpoint, text, want)
			}
		}
		w.advance(freshArchived)
		if want == "" {
			break
		} else if strings.HasPrefix(want, "1 day") {
			archived.keep(t, "2025-07-21", "2025-07-21")
		} else {
			archived.keep(t, "2025-07-18", "2025-07-20")
		}
	}
}

// The data window of a property that only has archived days begins with its figures, too.
func TestProperty200DataWindowOfArchivedDaysBeforeTheBeginning(t *testing.T) {
	t.Parallel()
	history, configure := kept(t)
	w := newWorld(t, configure)
	const begins, last = "2026-10-08", "2026-10-20"
	first := *dateOf(t, begins) - 7
	var days []archive.Day
	for day := range translate.Date(7) {
		days = append(days, archive.Day{Date: first + day, Dimension: translate.ByDate, Final: true, Rows: new(translate.Rows)})
	}
	id := w.properties["archived"].ID
	w.must(history.Merge(t.Context(), id, days))
	w.chronicle(history, "archived", mainSite).keep(t, begins, last)
	w.must(w.store.SaveArchiveState(t.Context(), sqlstore.ArchiveState{PropertyID: id, First: &first, Last: dateOf(t, last)}))
	window := w.get("pro", w.path("archived", "")).ok(t).data()["data_window"].(map[string]any)
	if window["earliest_data_date"] != begins || window["latest_data_date"] != last {
		t.Errorf("data_window %v", window)
	}
}

// Days before the beginning of a site that was young when its days were archived are zeros, and a note says so as long as they are shown.
func TestPerformance200ArchivedDaysBeforeTheBeginning(t *testing.T) {
	t.Parallel()
	history, configure := kept(t)
	w := newWorld(t, configure)
	for name, c := range map[string]struct {
		property         string
		begins, from, to string
		before           string // the week before the archived days
	}{
		"disconnected":                  {"disconnected", "2026-10-08", "2026-10-05", "2026-10-11", "2026-09-28"},
		"before the live window":        {"prefix", "2025-06-08", "2025-06-05", "2025-06-11", "2025-05-29"},
		"across the live window's edge": {"main", "2025-07-19", "2025-07-16", "2025-07-22", "2025-07-09"},
		"with the live window":          {"twin_a", liveFrom, "2025-07-17", "2025-07-23", "2025-07-10"},
	} {
		begins, first := *dateOf(t, c.begins), *dateOf(t, c.before)
		var days []archive.Day
		for day := first; day < begins; day++ {
			for _, by := range archive.Dimensions() {
				days = append(days, archive.Day{Date: day, Dimension: by, Final: true, Rows: new(translate.Rows)})
			}
		}
		w.must(history.Merge(t.Context(), w.properties[c.property].ID, days))
		hasFigures := c.begins != liveFrom // in the archive
		if hasFigures {
			w.chronicle(history, c.property, mainSite).keep(t, c.begins, (begins + 12).String())
		}
		note := "Search Console's figures of this property begin on " + c.begins + "."
		get := func(endpoint, start, end string, more ...string) string {
			return notes(w.get("pro", w.path(c.property, endpoint), append([]string{"start_date", start, "end_date", end}, more...)...).ok(t))
		}
		wantText(t, name, get("/timeseries", c.from, c.to), note)
		wantText(t, name, get("/timeseries", c.from, c.from), note) // if the archive has no figures: from the copy of the series before
		wantText(t, name, get("/summary", c.begins, c.to, "compare", "previous_period"), note)
		wantText(t, name, get("/movers/queries", c.from, c.to), note)
		if got := get("/summary", c.begins, c.to); strings.Contains(got, "begin") {
			t.Errorf("%s: from the first day with figures on, the notes are %s", name, got)
		}
	}
}

// Figures from before the days that the plan keeps show that a site is not young: its first kept day may be one without traffic.
func TestTimeseries200BeginsWithADayWithoutTraffic(t *testing.T) {
	t.Parallel()
	history, configure := kept(t)
	w := newWorld(t, configure)
	window := translate.NewWindow(*dateOf(t, "2026-11-19"), 36) // of the plan pro
	quiet := archive.Day{Date: window.Earliest, Dimension: translate.ByDate, Final: true, Rows: new(translate.Rows)}
	archived := w.chronicle(history, "main", mainSite)
	archived.keep(t, (window.Earliest - 3).String(), (window.Earliest + 3).String())
	w.must(history.Merge(t.Context(), w.properties["main"].ID, []archive.Day{quiet}))
	r := w.get("pro", w.path("main", "/timeseries"), "start_date", window.Earliest.String(), "end_date", (window.Earliest + 2).String()).ok(t)
	wantNote(t, r, "The days up to "+(window.Earliest+2).String()+" come from the archive, with the totals of each day.")
}

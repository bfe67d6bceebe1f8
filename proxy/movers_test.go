package proxy

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"

	"sara/proxy/openapi"
)

// A naiveMover is a mover of the naive reference implementation.
type naiveMover struct {
	key           string
	now, previous figure
}

func (m naiveMover) delta() float64 { return m.now.Clicks - m.previous.Clicks }

// naiveMovers joins two periods with a map.
func naiveMovers(now, previous []figure, minClicks float64, limit int) (gainers, losers []naiveMover) {
	byKey := map[string]*naiveMover{}
	side := func(rows []figure, set func(m *naiveMover, row figure)) {
		for _, row := range rows {
			if byKey[row.Keys[0]] == nil {
				byKey[row.Keys[0]] = &naiveMover{key: row.Keys[0]}
			}
			set(byKey[row.Keys[0]], row)
		}
	}
	side(now, func(m *naiveMover, row figure) { m.now = row })
	side(previous, func(m *naiveMover, row figure) { m.previous = row })
	for _, m := range byKey {
		switch {
		case max(m.now.Clicks, m.previous.Clicks) < minClicks:
		case m.delta() > 0:
			gainers = append(gainers, *m)
		case m.delta() < 0:
			losers = append(losers, *m)
		}
	}
	slices.SortFunc(gainers, func(a, b naiveMover) int { return cmp.Or(cmp.Compare(b.delta(), a.delta()), cmp.Compare(a.key, b.key)) })
	slices.SortFunc(losers, func(a, b naiveMover) int { return cmp.Or(cmp.Compare(a.delta(), b.delta()), cmp.Compare(a.key, b.key)) })
	return gainers[:min(limit, len(gainers))], losers[:min(limit, len(losers))]
}

func wantMovers(t *testing.T, what string, got any, want []naiveMover) {
	t.Helper()
	list, isList := got.([]any)
	if !isList || len(list) != len(want) {
		t.Errorf("%s: %d movers, want %d", what, len(list), len(want))
		return
	}
	for i, m := range want {
		row := list[i].(map[string]any)
		wantMembers(t, what, row, "clicks clicks_change_pct clicks_delta impressions key position previous_clicks previous_impressions previous_position")
		percent := 100.0
		if m.previous.Clicks > 0 {
			percent = m.delta() / m.previous.Clicks * 100
		}
		if row["key"] != m.key {
			t.Errorf("%s: %d is %v, want %q", what, i, row["key"], m.key)
			return
		}
		for name, value := range map[string]float64{"clicks": m.now.Clicks, "previous_clicks": m.previous.Clicks, "clicks_delta": m.delta(),
			"clicks_change_pct": percent, "impressions": m.now.Impressions, "previous_impressions": m.previous.Impressions,
			"position": m.now.Position, "previous_position": m.previous.Position} {
			if figure, ok := row[name].(float64); !ok || !near(figure, value) {
				t.Errorf("%s %s: %s is %v, want %v", what, m.key, name, row[name], value)
			}
		}
	}
}

func TestMovers200(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.oracle()
	for _, c := range []struct {
		endpoint, by, property, site string
		query                        []string
		minClicks                    float64
		limit                        int
		now, previous                [2]string
		preset                       string
	}{
		{"/movers/queries", "query", "main", "sc-domain:example.com", nil, 0, 10,
			[2]string{"2026-10-23", "2026-11-19"}, [2]string{"2026-09-25", "2026-10-22"}, "last_28d"},
		{"/movers/pages", "page", "main", "sc-domain:example.com", nil, 0, 10,
			[2]string{"2026-10-23", "2026-11-19"}, [2]string{"2026-09-25", "2026-10-22"}, "last_28d"},
		{"/movers/queries", "query", "prefix", "https://www.example.org/shop/", []string{"date_range", "last_7d", "limit", "50", "min_clicks", "3"}, 3, 50,
			[2]string{"2026-11-13", "2026-11-19"}, [2]string{"2026-11-06", "2026-11-12"}, "last_7d"},
		{"/movers/pages", "page", "prefix", "https://www.example.org/shop/",
			[]string{"start_date", "2026-11-01", "end_date", "2026-11-01", "limit", "1"}, 0, 1,
			[2]string{"2026-11-01", "2026-11-01"}, [2]string{"2026-10-31", "2026-10-31"}, "custom"},
		{"/movers/pages", "page", "prefix", "https://www.example.org/shop/", []string{"min_clicks", "1000000000"}, 1e9, 10,
			[2]string{"2026-10-23", "2026-11-19"}, [2]string{"2026-09-25", "2026-10-22"}, "last_28d"},
	} {
		w.run(c.endpoint+" of "+c.property+fmt.Sprint(c.query), func(t *testing.T) {
			r := w.get("pro", w.path(c.property, c.endpoint), c.query...).ok(t)
			gainers, losers := naiveMovers(o.ask(t, c.site, c.by, c.now[0], c.now[1], 25000),
				o.ask(t, c.site, c.by, c.previous[0], c.previous[1], 25000), c.minClicks, c.limit)
			wantMembers(t, "data", r.data(), "dimension gainers losers previous_range")
			wantMembers(t, "previous_range", r.data()["previous_range"], "end_date start_date")
			if previous := r.data()["previous_range"].(map[string]any); previous["start_date"] != c.previous[0] || previous["end_date"] != c.previous[1] {
				t.Errorf("previous_range is %v", previous)
			}
			wantMovers(t, "gainers", r.data()["gainers"], gainers)
			wantMovers(t, "losers", r.data()["losers"], losers)
			w.wantPerformanceMeta(t, r, c.property, c.now[0], c.now[1], c.preset)
			if m := r.meta(); r.data()["dimension"] != c.by || m["row_count"] != float64(len(gainers)+len(losers)) ||
				m["limit"] != float64(c.limit) || m["truncated_by"] != nil {
				t.Errorf("dimension %v, meta %v", r.data()["dimension"], m)
			}
		})
	}
	w.run("an empty property", func(t *testing.T) {
		r := w.get("pro", w.path("empty", "/movers/queries")).ok(t)
		wantMovers(t, "gainers", r.data()["gainers"], nil)
		wantMovers(t, "losers", r.data()["losers"], nil)
	})
	w.run("a full sample of either period is announced", func(t *testing.T) {
		for _, full := range []string{"2026-11-13", "2026-11-06"} {
			w.answerWith(func(rw http.ResponseWriter, r *http.Request) {
				n := 1
				if question, err := readQuestion(r); err == nil && question.StartDate == full {
					n = 25_000
				}
				mustWrite(rw, upstreamRows(n))
			})
			r := w.get("pro", w.path("main", "/movers/queries"), "date_range", "last_7d").ok(t)
			if r.meta()["truncated_by"] != "clicks" {
				t.Errorf("meta is %v", r.meta())
			}
		}
		w.answerWith(nil)
	})
}

func TestMovers400(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, endpoint := range []string{"/movers/queries", "/movers/pages"} {
		w.wantRefusedParameters("main", endpoint, dateRefusals(), integerRefusals("limit", 1, 50), integerRefusals("min_clicks", 0, 0), []refusal{
			{"filters=%5B%5D", codeUnsupported, "filters"},
			{"filters=", codeUnsupported, "filters"},
			{"filters=%5B%7B%22dimension%22%3A%22brand%22%2C%22operator%22%3A%22is%22%2C%22value%22%3A%22brand%22%7D%5D", codeUnsupported, "filters"},
			{"compare=previous_period", codeUnsupported, "compare"},
			{"order_by=-clicks", codeUnsupported, "order_by"},
			{"start_date=2024-11-20&end_date=2026-11-19", codeTooOld, "2023-11-20"},
		})
	}
}

func TestMovers503(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, endpoint := range []string{"/movers/queries", "/movers/pages"} {
		w.wantUnavailable(endpoint)
	}
	// One of the two queries fails, so the comparison fails.
	for property, failing := range map[string]string{"main": "2026-11-13", "prefix": "2026-11-06"} {
		w.run("without the period from "+failing, func(t *testing.T) {
			w.answerWith(func(rw http.ResponseWriter, r *http.Request) {
				question, err := readQuestion(r)
				if err != nil || question.StartDate == failing {
					http.Error(rw, "no", http.StatusServiceUnavailable)
					return
				}
				mustWrite(rw, `{"rows":[{"keys":["a"],"clicks":1,"impressions":2,"ctr":0.5,"position":1}],"responseAggregationType":"byProperty"}`)
			})
			defer w.answerWith(nil)
			w.get("pro", w.path(property, "/movers/queries"), "date_range", "last_7d").
				want(t, http.StatusServiceUnavailable, openapi.CodeUpstreamUnavailable)
		})
	}
}

// A panic in one of the goroutines that read the two periods fails the request only.
func TestMovers500(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	works := w.server.reports.config.Upstream
	w.server.reports.config.Upstream = nil // every query panics
	r := w.get("pro", w.path("main", "/movers/queries"))
	r.want(t, http.StatusInternalServerError, openapi.CodeInternal)
	w.server.reports.config.Upstream = works
	w.get("pro", w.path("main", "/movers/queries")).ok(t)
	wantText(t, "the log", w.logged(), "panic", r.header.Get("X-Request-Id"))
}

// Both lists are bounded by the same limit, whatever its value.
func TestMovers200Limits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, limit := range []int{1, 2, 49, 50} {
		r := w.get("pro", w.path("main", "/movers/queries"), "limit", strconv.Itoa(limit)).ok(t)
		gainers, losers := r.data()["gainers"].([]any), r.data()["losers"].([]any)
		if len(gainers) != limit || len(losers) != limit || r.meta()["row_count"] != float64(2*limit) {
			t.Errorf("limit %d: %d gainers, %d losers, row_count %v", limit, len(gainers), len(losers), r.meta()["row_count"])
		}
	}
}

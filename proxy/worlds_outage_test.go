package proxy

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
)

// judgeOutage asks for figures on the day after, while Search Console fails. All connected properties have a copy of the series of today by
// then.
func (w *world) judgeOutage(truths []*truth, seen map[string]int) {
	w.t.Helper()
	w.setClock("2026-11-22T08:30:00Z") // half an hour after the anchor has moved past lastDay
	w.answerWith(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusServiceUnavailable) })
	defer w.answerWith(nil)
	for _, x := range truths {
		if x.kind != connected {
			continue
		}
		r := rand.New(rand.NewPCG(^x.seed, x.number))
		if x.newer != nil {
			x = x.newer
		}
		failing := *x
		failing.kind, failing.copiedBefore = disconnected, false // as far as live figures go
		for range 3 {
			q := drawOutage(r)
			if q.table != "total" && x.late() && x.asked[q.rows()] {
				continue // without its unpublished days, a table of today has the same rows, so that there may be a copy
			}
			failing.stale = x.answersLater(q)
			if ok, success := w.judge(&failing, q, notAtHand, seen); ok && success && failing.stale {
				seen["stale"]++
			}
		}
	}
}

// rows names the rows of a question, but for their last day.
func (q *question) rows() string { return q.table + " " + q.from.String() }

// drawOutage draws a question of the day after. Tables and movers end at its anchor, so that there is no copy of them, and have more days than
// Search Console can be late, so that they need one.
func drawOutage(r *rand.Rand) *question {
	q := &question{preset: "custom", order: "-clicks", limit: 100, to: lastDay + 1}
	q.endpoint, q.table, _ = strings.Cut(pick(r, "/summary total", "/summary total", "/timeseries total", "/timeseries total", "/queries query",
		"/devices device", "/movers/pages page"), " ")
	q.from = q.to - date(pick(r, 13, 27, 60, 200, 300))
	if q.table == "total" {
		q.to -= date(pick(r, 0, 0, 0, 1, 4))
		q.from = pick(r, q.from, q.to, q.to-1, q.to-6)
	} else {
		q.limit = pick(r, 3, 50)
		q.query = []string{"limit", strconv.Itoa(q.limit)}
	}
	q.query = append(q.query, "start_date", q.from.String(), "end_date", q.to.String())
	q.compare = q.table == "page"
	if q.endpoint == "/summary" && r.IntN(2) == 0 {
		q.compare, q.byYear = true, r.IntN(3) == 0
		q.query = append(q.query, "compare", map[bool]string{true: "previous_year", false: "previous_period"}[q.byYear])
	}
	return q
}

// answersLater reports whether the copy of today answers a question of the day after: a series that begins with days of which the copy has
// figures before. The archive answers if it has the day that the copy lacks.
func (x *truth) answersLater(q *question) bool {
	start := q.from
	if q.compare {
		start = q.counterpart(start)
	}
	first, _, ok := x.bounds()
	_, _, stored := x.stored(lastDay+1, "total")
	return ok && q.table == "total" && start >= first && (q.to <= lastDay || x.late() || q.from <= lastDay && !stored)
}

// staleState returns what the copy of today tells of a day on the day after.
func (x *truth) staleState(d date) state {
	_, last, _ := x.bounds()
	switch {
	case d > last && x.late():
		return isUnpublished
	case d > lastDay:
		return isMissing
	case x.shown(d):
		return isLive
	}
	return isQuiet
}

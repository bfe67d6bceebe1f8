package proxy

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"sara/translate"
)

// A draw is a random request, and the upstream's own answer to it.
type draw struct {
	property, site string
	start, end     translate.Date
	conditions     []condition
	query          []string
}

func (d *draw) ask(t testing.TB, o *oracle, by string, r translate.DateRange) []figure {
	t.Helper()
	return o.ask(t, d.site, by, r.Start.String(), r.End.String(), 25000, d.conditions...)
}

func (d *draw) period() translate.Period {
	return translate.Period{DateRange: translate.DateRange{Start: d.start, End: d.end}}
}

// newDraw draws from so few periods that most of them come up again in other requests.
func newDraw(random *rand.Rand, anchor translate.Date) draw {
	d := draw{property: "prefix", site: "https://www.example.org/shop/"}
	if random.IntN(8) == 0 {
		d.property, d.site = "main", "sc-domain:example.com"
	}
	d.end = anchor - translate.Date([]int{0, 0, 7, 14, 80}[random.IntN(5)]) // some ranges reach beyond the grid of countries
	d.start = d.end - translate.Date([]int{0, 6, 27}[random.IntN(3)])
	d.query = []string{"start_date", d.start.String(), "end_date", d.end.String()}
	return d
}

func (d *draw) filter(random *rand.Rand) {
	if random.IntN(3) > 0 {
		return
	}
	drawn := []struct {
		condition
		operator, value string
	}{
		{condition{"device", "equals", "MOBILE"}, "is", "mobile"}, {condition{"device", "equals", "MOBILE"}, "equals", "MOBILE"},
		{condition{"device", "notEquals", "DESKTOP"}, "not_equals", "desktop"}, {condition{"country", "equals", "usa"}, "is", "USA"},
		{condition{"country", "notEquals", "deu"}, "is_not", "deu"},
	}[random.IntN(5)]
	d.conditions = []condition{drawn.condition}
	d.query = append(d.query, "filters", filtersOf(drawn.Dimension, drawn.operator, drawn.value))
}

// Whatever was cached before, however old it is and wherever the rows come from, an answer equals the upstream's own answer to
// the same request on the same day.
func TestEveryPerformanceEndpoint200EqualsTheUpstream(t *testing.T) {
	if testing.Short() {
		t.Skip("takes over a second")
	}
	t.Parallel()
	w := newWorld(t)
	o := w.oracle()
	random := rand.New(rand.NewPCG(7, 13))
	words := map[string]int{}
	for range 120 {
		if random.IntN(25) == 0 {
			w.await(t, "the end of refills", func() bool { return !w.server.Busy() }) // what they read belongs to the time before
			w.advance([]time.Duration{5 * time.Minute, 11 * time.Minute, 7 * time.Hour, 25 * time.Hour}[random.IntN(4)])
		}
		anchor, err := translate.NewCalendar()
		w.must(err)
		d := newDraw(random, anchor.Anchor(w.now()))
		r := w.drawn(t, o, random, &d)
		words[fmt.Sprint(r.meta()["cache"])]++
		if t.Failed() {
			t.Fatalf("the request was %v at %s", d.query, w.now())
		}
	}
	if words["hit"] < 30 || words["miss"] < 10 || words["bypass"] < 3 {
		t.Errorf("the answers were %v: too few of a kind to show anything", words)
	}
}

// drawn requests a random report of the draw, and compares.
func (w *world) drawn(t *testing.T, o *oracle, random *rand.Rand, d *draw) response {
	t.Helper()
	get := func(endpoint string) response {
		if random.IntN(15) == 0 {
			return w.live("pro", w.path(d.property, endpoint), d.query...).ok(t)
		}
		return w.get("pro", w.path(d.property, endpoint), d.query...).ok(t)
	}
	switch random.IntN(4) {
	case 0:
		d.filter(random)
		previous, compare := d.period().Previous(), "previous_period"
		if d.start > translate.NewDate(2026, 8, 1) && random.IntN(2) == 0 { // Search Console still has the year before
			previous, compare = translate.DateRange{Start: d.start - 365, End: d.end - 365}, "previous_year"
		}
		d.query = append(d.query, "compare", compare)
		r := get("/summary")
		wantMetrics(t, "totals", r.data()["totals"], o.total(t, d.site, d.start.String(), d.end.String(), d.conditions...))
		wantMetrics(t, "previous", r.data()["previous"], o.total(t, d.site, previous.Start.String(), previous.End.String(), d.conditions...))
		return r
	case 1:
		d.filter(random)
		r := get("/timeseries")
		wantRows(t, "days", r.rows(), "date", d.ask(t, o, "date", d.period().DateRange))
		return r
	case 2:
		return w.drawnBreakdown(t, o, random, d, get)
	}
	by := []string{"query", "page"}[random.IntN(2)]
	endpoint := map[string]string{"query": "/movers/queries", "page": "/movers/pages"}[by]
	r := get(endpoint)
	gainers, losers := naiveMovers(d.ask(t, o, by, d.period().DateRange), d.ask(t, o, by, d.period().Previous()), 0, 10)
	wantMovers(t, "gainers", r.data()["gainers"], gainers)
	wantMovers(t, "losers", r.data()["losers"], losers)
	return r
}

func (w *world) drawnBreakdown(t *testing.T, o *oracle, random *rand.Rand, d *draw, get func(string) response) response {
	t.Helper()
	d.filter(random)
	endpoint := []string{"/queries", "/pages", "/countries", "/devices"}[random.IntN(4)]
	order, limit := translate.Orders()[random.IntN(10)], []int{1, 10, 1000}[random.IntN(3)]
	if random.IntN(2) == 0 {
		order = translate.DefaultOrder
	}
	d.query = append(d.query, "order_by", order, "limit", strconv.Itoa(limit))
	all := d.ask(t, o, breakdowns()[endpoint], d.period().DateRange)
	offset := 0
	if random.IntN(2) == 0 {
		offset = random.IntN(len(all) + 10)
		d.query = append(d.query, "offset", strconv.Itoa(offset))
	}
	r := get(endpoint)
	want := rank(all, order)
	wantRows(t, endpoint, r.rows(), "key", pageOf(want, offset, limit))
	wantPageMeta(t, r, len(all), offset, limit, order)
	return r
}

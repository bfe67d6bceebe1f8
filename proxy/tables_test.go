package proxy

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"sara/policy/redistest"
	"sara/proxy/upstream/gscsim"
	"sara/translate"
)

// pageOf returns the rows of a page.
func pageOf(rows []figure, offset, limit int) []figure {
	return rows[min(offset, len(rows)):min(offset+limit, len(rows))]
}

// wantPageMeta checks what the meta says of a page of a table with n rows, all of which are known.
func wantPageMeta(t testing.TB, r response, n, offset, limit int, order string) {
	t.Helper()
	var truncated, shown any
	if order == translate.DefaultOrder && n > offset+limit {
		truncated = "clicks"
	}
	if offset > 0 {
		shown = float64(offset)
	}
	if m := r.meta(); m["truncated_by"] != truncated || m["has_more"] != (n > offset+limit) || m["offset"] != shown || m["limit"] != float64(limit) ||
		m["row_count"] != float64(len(r.rows())) {
		t.Errorf("the page at %d of %d rows by %s, %d each: meta is %v", offset, n, order, limit, m)
	}
}

// readTable reads a table as a client does: page by page, until there is no more.
func (w *world) readTable(t *testing.T, path string, limit int, query ...string) (rows []any, last response) {
	t.Helper()
	for offset := 0; offset < translate.WideSample; offset += limit {
		page := append([]string{"limit", strconv.Itoa(limit)}, query...)
		if offset > 0 {
			page = append(page, "offset", strconv.Itoa(offset))
		}
		last = w.get("pro", path, page...).ok(t)
		rows = append(rows, last.rows()...)
		if last.meta()["has_more"] != true {
			break
		}
	}
	return rows, last
}

// The pages of a table, one after the other, are the table: in every order, and for at most two upstream calls altogether.
func TestTables200PageByPage(t *testing.T) {
	if testing.Short() {
		t.Skip("takes over a second")
	}
	// Not parallel: beside other tests the simulator computes a large table too slowly for the server, which gives up.
	w := newWorld(t)
	o := w.oracle()
	const site, first, last = "sc-domain:large.example", "2026-11-18", "2026-11-19"
	mobile := []string{"filters", filtersOf("device", "is", "mobile")} // a filtered sample is never enlarged
	for _, c := range []struct {
		endpoint   string
		limit      int
		calls      int64
		filters    []string
		conditions []condition
	}{
		{"/pages", 700, 2, mobile, []condition{{"device", "equals", "MOBILE"}}}, {"/pages", 999, 1, nil, nil},
		{"/countries", 60, 1, nil, nil}, {"/devices", 2, 1, nil, nil},
	} {
		all := o.ask(t, site, breakdowns()[c.endpoint], first, last, 25000, c.conditions...)
		calls := w.calls(func() {
			for _, order := range []string{"-clicks", "position", "-key"} {
				rows, end := w.readTable(t, w.path("large", c.endpoint), c.limit,
					append([]string{"start_date", first, "end_date", last, "order_by", order}, c.filters...)...)
				wantRows(t, c.endpoint+" by "+order, rows, "key", rank(all, order))
				if m := end.meta(); m["has_more"] != false || m["truncated_by"] != nil {
					t.Errorf("%s by %s: the last meta is %v", c.endpoint, order, m)
				}
			}
		})
		if calls != c.calls {
			t.Errorf("%s, %d rows in three orders: %d calls, want %d", c.endpoint, len(all), calls, c.calls)
		}
	}
}

// A table with more rows than one call returns ends with a full sample: the upstream may have more, which no page has.
func TestTables200FullSample(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	u := &upstreamRequests{rows: func(_ []string, limit int) string { return upstreamRows(min(30_000, limit)) }}
	w.answerWith(u.ServeHTTP)
	rows, end := w.readTable(t, w.path("main", "/queries"), 1000, "filters", filtersOf("device", "is", "mobile"))
	u.wantLimits(t, translate.NarrowSample, translate.WideSample)
	if m := end.meta(); m["has_more"] != true || m["truncated_by"] != "clicks" || m["offset"] != 24_000.0 {
		t.Errorf("the last meta is %v", m)
	}
	for i, row := range rows {
		if key := row.(map[string]any)["key"]; key != fmt.Sprint("k", i) {
			t.Fatalf("row %d is %v", i, key)
		}
	}
	if len(rows) != translate.WideSample {
		t.Errorf("%d rows", len(rows))
	}
}

// Without an offset, and with one of 0, an answer is the same.
func TestTables200FirstPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for endpoint := range breakdowns() {
		plain, zero := w.get("pro", w.path("main", endpoint)).ok(t), w.get("pro", w.path("main", endpoint), "offset", "0").ok(t)
		if plain.header.Get("ETag") != zero.header.Get("ETag") || zero.meta()["cache"] != "hit" {
			t.Errorf("%s: with an offset of 0 the answer differs: %s", endpoint, zero.body)
		}
		if _, shown := zero.meta()["offset"]; shown || bytes.Contains(plain.body, []byte("offset")) {
			t.Errorf("%s: the first page has an offset: %v", endpoint, zero.meta())
		}
	}
}

// A page that the narrow sample has, with the row that shows whether more follow, asks for no other; one that crosses its end does.
func TestTables200PagesAcrossTheNarrowSample(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rows, offset, limit int
		limits              []int
		more                bool
	}{
		{30_000, 500, 500, []int{translate.NarrowSample}, true},
		{30_000, 501, 500, []int{translate.WideSample}, true},
		{30_000, 1000, 1, []int{translate.WideSample}, true},
		{30_000, 24_999, 1000, []int{translate.WideSample}, true},
		{1000, 500, 1000, []int{translate.NarrowSample}, false},
		{1000, 1000, 10, []int{translate.NarrowSample}, false},
		{1000, 24_999, 10, []int{translate.NarrowSample}, false},
	} {
		w := newWorld(t)
		u := &upstreamRequests{rows: func(_ []string, limit int) string { return upstreamRows(min(c.rows, limit)) }}
		w.answerWith(u.ServeHTTP)
		filter := []string{"filters", filtersOf("device", "is", "mobile")} // a filtered sample is never enlarged
		if c.rows == 1000 {
			w.get("pro", w.path("main", "/queries"), filter...).ok(t)
		}
		r := w.get("pro", w.path("main", "/queries"), append(filter, "offset", strconv.Itoa(c.offset), "limit", strconv.Itoa(c.limit))...).ok(t)
		u.wantLimits(t, c.limits...)
		count := max(0, min(c.limit, min(c.rows, translate.WideSample)-c.offset))
		if len(r.rows()) != count || r.meta()["has_more"] != c.more || count > 0 && r.rows()[0].(map[string]any)["key"] != fmt.Sprint("k", c.offset) {
			t.Errorf("%+v: %d rows, meta %v", c, len(r.rows()), r.meta())
		}
	}
}

// Search Console may put rows with equal clicks in an order of its own. The first page comes from the narrow sample, the others come from
// the wide one: no row is on two pages, and none on no page.
func TestTables200TiesAcrossTheSamples(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rows := func(n int) string {
		var body bytes.Buffer
		body.WriteString(`{"rows":[`)
		for i := range n {
			if i > 0 {
				body.WriteByte(',')
			}
			fmt.Fprintf(&body, `{"keys":["k%04d"],"clicks":%d,"impressions":9,"ctr":0,"position":1}`, (i*7919+5)%3000, max(0, 700-i))
		}
		return body.String() + `]}`
	}
	u := &upstreamRequests{rows: func(_ []string, limit int) string { return rows(min(3000, limit)) }}
	w.answerWith(u.ServeHTTP)
	read, _ := w.readTable(t, w.path("main", "/queries"), 1000, "filters", filtersOf("device", "is", "mobile"))
	u.wantLimits(t, translate.NarrowSample, translate.WideSample)
	seen := map[any]bool{}
	for _, row := range read {
		seen[row.(map[string]any)["key"]] = true
	}
	if len(read) != 3000 || len(seen) != 3000 {
		t.Errorf("%d rows, %d different", len(read), len(seen))
	}
}

// Past the end there are no rows, and no more: in a live table, in one of which the archive keeps the top rows, and in a grid.
func TestTables200PastTheEnd(t *testing.T) {
	t.Parallel()
	history, keeping := kept(t)
	w := newWorld(t, keeping)
	c := w.chronicle(history, "main", mainSite)
	c.keep(t, "2025-07-10", "2025-07-12")
	for _, query := range [][]string{{"date_range", "last_7d"}, {"start_date", "2025-07-10", "end_date", "2025-07-12"}} {
		for endpoint := range breakdowns() {
			r := w.get("pro", w.path("main", endpoint), append(query, "offset", "24999")...).ok(t)
			if r.rows() == nil || len(r.rows()) != 0 || r.meta()["has_more"] != false || r.meta()["row_count"] != 0.0 || r.meta()["offset"] != 24_999.0 {
				t.Errorf("%s %v: %s", endpoint, query, r.body)
			}
		}
	}
}

// Stored and hybrid tables have pages too, and so has an archived property.
func TestTables200StoredPages(t *testing.T) {
	t.Parallel()
	history, keeping := kept(t)
	w := newWorld(t, keeping)
	const live = "2025-07-20"
	for property, site := range map[string]string{"main": mainSite, "archived": "sc-domain:archived.example"} {
		c := w.chronicle(history, property, site)
		c.keep(t, "2025-07-15", "2025-07-19")
		ranges := [][2]string{{"2025-07-15", "2025-07-19"}, {"2025-07-17", "2025-07-22"}}
		if property == "archived" {
			ranges = ranges[:1]
		}
		for _, r := range ranges {
			for endpoint, by := range breakdowns() {
				want := c.want(t, by, r[0], r[1], live)
				rows, _ := w.readTable(t, w.path(property, endpoint), 97, "start_date", r[0], "end_date", r[1])
				wantRows(t, property+endpoint, rows, "key", want)
			}
		}
	}
}

// While a client reads a table, its copy grows too old: the pages still come from it, unless the table has a newer copy. Then they wait for
// a new copy, so that no two of them are of different ones.
func TestTables200RefreshBetweenPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	generation := 0
	u := &upstreamRequests{rows: func(_ []string, limit int) string { return generationRows(generation, min(2500, limit)) }}
	w.answerWith(u.ServeHTTP)
	page := func(offset int) (generation string) {
		t.Helper()
		r := w.get("pro", w.path("main", "/queries"), "filters", filtersOf("device", "is", "mobile"), "offset", strconv.Itoa(offset), "limit", "1000").ok(t)
		return r.rows()[0].(map[string]any)["key"].(string)[:2]
	}
	read := func(want string, offsets ...int) {
		t.Helper()
		for _, offset := range offsets {
			if got := page(offset); got != want {
				t.Errorf("the page at %d is of %s, not %s", offset, got, want)
			}
		}
	}
	read("g0", 0, 1000)
	u.wantLimits(t, translate.NarrowSample, translate.WideSample)
	generation = 1
	w.advance(freshAtAnchor + time.Minute)
	read("g0", 2000, 1000) // the reader goes on
	u.wantLimits(t)
	w.advance(readingTime)
	read("g1", 1000, 2000, 0) // all pages wait for the new copy
	u.wantLimits(t, translate.WideSample)
	generation = 2
	w.advance(freshAtAnchor + time.Minute)
	page(0) // the stale copy, while it is refilled
	w.await(t, "the refill", func() bool { return page(0) == "g2" })
	read("g2", 1000, 2000) // the wide copy is young enough, but older than that of the first page
	u.wantLimits(t, translate.NarrowSample, translate.WideSample)
}

// generationRows are the rows of a copy, whose keys begin with its number.
func generationRows(generation, n int) string {
	return string(bytes.ReplaceAll([]byte(upstreamRows(n)), []byte(`["k`), fmt.Appendf(nil, `["g%d k`, generation)))
}

// A second replica reads on, from the copies in Redis, without a call, and no row is on pages of both.
func TestTables200ReadOnByAnotherReplica(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	w := newWorld(t, over(server.Client()))
	other := w.replica(over(server.Client()))
	path, query := w.path("large", "/queries"), []string{"limit", "1000", "start_date", "2026-11-18", "end_date", "2026-11-19"}
	var rows []any
	if calls := w.calls(func() {
		rows = append(w.get("pro", path, query...).ok(t).rows(), w.get("pro", path, append(query, "offset", "1000")...).ok(t).rows()...)
	}); calls != 2 {
		t.Errorf("two pages make %d calls", calls)
	}
	w.server.reports.cache.Close() // its copies are in Redis
	if calls := w.calls(func() {
		rest := other.get("pro", path, append(query, "offset", "2000")...).ok(t)
		rows = append(rows, rest.rows()...)
		rows = append(slices.Clone(other.get("pro", path, query...).ok(t).rows()), rows[1000:]...)
	}); calls != 0 {
		t.Errorf("the other replica makes %d calls", calls)
	}
	wantRows(t, "the table", rows, "key",
		rank(w.oracle().ask(t, "sc-domain:large.example", "query", "2026-11-18", "2026-11-19", 25000), "-clicks")[:3000])
}

// If the upstream fails while a client reads a table, the pages are of the copy at hand, with the reason.
func TestTables200UpstreamFailsBetweenPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path, query := w.path("large", "/pages"), []string{"limit", "1000", "start_date", "2026-11-18", "end_date", "2026-11-19", "offset", "1000"}
	first := w.get("pro", path, query...).ok(t)
	w.advance(freshAtAnchor + readingTime + time.Minute)
	w.faults(gscsim.Faults{Status: http.StatusServiceUnavailable})
	again := w.get("pro", path, query...).ok(t)
	if fmt.Sprint(again.rows()) != fmt.Sprint(first.rows()) || again.meta()["source"] != "stored" || again.meta()["stale_reason"] == nil {
		t.Errorf("meta is %v", again.meta())
	}
}

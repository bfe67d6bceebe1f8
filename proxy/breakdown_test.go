package proxy

import (
	"net/http"
	"strconv"
	"testing"

	"sara/translate"
)

// breakdowns are the endpoints with keyed rows, and their dimensions.
func breakdowns() map[string]string {
	return map[string]string{"/queries": "query", "/pages": "page", "/countries": "country", "/devices": "device"}
}

func TestBreakdown200(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.oracle()
	for endpoint, by := range breakdowns() {
		all := o.ask(t, "https://www.example.org/shop/", by, "2026-11-13", "2026-11-19", 25000)
		w.run(by+" by default", func(t *testing.T) {
			r := w.get("pro", w.path("main", endpoint)).ok(t)
			wantMembers(t, "data", r.data(), "dimension rows")
			wantMembers(t, "row", r.rows()[0], "clicks ctr impressions key position")
			want := o.ask(t, "sc-domain:example.com", by, "2026-10-23", "2026-11-19", 100)
			wantRows(t, by, r.rows(), "key", want)
			w.wantPerformanceMeta(t, r, "main", "2026-10-23", "2026-11-19", "last_28d")
			if m := r.meta(); r.data()["dimension"] != by || m["row_count"] != float64(len(want)) || m["limit"] != 100.0 {
				t.Errorf("dimension %v, meta %v", r.data()["dimension"], m)
			}
		})
		for _, order := range translate.Orders() {
			for _, limit := range []int{1, 7, 280} {
				w.run(by+" "+order+" "+strconv.Itoa(limit), func(t *testing.T) {
					r := w.get("pro", w.path("prefix", endpoint), "date_range", "last_7d", "order_by", order, "limit", strconv.Itoa(limit)).ok(t)
					want := rank(all, order)
					want = want[:min(limit, len(want))]
					wantRows(t, by, r.rows(), "key", want)
					var truncated any
					if order == "-clicks" && len(all) > limit {
						truncated = "clicks"
					}
					if m := r.meta(); m["row_count"] != float64(len(want)) || m["limit"] != float64(limit) || m["truncated_by"] != truncated {
						t.Errorf("of %d rows: meta is %v", len(all), m)
					}
				})
			}
		}
		w.run(by+" of an empty property", func(t *testing.T) {
			r := w.get("pro", w.path("empty", endpoint)).ok(t)
			if r.rows() == nil || len(r.rows()) != 0 || r.meta()["row_count"] != 0.0 || r.meta()["truncated_by"] != nil {
				t.Errorf("answers %s", r.body)
			}
		})
	}
}

// The upstream ranks by clicks before it truncates, so an answer that may lack rows is marked.
func TestBreakdown200TruncatedBy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		name, order, limit string
		upstream           int
		truncated          any
	}{
		{"fewer than the limit", "-clicks", "10", 9, nil},
		{"exactly the limit", "-clicks", "10", 10, nil},
		{"one more than the limit", "-clicks", "10", 11, "clicks"},
		{"exactly the largest limit", "-clicks", "1000", 1000, nil},
		{"one more than the largest limit", "-clicks", "1000", 1001, "clicks"},
		{"more than the limit in another order", "impressions", "10", 11, nil},
		{"a wide sample with room", "key", "10", 24_999, nil},
		{"a full wide sample", "key", "10", 25_000, "clicks"},
		{"a full wide sample upwards by clicks", "clicks", "10", 25_000, "clicks"},
	} {
		w.run(c.name, func(t *testing.T) {
			w.answerWith(func(rw http.ResponseWriter, _ *http.Request) { mustWrite(rw, upstreamRows(c.upstream)) })
			defer w.answerWith(nil)
			w.advance(freshAtAnchor)
			r := w.live("pro", w.path("main", "/queries"), "order_by", c.order, "limit", c.limit).ok(t)
			if r.meta()["truncated_by"] != c.truncated {
				t.Errorf("of %d rows truncated_by is not %v: meta is %v", c.upstream, c.truncated, r.meta())
			}
		})
	}
	w.run("a property with 40,000 queries", func(t *testing.T) {
		r := w.get("pro", w.path("large", "/queries"), "start_date", "2026-11-18", "end_date", "2026-11-19", "order_by", "key", "limit", "5").ok(t)
		if r.meta()["truncated_by"] != "clicks" {
			t.Errorf("meta is %v", r.meta())
		}
	})
}

// upstreamRows is an upstream answer of n rows.
func upstreamRows(n int) string {
	body := []byte(`{"rows":[`)
	for i := range n {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, `{"keys":["k`+strconv.Itoa(i)+`"],"clicks":`+strconv.Itoa(n-i)+`,"impressions":99999,"ctr":0.5,"position":1.5}`...)
	}
	return string(append(body, `]}`...))
}

func TestBreakdown400(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for endpoint := range breakdowns() {
		dates := dateRefusals()
		if endpoint != "/queries" {
			dates = dates[:3] // they are the same for all four
		}
		w.wantRefusedParameters("main", endpoint, dates, integerRefusals("limit", 1, 1000), integerRefusals("offset", 0, 24_999), []refusal{
			{"order_by=", codeValidation, "order_by"},
			{"order_by=-", codeValidation, "order_by"},
			{"order_by=Clicks", codeValidation, "order_by"},
			{"order_by=%2Bclicks", codeValidation, "order_by"},
			{"order_by=--clicks", codeValidation, "order_by"},
			{"order_by=date", codeValidation, "order_by"},
			{"order_by=clicks,key", codeValidation, "order_by"},
			{"order_by=clicks&order_by=clicks", codeValidation, "order_by"},
			{"compare=none", codeUnsupported, "compare"},
			{"min_clicks=1", codeUnsupported, "min_clicks"},
		})
	}
}

func TestBreakdown503(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for endpoint := range breakdowns() {
		w.wantUnavailable(endpoint)
	}
}

package translate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// rowsOf returns Rows read from an upstream body.
func rowsOf(t testing.TB, rows []referenceRow) *Rows {
	t.Helper()
	body := []byte(`{"rows":[`)
	for i, row := range rows {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, `{"keys":[`...)
		body = appendString(body, row.key)
		body = append(body, `],`...)
		body = append(appendMetrics(body, row.Metrics), '}')
	}
	got, err := readRows(append(body, `]}`...), ByQuery)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// envelopeOf returns the whole envelope of a response.
func envelopeOf(h Head, cache string) []byte { return AppendTail(bytes.Clone(h), cache, "req_1") }

// decode reads an envelope, with numbers as text.
func decode(t testing.TB, a Head) (data, meta map[string]any) {
	t.Helper()
	text := envelopeOf(a, "hit")
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	var envelope map[string]any
	if err := d.Decode(&envelope); err != nil || d.More() {
		t.Fatalf("%v in %s", err, text)
	}
	wantKeys(t, envelope, "success", "data", "meta")
	if envelope["success"] != true {
		t.Errorf("success: %v", envelope["success"])
	}
	data, meta = envelope["data"].(map[string]any), envelope["meta"].(map[string]any)
	members := []string{"request_id", "property_id", "date_range", "row_count", "limit", "total", "truncated_by", "source",
		"stale_reason", "cache", "notes"}
	if data["dimension"] != nil && data["rows"] != nil {
		members = append(members, "has_more")
	}
	wantKeys(t, meta, members...)
	wantKeys(t, meta["date_range"], "start_date", "end_date", "preset")
	if meta["request_id"] != "req_1" || meta["cache"] != "hit" || meta["total"] != nil {
		t.Errorf("meta: %v", meta)
	}
	if _, ok := meta["notes"].([]any); !ok {
		t.Errorf("notes: %v is not an array", meta["notes"])
	}
	return data, meta
}

// wantKeys checks that an object has exactly these members.
func wantKeys(t testing.TB, object any, keys ...string) {
	t.Helper()
	members, ok := object.(map[string]any)
	if !ok {
		t.Errorf("%v is not an object", object)
		return
	}
	var got []string
	for key := range members {
		got = append(got, key)
	}
	slices.Sort(got)
	slices.Sort(keys)
	if !slices.Equal(got, keys) {
		t.Errorf("members %s, want %s", got, keys)
	}
}

func figures() []string { return []string{"clicks", "impressions", "ctr", "position"} }

func mustParse(t testing.TB, e Endpoint, query string) *Params {
	t.Helper()
	params, err := Parse(e, []byte(query), window())
	if err != nil {
		t.Fatal(err)
	}
	return params
}

func sampleSeries(t testing.TB) *Series {
	t.Helper()
	s, err := readSeries(seriesBody(
		`{"keys":["2026-06-05"],"clicks":3,"impressions":70,"ctr":0.042857142857142858,"position":9.5440029550272758}`,
		`{"keys":["2026-06-11"],"clicks":1,"impressions":1024,"ctr":9.765625E-4,"position":33.3}`,
		`{"keys":["2026-06-12"],"clicks":12.0,"impressions":1.2E1,"ctr":1,"position":1}`), DateRange{Start: day("2025-02-14"), End: day("2026-06-13")})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sampleRows(t testing.TB) *Rows {
	t.Helper()
	return rowsOf(t, []referenceRow{
		{"shoes", Metrics{20, 100, 0.2, 1.5}},
		{"caf\u00e9 \"noir\" \\ 中😀\n\t\u0001", Metrics{20, 300, 1.0 / 15, 8.416666666666668}},
		{"https://example.com/a?b=<c>&d", Metrics{0, 7_000_000_000, 0, 74}},
		{"", Metrics{0, 3, 5e-9, 12.25}},
	})
}

func TestResponseGoldens(t *testing.T) {
	origin := Origin{PropertyID: "0b9e5c1e-8c1c-4b7e-9a53-2f6a4a3b7c11", Source: SourceLive}
	last7 := mustParse(t, Summary(), "date_range=last_7d")
	compared := mustParse(t, Summary(), "start_date=2026-06-10&end_date=2026-06-20&date_range=last_7d&compare=previous_period")
	top := mustParse(t, Breakdown(), "date_range=last_7d&limit=3")
	movers := mustParse(t, Movers(), "date_range=last_7d&limit=2")
	stale := Origin{PropertyID: "p \"1\"", Source: "stored", StaleReason: "The account is disconnected.\nStored data."}
	before := rowsOf(t, []referenceRow{{"shoes", Metrics{35, 90, 0.3, 2}}, {"boots", Metrics{7, 7, 1, 1}}, {"", Metrics{0, 9, 0, 9}}})
	for name, a := range map[string]Head{
		"summary":          summaryHead(nil, last7, sampleSeries(t), origin),
		"summary_compared": summaryHead(nil, compared, sampleSeries(t), origin),
		"timeseries":       timeseriesHead(nil, last7, sampleSeries(t), origin),
		"queries":          breakdownHead(nil, top, ByQuery, sampleRows(t), origin),
		"queries_empty":    breakdownHead(nil, top, ByCountry, rowsOf(t, nil), stale),
		"movers":           moversHead(nil, movers, ByQuery, sampleRows(t), before, origin),
		"movers_empty":     moversHead(nil, movers, ByPage, rowsOf(t, nil), rowsOf(t, nil), stale),
	} {
		decode(t, a)
		golden(t, "answer/"+name+".json", envelopeOf(a, "hit"))
	}
}

func TestSummaryResponse(t *testing.T) {
	f := func(query string, previous []string, totals, previousTotals string) {
		t.Helper()
		params := mustParse(t, Summary(), query)
		data, meta := decode(t, summaryHead(nil, params, sampleSeries(t), Origin{Source: SourceLive}))
		wantKeys(t, data["totals"], figures()...)
		if got := fmt.Sprint(data["totals"]); got != totals {
			t.Errorf("%s: totals %s, want %s", query, got, totals)
		}
		if meta["row_count"] != nil || meta["limit"] != nil || meta["truncated_by"] != nil || meta["stale_reason"] != nil || meta["source"] != "live" {
			t.Errorf("%s: meta %v", query, meta)
		}
		if previous == nil {
			wantKeys(t, data, "totals")
			return
		}
		wantKeys(t, data, "totals", "previous")
		wantKeys(t, data["previous"], append(figures(), "start_date", "end_date")...)
		got := data["previous"].(map[string]any)
		if got["start_date"] != previous[0] || got["end_date"] != previous[1] {
			t.Errorf("%s: previous %v, want %s", query, got, previous)
		}
		delete(got, "start_date")
		delete(got, "end_date")
		if fmt.Sprint(got) != previousTotals {
			t.Errorf("%s: previous %v, want %s", query, got, previousTotals)
		}
	}
	const zeros = "map[clicks:0 ctr:0 impressions:0 position:0]"
	first, both := "map[clicks:3 ctr:0.04285714285714286 impressions:70 position:9.544002955027276]",
		"map[clicks:13 ctr:0.012548262548262547 impressions:1036 position:32.925868725868725]"
	f("start_date=2026-06-05&end_date=2026-06-05", nil, first, "")
	f("start_date=2026-06-01&end_date=2026-06-07", nil, first, "")
	f("start_date=2026-06-06&end_date=2026-06-10", nil, zeros, "")
	f("start_date=2026-06-06&end_date=2026-06-12&compare=previous_period", []string{"2026-05-30", "2026-06-05"}, both, first)
	f("start_date=2026-06-11&end_date=2026-06-12&compare=previous_period", []string{"2026-06-09", "2026-06-10"}, both, zeros)
}

func TestTimeseriesResponseHasOneRowADay(t *testing.T) {
	for _, query := range []string{"date_range=last_16m", "date_range=last_7d", "start_date=2026-06-12&end_date=2026-06-12",
		"start_date=2026-02-20&end_date=2026-03-10"} {
		params := mustParse(t, Timeseries(), query)
		data, meta := decode(t, timeseriesHead(nil, params, sampleSeries(t), Origin{Source: SourceLive}))
		wantKeys(t, data, "rows")
		rows := data["rows"].([]any)
		if len(rows) != params.Period.Days() || fmt.Sprint(meta["row_count"]) != fmt.Sprint(len(rows)) || meta["limit"] != nil ||
			meta["truncated_by"] != nil {
			t.Errorf("%s: %d rows, meta %v", query, len(rows), meta)
		}
		for i, row := range rows {
			wantKeys(t, row, append(figures(), "date")...)
			row := row.(map[string]any)
			d := params.Period.Start + Date(i)
			clicks := map[string]string{"2026-06-05": "3", "2026-06-11": "1", "2026-06-12": "12"}[d.String()]
			if row["date"] != d.String() || fmt.Sprint(row["clicks"]) != cmp.Or(clicks, "0") {
				t.Errorf("%s: row %d is %v", query, i, row)
			}
		}
	}
}

// randomRows have many ties in every figure, and distinct keys.
func randomRows(random *rand.Rand, n int) []referenceRow {
	rows := make([]referenceRow, 0, n)
	for i := range n {
		key := strings.Repeat(string(rune('a'+random.IntN(3))), random.IntN(3)) + fmt.Sprint(i)
		rows = append(rows, referenceRow{key, Metrics{random.Int64N(3), random.Int64N(3), float64(random.IntN(3)) / 7, float64(random.IntN(3)) * 1.1}})
	}
	return rows
}

// naiveOrder compares two rows by order_by: by the figure in its direction, then by ascending key.
func naiveOrder(order string, x, y referenceRow) int {
	byKey := cmp.Compare(x.key, y.key)
	by, descending := strings.CutPrefix(order, "-")
	byFigure := map[string]int{"clicks": cmp.Compare(x.Clicks, y.Clicks), "impressions": cmp.Compare(x.Impressions, y.Impressions),
		"ctr": cmp.Compare(x.CTR, y.CTR), "position": cmp.Compare(x.Position, y.Position), "key": byKey}[by]
	if descending {
		byFigure = -byFigure
	}
	return cmp.Or(byFigure, byKey)
}

func TestOrdersEqualNaiveSort(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	for _, order := range Orders() {
		for _, n := range []int{0, 1, 2, 13, 300} {
			rows := randomRows(random, n)
			for _, limit := range []int{1, 2, 100, 300, 1000} {
				params := mustParse(t, Breakdown(), fmt.Sprintf("order_by=%s&limit=%d", order, limit))
				data, meta := decode(t, breakdownHead(nil, params, ByPage, rowsOf(t, rows), Origin{Source: SourceLive}))
				want := slices.Clone(rows)
				slices.SortStableFunc(want, func(x, y referenceRow) int { return naiveOrder(order, x, y) })
				want = want[:min(limit, n)]
				got := data["rows"].([]any)
				if len(got) != len(want) || fmt.Sprintf("%v %v", meta["row_count"], meta["limit"]) != fmt.Sprintf("%d %d", len(want), limit) {
					t.Fatalf("%s, limit %d of %d: %d rows, meta %v", order, limit, n, len(got), meta)
				}
				for i, row := range got {
					m := row.(map[string]any)
					ctr, _ := m["ctr"].(json.Number).Float64()
					position, _ := m["position"].(json.Number).Float64()
					clicks, _ := m["clicks"].(json.Number).Int64()
					impressions, _ := m["impressions"].(json.Number).Int64()
					if got := (referenceRow{m["key"].(string), Metrics{clicks, impressions, ctr, position}}); got != want[i] {
						t.Fatalf("%s, limit %d of %d, row %d: %v, want %v", order, limit, n, i, got, want[i])
					}
				}
			}
		}
	}
}

func TestBreakdownResponseHasTheDocumentedMembers(t *testing.T) {
	for _, by := range []Dimension{ByQuery, ByPage, ByCountry, ByDevice} {
		params := mustParse(t, Breakdown(), "start_date=2026-06-10&end_date=2026-06-20")
		data, meta := decode(t, breakdownHead(nil, params, by, sampleRows(t), Origin{PropertyID: "p", Source: "hybrid", StaleReason: "why"}))
		wantKeys(t, data, "dimension", "rows")
		if data["dimension"] != by.String() {
			t.Errorf("dimension %v, want %s", data["dimension"], by)
		}
		for _, row := range data["rows"].([]any) {
			wantKeys(t, row, append(figures(), "key")...)
		}
		want := "map[cache:hit date_range:map[end_date:2026-06-13 preset:custom start_date:2026-06-10] has_more:false limit:100 " +
			"notes:[end_date 2026-06-20 was moved back to 2026-06-13, the last day with final data.] property_id:p request_id:req_1 row_count:4 " +
			"source:hybrid stale_reason:why total:<nil> truncated_by:<nil>]"
		if got := fmt.Sprint(meta); got != want {
			t.Errorf("meta\n got %s\nwant %s", got, want)
		}
	}
}

// truncated_by is clicks if the upstream's ranking cuts rows: more than the limit with -clicks, or a full sample.
func TestTruncatedBy(t *testing.T) {
	samples := map[int]*Rows{}
	for _, n := range []int{0, 99, 100, 101, 999, 1000, 1001, 24_999, 25_000} {
		rows, err := readRows(upstreamBody(n), ByQuery)
		if err != nil || rows.Len() != n {
			t.Fatal(n, err)
		}
		samples[n] = rows
	}
	f := func(order string, limit, rows int, want any) {
		t.Helper()
		params := mustParse(t, Breakdown(), fmt.Sprintf("order_by=%s&limit=%d", order, limit))
		data, meta := decode(t, breakdownHead(nil, params, ByQuery, samples[rows], Origin{Source: SourceLive}))
		if meta["truncated_by"] != want || len(data["rows"].([]any)) != min(limit, rows) {
			t.Errorf("%s, limit %d of %d rows: truncated by %v, %v rows, want %v", order, limit, rows, meta["truncated_by"], meta["row_count"], want)
		}
	}
	f("-clicks", 1000, 1001, "clicks")
	f("-clicks", 1000, 1000, nil)
	f("-clicks", 1000, 999, nil)
	f("-clicks", 1000, 0, nil)
	f("-clicks", 999, 1000, "clicks")
	f("-clicks", 100, 1001, "clicks")
	f("-clicks", 100, 101, "clicks")
	f("-clicks", 100, 100, nil)
	f("-clicks", 100, 99, nil)
	f("-clicks", 1, 1001, "clicks")
	f("-clicks", 1000, 25_000, "clicks")
	f("impressions", 1, 24_999, nil)
	f("impressions", 1, 25_000, "clicks")
	f("-ctr", 1000, 25_000, "clicks")
	for _, order := range Orders() {
		if order == DefaultOrder {
			continue
		}
		f(order, 100, 101, nil) // the limit cut another order than by clicks
		f(order, 1000, 1001, nil)
	}
}

// Figures are not rounded: they read back as the same float64.
func TestFiguresRoundTrip(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 12))
	f := func(want float64) {
		t.Helper()
		text := appendFloat(nil, want)
		var got float64
		if err := json.Unmarshal(text, &got); err != nil || got != want {
			t.Fatalf("%v came back from %s as %v, %v", want, text, got, err)
		}
	}
	for _, v := range []float64{0, 1, -1, 0.5, 100, -100, 1.0 / 3, 9.5440029550272758, 8.416666666666668, 0.011227344649457216, 9.8e-4, 1e-6,
		9.99e-7, 5e-324, 999999999999999, 1e15, 1e15 + 0.5, 1 << 53, 1e20, 1e21, -1e21, 2147483647, -99.99999999999999, 33.33333333333333,
		9007199254740992 * 100} {
		f(v)
	}
	for range 5000 {
		f(random.Float64())
		f(random.NormFloat64() * 1000)
		f(float64(random.Int64N(1000)) / float64(1+random.Int64N(1000)) * 100)
	}
	if got := string(appendFloat(nil, 74)); got != "74" {
		t.Errorf("whole numbers have a fraction: %s", got)
	}
}

// A character that needs an escape gets one wherever it is, and no other one does.
func TestStringsAreEscapedWhereverTheyNeedIt(t *testing.T) {
	t.Parallel()
	const longest = 17 // two words of eight bytes, and more
	for c := rune(0); c < 0x100; c++ {
		for at := range longest {
			for behind := range longest {
				text := strings.Repeat("~ ", at)[:at] + string(c) + strings.Repeat("é!", behind)
				got := string(appendString(nil, text))
				var back string
				if err := json.Unmarshal([]byte(got), &back); err != nil || back != text {
					t.Fatalf("%q is written as %s: %v", text, got, err)
				}
				if needs := c < ' ' || c == '"' || c == '\\'; needs != (len(got) > len(text)+len(`""`)) || got != string(appendString(nil, []byte(text))) {
					t.Fatalf("%q is written as %s", text, got)
				}
			}
		}
	}
}

package translate

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// A cell is the figures of a key on a day. The upstream's position of any sum of cells is the sum of positions by its impressions.
type cell struct {
	day                            Date
	key                            string
	clicks, impressions, positions int64
}

// randomCells has about half of the keys on each day of a range.
func randomCells(random *rand.Rand, r DateRange, keys []string) (cells []cell) {
	for day := r.Start; day <= r.End; day++ {
		for _, key := range keys {
			if random.IntN(2) == 0 {
				continue
			}
			n := 1 + random.Int64N(1_000_000)
			cells = append(cells, cell{day, key, random.Int64N(min(n, 40)), n, n + random.Int64N(99*n)})
		}
	}
	return cells
}

// answerOf is the upstream's answer: the sums of the accepted cells by a key, in its order.
func answerOf(t *testing.T, cells []cell, by Dimension, accept func(cell) bool) *Rows {
	t.Helper()
	sums := map[string]*cell{}
	for _, c := range cells {
		if !accept(c) {
			continue
		}
		name := map[Dimension]string{ByDate: c.day.String(), ByDayAndCountry: c.day.String() + " " + c.key,
			ByDayAndDevice: c.day.String() + " " + c.key}[by]
		name = cmp.Or(name, c.key)
		if sums[name] == nil {
			sums[name] = &cell{key: name}
		}
		sum := sums[name]
		sum.clicks, sum.impressions, sum.positions = sum.clicks+c.clicks, sum.impressions+c.impressions, sum.positions+c.positions
	}
	var ordered []*cell
	for _, sum := range sums {
		ordered = append(ordered, sum)
	}
	slices.SortFunc(ordered, func(a, b *cell) int {
		if by == ByDate {
			return cmp.Compare(a.key, b.key)
		}
		return cmp.Or(cmp.Compare(b.clicks, a.clicks), cmp.Compare(a.key, b.key))
	})
	var rows []string
	for _, sum := range ordered {
		rows = append(rows, fmt.Sprintf(`{"keys":["%s"],"clicks":%d,"impressions":%d,"ctr":%v,"position":%v}`, strings.ReplaceAll(sum.key, " ", `","`),
			sum.clicks, sum.impressions, float64(sum.clicks)/float64(sum.impressions), float64(sum.positions)/float64(sum.impressions)))
	}
	read, err := readRows([]byte(`{"rows":[`+strings.Join(rows, ",")+`]}`), by)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// wantSameRows reports the first difference, to the last bit.
func wantSameRows(t *testing.T, what string, got, want *Rows) {
	t.Helper()
	if got.Len() != want.Len() {
		t.Errorf("%s: %d rows, want %d", what, got.Len(), want.Len())
		return
	}
	for i := range want.Len() {
		if string(got.Key(i)) != string(want.Key(i)) || got.Metrics(i) != want.Metrics(i) {
			t.Errorf("%s: row %d is %s %+v, want %s %+v", what, i, got.Key(i), got.Metrics(i), want.Key(i), want.Metrics(i))
			return
		}
	}
}

// The rows that a plan cuts out of a grid equal, to the last bit, the upstream's answer for the range itself.
func TestGridsEqualDirectAnswers(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	w := NewWindow(day("2026-11-19"), 36)
	keys := map[Dimension][]string{ByCountry: {"usa", "gbr", "deu", "fra", "zzz"}, ByDevice: {"DESKTOP", "MOBILE", "TABLET"}}
	spelled := map[Dimension][]string{ByCountry: {"USA", "gbr", "che"}, ByDevice: {"MOBILE", "desktop"}}
	for range 200 {
		by := []Dimension{ByCountry, ByDevice}[random.IntN(2)]
		grid := gridQuery("s", by, w)
		cells := randomCells(random, DateRange{w.Anchor - 120, w.Anchor}, keys[by])
		end := w.Anchor - Date(random.IntN(40))
		p := &Params{Period: Period{DateRange: DateRange{end - Date(random.IntN(20)), end}}, Limit: 1000, Order: parseOrder(DefaultOrder),
			Compare: Comparison(random.IntN(2))}
		var conditions []Condition
		if random.IntN(2) == 0 {
			conditions = []Condition{{by.String(), []string{"equals", "notEquals"}[random.IntN(2)], spelled[by][random.IntN(len(spelled[by]))]}}
		}
		report, key := BreakdownReport(by), by
		if len(conditions) > 0 && random.IntN(2) == 0 {
			report, key = TimeseriesReport(), ByDate
		}
		fetch := report.Plan(p, Sources{Site: "s", Window: w}, conditions).Fetches[0]
		if got, want := string(fetch.Upstream.Body()), string(grid.Body()); got != want {
			t.Fatalf("the query is %s, want the grid %s", got, want)
		}
		in := func(r DateRange) func(cell) bool {
			return func(c cell) bool {
				return c.day >= r.Start && c.day <= r.End && (len(conditions) == 0 ||
					strings.EqualFold(c.key, conditions[0].Expression) == (conditions[0].Operator == "equals"))
			}
		}
		rows := answerOf(t, cells, grid.Dimension, func(c cell) bool { return c.day >= grid.Range.Start })
		if err := grid.Check(rows); err != nil {
			t.Fatal(err)
		}
		days := p.Period.DateRange
		if key == ByDate {
			days.Start = p.Period.Previous().Start
		}
		wantSameRows(t, fmt.Sprintf("seed %d: %s of %s to %s, %v", seed, key, days.Start, days.End, conditions), fetch.Read(rows),
			answerOf(t, cells, key, in(days)))
	}
}

func TestGridsArePlannedWhereTheyHaveAllRows(t *testing.T) {
	w := NewWindow(day("2026-11-19"), 36)
	f := func(r Report, period DateRange, s Sources, want Dimension, filters ...Condition) {
		t.Helper()
		s.Site, s.Window = "s", w
		p := &Params{Period: Period{DateRange: period}, Limit: 10, Order: parseOrder("position")}
		plan := r.Plan(p, s, filters)
		if got := plan.Fetches[0].Upstream.Dimension; got != want {
			t.Errorf("%s to %s, %v: %s, want %s", period.Start, period.End, filters, got, want)
		}
	}
	last := func(n int) DateRange { return DateRange{w.Anchor - Date(n) + 1, w.Anchor} }
	mobile, usa := Condition{"device", "equals", "MOBILE"}, Condition{"country", "notEquals", "usa"}
	countries, devices, queries := BreakdownReport(ByCountry), BreakdownReport(ByDevice), BreakdownReport(ByQuery)
	f(countries, last(96), Sources{}, ByDayAndCountry)
	f(countries, last(97), Sources{}, ByCountry)
	f(countries, last(28), Sources{NoGrids: true}, ByCountry)
	f(countries, last(28), Sources{}, ByDayAndCountry, usa)
	f(countries, last(28), Sources{}, ByCountry, mobile)
	f(countries, last(28), Sources{}, ByCountry, Condition{"country", "includingRegex", "^u"})
	f(devices, w.Live(), Sources{}, ByDayAndDevice)
	f(devices, last(28), Sources{}, ByDevice, usa)
	f(devices, last(28), Sources{}, ByDayAndDevice, mobile)
	f(devices, last(28), Sources{}, ByDevice, mobile, mobile)
	f(queries, last(28), Sources{}, ByQuery)
	f(queries, last(28), Sources{}, ByQuery, mobile)
	f(TimeseriesReport(), last(90), Sources{}, ByDayAndDevice, mobile)
	f(SummaryReport(), last(48), Sources{}, ByDayAndCountry, usa)
	f(SummaryReport(), last(49), Sources{}, ByDate, usa)
	f(SummaryReport(), last(28), Sources{}, ByDate)
	f(devices, last(28), Sources{Unpublished: w.Anchor - 1}, ByDayAndDevice)

	unpublished := devices.Plan(&Params{Period: Period{DateRange: last(1)}}, Sources{Site: "s", Window: w, Unpublished: w.Anchor}, nil)
	if len(unpublished.Fetches) > 0 {
		t.Errorf("a range of which no day is published reads %v", unpublished.Fetches)
	}
}

func TestGridQueries(t *testing.T) {
	w := NewWindow(day("2026-11-19"), 36)
	countries, devices := gridQuery("s", ByCountry, w), gridQuery("s", ByDevice, w)
	want := `{"startDate":"2026-08-16","endDate":"2026-11-19","dimensions":["date","country"],"type":"web","dataState":"final","rowLimit":25000}`
	if got := string(countries.Body()); got != want {
		t.Errorf("the query is %s, want %s", got, want)
	}
	if devices.Range != w.Live() || !strings.Contains(string(devices.Body()), `["date","device"]`) {
		t.Errorf("the grid of devices is %s", devices.Body())
	}
	for _, q := range []Query{countries, devices} {
		if q.Range.Days()*q.Dimension.mostKeys() > WideSample || !q.IsFull(WideSample) || q.IsFull(WideSample-1) {
			t.Errorf("%s has more rows than one call returns", q.Body())
		}
		if _, ok := q.Sibling(); ok || q.MaxBody() < 256<<10 || q.MaxBody() > 8<<20 {
			t.Errorf("%s has a sibling (%t), or a body of %d bytes", q.Body(), ok, q.MaxBody())
		}
	}
	if (Query{Dimension: ByQuery, RowLimit: 5}).IsFull(5) {
		t.Error("a sample need not have all rows")
	}
	for _, c := range []struct{ keys, problem string }{
		{`"2026-11-19","usa"`, ""},
		{`"2026-11-20","usa"`, `upstream row 0: "2026-11-20usa" does not begin with a day from 2026-08-16 to 2026-11-19`},
		{`"2026-08-15","usa"`, "does not begin with a day"},
		{`"usa","2026-11-19"`, "does not begin with a day"},
		{`"2026-11-19",""`, "does not begin with a day"},
		{`"2026-11-19"`, "not valid JSON"},
		{`"2026-11-19","usa","x"`, "not valid JSON"},
		{`"2026-11-19","usa"],"clicks":1,"impressions":1},{"keys":["2026-11-19","USA"`, "is there twice"},
	} {
		rows, err := readRows([]byte(`{"rows":[{"keys":[`+c.keys+`],"clicks":1,"impressions":2}]}`), ByDayAndCountry)
		if err == nil {
			err = countries.Check(rows)
		}
		if c.problem == "" && err != nil || c.problem != "" && (err == nil || c.problem != "not valid JSON" && !strings.Contains(err.Error(), c.problem)) {
			t.Errorf("%s: %v, want %q", c.keys, err, c.problem)
		}
	}
}

// A narrow sample that was enlarged is complete unless it is full, and answers like the wide one.
func TestEnlargedSamples(t *testing.T) {
	r := DateRange{Start: day("2026-06-01"), End: day("2026-06-13")}
	narrow := SampleQuery("s", ByQuery, r, nil, parseOrder(DefaultOrder), 1)
	wide, _ := narrow.Sibling()
	enlarged, ok := narrow.Enlarged()
	if !ok || enlarged.RowLimit != EnlargedSample {
		t.Errorf("it is enlarged to %d (%t)", enlarged.RowLimit, ok)
	}
	for rows, want := range map[int]bool{0: true, NarrowSample - 1: true, NarrowSample: false, NarrowSample + 1: true,
		EnlargedSample - 1: true, EnlargedSample: false} {
		if wide.AnsweredBy(narrow, rows) != want {
			t.Errorf("a narrow sample of %d rows answers the wide query: %t", rows, !want)
		}
	}
	filtered := SampleQuery("s", ByQuery, r, []Condition{{"device", "equals", "MOBILE"}}, parseOrder(DefaultOrder), 1)
	for _, q := range []Query{wide, enlarged, filtered, SeriesQuery("s", r, nil), WideQuery("s", ByDevice, r)} {
		if _, ok := q.Enlarged(); ok {
			t.Errorf("%s is enlarged", q.Body())
		}
	}
}

package gscsim

import (
	"reflect"
	"slices"
	"testing"
)

func TestRowsOfADayAreTruncatedByClicks(t *testing.T) {
	w := newWorld(worldKey{seed: 1, url: "sc-domain:example.com", brand: "example", queries: 400, pages: 50})
	evaluate := func(dimensions []dimension, from, to day, perDay int) []row {
		e := &evaluation{
			parsedQuery: &parsedQuery{from: from, to: to, dimensions: dimensions, aggregation: pageAggregation, limit: 1 << 30},
			world:       w, extent: extent{first: 20000, final: 20100, clock: clock{today: 20102}}, filterMask: &filterMask{},
			hours: func(day) int { return 24 }, perDay: perDay, loaded: new(loadedDay),
		}
		rows, err := e.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	dimensions := []dimension{byQuery, byCountry}
	whole := evaluate(dimensions, 20050, 20050, maxRowsPerDay)
	if cut := evaluate(dimensions, 20050, 20050, 100); len(whole) <= 200 || !reflect.DeepEqual(cut, whole[:100]) {
		t.Errorf("cut to %d of %d rows, not the first hundred", len(cut), len(whole))
	}
	dated := evaluate([]dimension{byDate, byQuery, byCountry}, 20050, 20052, 100)
	if len(dated) != 300 {
		t.Errorf("three days have %d rows", len(dated))
	}
	// Over several days each day is truncated separately, before the days are added up.
	sum := map[uint64]row{}
	for _, r := range dated {
		s := sum[r.key]
		sum[r.key] = row{key: r.key, clicks: s.clicks + r.clicks, impressions: s.impressions + r.impressions, positions: s.positions + r.positions}
	}
	days := evaluate(dimensions, 20050, 20052, 100)
	for _, r := range days {
		if sum[r.key] != r {
			t.Fatalf("row %+v, its days sum to %+v", r, sum[r.key])
		}
	}
	if len(days) != len(sum) {
		t.Errorf("%d rows over three days, want %d", len(days), len(sum))
	}
}

func TestFirstRowsDoNotDependOnTheLimit(t *testing.T) {
	var rows []row
	for key := range uint64(60) {
		rows = append(rows, row{key: key * 37 % 60, clicks: key % 4 * (key % 3)})
	}
	all := inOrder(slices.Clone(rows), len(rows))
	for n := range len(rows) + 2 {
		if got, want := inOrder(slices.Clone(rows), n), all[:min(n, len(all))]; len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
			t.Errorf("the first %d of %d rows are %v, want %v", n, len(rows), got, want)
		}
	}
}

func TestDenseAndSparseGroupingsAgree(t *testing.T) {
	w := newWorld(worldKey{seed: 1, url: "sc-domain:example.com", brand: "example", queries: 400, pages: 50})
	dimensions := []dimension{byPage, byDevice, byQuery}
	dense, sparse := newGrouping(w, dimensions), newGrouping(w, dimensions)
	sparse.dense, sparse.sparse = nil, map[uint64]int32{}
	e := &evaluation{parsedQuery: &parsedQuery{aggregation: pageAggregation}, world: w, filterMask: &filterMask{}, loaded: new(loadedDay)}
	for range 2 { // the second time after take has emptied them
		e.loaded.cells = w.appendDay(nil, 20050)
		e.addCells(dense)
		e.addCells(sparse)
		if a, b := dense.take(maxRowsPerDay), sparse.take(maxRowsPerDay); dense.dense == nil || len(a) == 0 || !reflect.DeepEqual(a, b) {
			t.Errorf("%d rows by slice, %d by map", len(a), len(b))
		}
	}
}

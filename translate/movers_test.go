package translate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// naiveMover is a mover with the members of the spec.
type naiveMover struct {
	Key                 string
	Clicks              int64
	PreviousClicks      int64   `json:"previous_clicks"`
	Delta               int64   `json:"clicks_delta"`
	ChangePct           float64 `json:"clicks_change_pct"`
	Impressions         int64
	PreviousImpressions int64 `json:"previous_impressions"`
	Position            float64
	PreviousPosition    float64 `json:"previous_position"`
}

// naiveMovers compares two periods with a map.
func naiveMovers(now, previous []referenceRow, minClicks int64, limit int) (gainers, losers []naiveMover) {
	union := map[string]naiveMover{}
	for _, row := range now {
		union[row.key] = naiveMover{Key: row.key, Clicks: row.Clicks, Impressions: row.Impressions, Position: row.Position}
	}
	for _, row := range previous {
		m := union[row.key]
		m.Key, m.PreviousClicks, m.PreviousImpressions, m.PreviousPosition = row.key, row.Clicks, row.Impressions, row.Position
		union[row.key] = m
	}
	for _, key := range slices.Sorted(maps.Keys(union)) {
		m := union[key]
		m.Delta, m.ChangePct = m.Clicks-m.PreviousClicks, 100
		if m.PreviousClicks != 0 {
			m.ChangePct = float64(m.Delta) / float64(m.PreviousClicks) * 100
		}
		if m.Clicks < minClicks && m.PreviousClicks < minClicks {
			continue
		}
		if m.Delta > 0 {
			gainers = append(gainers, m)
		} else if m.Delta < 0 {
			losers = append(losers, m)
		}
	}
	slices.SortStableFunc(gainers, func(x, y naiveMover) int { return cmp.Compare(y.Delta, x.Delta) })
	slices.SortStableFunc(losers, func(x, y naiveMover) int { return cmp.Compare(x.Delta, y.Delta) })
	return gainers[:min(limit, len(gainers))], losers[:min(limit, len(losers))]
}

// moversOf decodes both lists of a response.
func moversOf(t *testing.T, a Head) (gainers, losers []naiveMover) {
	t.Helper()
	var envelope struct {
		Data struct{ Gainers, Losers []naiveMover }
	}
	if err := json.Unmarshal(envelopeOf(a, "hit"), &envelope); err != nil {
		t.Fatal(err)
	}
	return envelope.Data.Gainers, envelope.Data.Losers
}

func TestMoversEqualNaiveComparison(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 14))
	period := func() []referenceRow {
		rows := map[string]referenceRow{}
		for range random.IntN(60) {
			key := fmt.Sprintf("k%d", random.IntN(60))
			rows[key] = referenceRow{key, Metrics{random.Int64N(8), random.Int64N(100), random.Float64(), random.Float64() * 90}}
		}
		// Equal clicks have no order, in the map as in the upstream.
		return slices.Collect(maps.Values(rows))
	}
	for range 100 {
		now, previous := period(), period()
		minClicks, limit := random.IntN(9), 1+random.IntN(50)
		params := mustParse(t, Movers(), fmt.Sprintf("min_clicks=%d&limit=%d", minClicks, limit))
		a := moversHead(nil, params, ByQuery, rowsOf(t, now), rowsOf(t, previous), Origin{Source: SourceLive})
		gainers, losers := moversOf(t, a)
		wantGainers, wantLosers := naiveMovers(now, previous, int64(minClicks), limit)
		if !slices.Equal(gainers, wantGainers) || !slices.Equal(losers, wantLosers) {
			t.Fatalf("min_clicks %d, limit %d:\n now %v\nprevious %v\n got %v\n     %v\nwant %v\n     %v", minClicks, limit, now, previous, gainers,
				losers, wantGainers, wantLosers)
		}
		_, meta := decode(t, a)
		if fmt.Sprintf("%v %v %v", meta["row_count"], meta["limit"], meta["truncated_by"]) != fmt.Sprintf("%d %d <nil>", len(gainers)+len(losers), limit) {
			t.Fatalf("%d gainers, %d losers, meta %v", len(gainers), len(losers), meta)
		}
	}
}

func TestMoversResponseHasTheDocumentedMembers(t *testing.T) {
	now := rowsOf(t, []referenceRow{{"new", Metrics{5, 50, 0.1, 3}}, {"up", Metrics{6, 1, 1, 1}}, {"down", Metrics{1, 3, 0.3, 4}},
		{"same", Metrics{4, 4, 1, 1}}})
	previous := rowsOf(t, []referenceRow{{"gone", Metrics{3, 30, 0.1, 8.5}}, {"up", Metrics{3, 9, 0.3, 2}}, {"down", Metrics{4, 4, 1, 2.5}},
		{"same", Metrics{4, 9, 0.4, 9}}})
	params := mustParse(t, Movers(), "start_date=2026-06-10&end_date=2026-06-12")
	a := moversHead(nil, params, ByPage, now, previous, Origin{Source: SourceLive})
	data, _ := decode(t, a)
	wantKeys(t, data, "dimension", "previous_range", "gainers", "losers")
	if got := fmt.Sprintf("%v %v", data["dimension"], data["previous_range"]); got != "page map[end_date:2026-06-09 start_date:2026-06-07]" {
		t.Errorf("dimension and previous range: %s", got)
	}
	for _, list := range []string{"gainers", "losers"} {
		for _, m := range data[list].([]any) {
			wantKeys(t, m, "key", "clicks", "previous_clicks", "clicks_delta", "clicks_change_pct", "impressions", "previous_impressions",
				"position", "previous_position")
		}
	}
	gainers, losers := moversOf(t, a)
	wantGainers := []naiveMover{{"new", 5, 0, 5, 100, 50, 0, 3, 0}, {"up", 6, 3, 3, 100, 1, 9, 1, 2}}
	wantLosers := []naiveMover{{"down", 1, 4, -3, -75, 3, 4, 4, 2.5}, {"gone", 0, 3, -3, -100, 0, 30, 0, 8.5}} // equal losses, by key
	if !slices.Equal(gainers, wantGainers) || !slices.Equal(losers, wantLosers) {
		t.Errorf("got %v\n    %v\nwant %v\n    %v", gainers, losers, wantGainers, wantLosers)
	}
}

// A key that fell from ten clicks to zero is above a floor of ten.
func TestMinClicksAppliesToTheLargerPeriod(t *testing.T) {
	now := rowsOf(t, []referenceRow{{"a", Metrics{Clicks: 10}}, {"b", Metrics{Clicks: 9}}})
	previous := rowsOf(t, []referenceRow{{"c", Metrics{Clicks: 10}}, {"d", Metrics{Clicks: 9}}})
	for minClicks, want := range map[int]string{0: "a b c d", 9: "a b c d", 10: "a - c -", 11: "- - - -"} {
		params := mustParse(t, Movers(), fmt.Sprintf("min_clicks=%d", minClicks))
		gainers, losers := moversOf(t, moversHead(nil, params, ByQuery, now, previous, Origin{Source: SourceLive}))
		got := ""
		for _, list := range [][]naiveMover{gainers, losers} {
			for i := range 2 {
				if i < len(list) {
					got += " " + list[i].Key
				} else {
					got += " -"
				}
			}
		}
		if got[1:] != want {
			t.Errorf("min_clicks %d: %s, want %s", minClicks, got[1:], want)
		}
	}
}

// If either sample is full, rows beyond it may have moved too.
func TestMoversOfFullSamplesAreTruncated(t *testing.T) {
	read := func(n int) *Rows {
		rows, err := readRows(upstreamBody(n), ByQuery)
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	full, short := read(WideSample), read(WideSample-1)
	params := mustParse(t, Movers(), "")
	f := func(now, previous *Rows, want any) {
		t.Helper()
		if _, meta := decode(t, moversHead(nil, params, ByQuery, now, previous, Origin{Source: SourceLive})); meta["truncated_by"] != want {
			t.Errorf("%d and %d rows: truncated by %v, want %v", now.Len(), previous.Len(), meta["truncated_by"], want)
		}
	}
	f(short, short, nil) // the limit cuts the lists, but the samples have all rows
	f(full, short, "clicks")
	f(short, full, "clicks")
}

package translate

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

// seriesBody returns an upstream body by date.
func seriesBody(rows ...string) []byte {
	return []byte(`{"rows":[` + strings.Join(rows, ",") + `]}`)
}

func seriesRow(date string, clicks, impressions int, position string) string {
	return fmt.Sprintf(`{"keys":["%s"],"clicks":%d,"impressions":%d,"ctr":0.25,"position":%s}`, date, clicks, impressions, position)
}

func TestSeriesHasZerosForDaysWithoutData(t *testing.T) {
	r := DateRange{Start: day("2026-02-26"), End: day("2026-03-02")}
	f := func(body []byte, want ...Metrics) {
		t.Helper()
		s, err := readSeries(body, r)
		if err != nil {
			t.Error(err)
			return
		}
		for i, m := range want {
			d := r.Start + Date(i)
			if s.days[i] != m {
				t.Errorf("%s: %v, want %v", d, s.days[i], m)
			}
		}
		if len(s.days) != len(want) {
			t.Errorf("%d days, want %d", len(s.days), len(want))
		}
	}
	var zero Metrics
	f([]byte(`{"responseAggregationType":"byProperty"}`), zero, zero, zero, zero, zero)
	f(seriesBody(), zero, zero, zero, zero, zero)
	f(seriesBody(seriesRow("2026-02-27", 1, 4, "2.5"), seriesRow("2026-03-02", 2, 8, "3")),
		zero, Metrics{1, 4, 0.25, 2.5}, zero, zero, Metrics{2, 8, 0.25, 3})
	f(seriesBody(seriesRow("2026-03-02", 2, 8, "3"), seriesRow("2026-02-26", 1, 4, "2.5")),
		Metrics{1, 4, 0.25, 2.5}, zero, zero, zero, Metrics{2, 8, 0.25, 3})
	f(seriesBody(`{"keys":["2026-02-28"],"clicks":0,"impressions":0,"ctr":0,"position":0}`), zero, zero, zero, zero, zero)
}

func TestSeriesRefusesUnexpectedDays(t *testing.T) {
	r := DateRange{Start: day("2026-02-26"), End: day("2026-03-02")}
	f := func(body []byte, want string) {
		t.Helper()
		if s, err := readSeries(body, r); err == nil || err.Error() != want || s != nil {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for _, key := range []string{"2026-02-25", "2026-03-03", "2025-03-01", "20260301", "", "2026-02-29", "2026-03-01T00:00:00", "usa"} {
		f(seriesBody(seriesRow(key, 1, 1, "1")), fmt.Sprintf("upstream row 0: %q is not a day from 2026-02-26 to 2026-03-02", key))
	}
	f(seriesBody(seriesRow("2026-03-01", 1, 1, "1"), seriesRow("2026-03-01", 1, 1, "1")), "upstream row 1: 2026-03-01 is there twice")
	f(seriesBody(seriesRow("2026-03-01", 0, 0, "0"), seriesRow("2026-03-02", 1, 1, "1"), seriesRow("2026-03-01", 1, 1, "1")),
		"upstream row 2: 2026-03-01 is there twice")
	f([]byte(`{"rows":`), "upstream body, after 0 rows and 8 bytes: invalid JSON, or not a response")
	f([]byte(`{"rows":[{"clicks":125,"impressions":2137,"ctr":0.05,"position":31.5}]}`),
		"upstream body, after 0 rows and 69 bytes: a row without keys, clicks or impressions")
}

func TestTotalsWeightPositionByImpressions(t *testing.T) {
	r := DateRange{Start: day("2026-03-01"), End: day("2026-03-04")}
	s, err := readSeries(seriesBody(seriesRow("2026-03-01", 1, 10, "1"), seriesRow("2026-03-02", 3, 30, "5"), seriesRow("2026-03-04", 0, 0, "7")), r)
	if err != nil {
		t.Fatal(err)
	}
	f := func(start, end string, want Metrics) {
		t.Helper()
		if got := s.Totals(DateRange{Start: day(start), End: day(end)}); got != want {
			t.Errorf("%s to %s: %v, want %v", start, end, got, want)
		}
	}
	f("2026-03-01", "2026-03-04", Metrics{4, 40, 0.1, 4})
	f("2026-03-01", "2026-03-01", Metrics{1, 10, 0.1, 1})
	f("2026-03-02", "2026-03-03", Metrics{3, 30, 0.1, 5})
	f("2026-03-03", "2026-03-04", Metrics{}) // no impressions, no position, whatever the days have
	f("2026-03-04", "2026-03-04", Metrics{})
}

func TestTotalsEqualExactArithmetic(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	r := DateRange{Start: day("2025-02-14"), End: day("2026-06-13")}
	for range 20 {
		s := &Series{first: r.Start, days: make([]Metrics, r.Days())}
		for i := range s.days {
			if random.IntN(5) == 0 {
				continue
			}
			impressions := random.Int64N(1 + 1<<random.IntN(40))
			s.days[i] = Metrics{Clicks: impressions / (1 + random.Int64N(30)), Impressions: impressions, Position: 1 + 100*random.Float64()}
		}
		start := r.Start + Date(random.IntN(r.Days()))
		part := DateRange{Start: start, End: start + Date(random.IntN(int(r.End-start)+1))}
		var clicks, impressions int64
		positions := new(big.Rat)
		for d := part.Start; d <= part.End; d++ {
			m := s.days[d-r.Start]
			clicks, impressions = clicks+m.Clicks, impressions+m.Impressions
			positions.Add(positions, new(big.Rat).Mul(new(big.Rat).SetFloat64(m.Position), new(big.Rat).SetInt64(m.Impressions)))
		}
		got := s.Totals(part)
		if got.Clicks != clicks || got.Impressions != impressions {
			t.Fatalf("%v: %d clicks, %d impressions, want %d, %d", part, got.Clicks, got.Impressions, clicks, impressions)
		}
		if impressions == 0 {
			continue
		}
		position, _ := positions.Quo(positions, new(big.Rat).SetInt64(impressions)).Float64()
		ctr, _ := big.NewRat(clicks, impressions).Float64()
		if math.Abs(got.Position-position) > 1e-12*position || math.Abs(got.CTR-ctr) > 1e-15 {
			t.Errorf("%v: position %v, CTR %v, want %v, %v", part, got.Position, got.CTR, position, ctr)
		}
	}
}

// readSeries reads the body of a response to a SeriesQuery over r.
func readSeries(body []byte, r DateRange) (*Series, error) {
	rows, err := readRows(body, ByDate)
	if err != nil {
		return nil, err
	}
	return SeriesOf(rows, r)
}

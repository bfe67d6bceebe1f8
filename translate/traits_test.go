package translate

import (
	"strings"
	"testing"
)

func TestReadRowsReadsWhatTheUpstreamSaysOfAllRows(t *testing.T) {
	f := func(body string, want traits) {
		t.Helper()
		rows, err := readRows([]byte(body), ByDate)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if rows.traits != want {
			t.Errorf("%s: %+v, want %+v", body, rows.traits, want)
		}
		if again, err := decodeRows(encoded(rows)); err != nil || again.traits != want {
			t.Errorf("%s: decoded %+v, %v", body, again, err)
		}
	}
	const row = `{"keys":["2026-06-01"],"clicks":1,"impressions":2,"ctr":0.5,"position":1}`
	incomplete := day("2026-06-12")
	f(`{"rows":[`+row+`],"responseAggregationType":"byProperty"}`, traits{})
	f(`{"responseAggregationType":"byPage","rows":[`+row+`]}`, traits{byPage: true})
	f(`{"responseAggregationType":"byPage"}`, traits{byPage: true})
	f(`{"rows":[`+row+`]}`, traits{})
	f(`{"rows":[],"metadata":{"firstIncompleteDate":"2026-06-12"}}`, traits{incomplete: incomplete})
	f(`{"rows":[],"metadata":{"other":{"a":[1]},"first_incomplete_date":"2026-06-12","firstIncompleteHour":"2026-06-12T05:00:00-07:00"}}`,
		traits{incomplete: incomplete})
	f(`{"rows":[],"metadata":{}}`, traits{})
	f(`{"rows":[],"metadata":null,"responseAggregationType":null}`, traits{})
	if _, err := readRows([]byte(`{"rows":[],"metadata":{"firstIncompleteDate":"soon"}}`), ByDate); err == nil ||
		!strings.Contains(err.Error(), "metadata") {
		t.Errorf("a day that is none: %v", err)
	}
}

// Days that the upstream calls incomplete are not published yet, whatever figures they have.
func TestIncompleteDaysAreNotPublished(t *testing.T) {
	anchor := day("2026-06-13")
	var b RowsBuilder
	for d := anchor - 5; d <= anchor; d++ {
		b.Add([]byte(d.String()), Metrics{Clicks: 1, Impressions: 1, CTR: 1, Position: 1})
	}
	rows := b.Rows()
	rows.traits.incomplete = anchor - 1
	k := KnownDaysOf(rows, DateRange{Start: anchor - 30, End: anchor})
	if _, last, ok := k.Bounds(); !ok || last != anchor-2 || k.Unpublished(anchor) != anchor-1 || k.Unpublished(anchor-2) != 0 {
		t.Errorf("the last day is %s, unpublished from %s", last, k.Unpublished(anchor))
	}
	if got := k.Published(anchor); got != anchor-2 {
		t.Errorf("published for certain until %s, want %s", got, anchor-2)
	}
	merged := new(Merger).Merge(ByDate, 0, new(Rows), rows)
	if merged.traits != rows.traits {
		t.Errorf("merged with archived days: %+v", merged.traits)
	}
}

func TestFiguresCountedByPageHaveANote(t *testing.T) {
	body := `{"rows":[{"keys":["shoes"],"clicks":1,"impressions":2,"ctr":0.5,"position":1}],"responseAggregationType":"byPage"}`
	f := func(p *Params, by Dimension, want int) {
		t.Helper()
		rows, err := readRows([]byte(body), by)
		if err != nil {
			t.Fatal(err)
		}
		if notes := p.aggregationNotes(rows, by); len(notes) != want {
			t.Errorf("by %s: %q, want %d", by, notes, want)
		}
	}
	f(new(Params), ByQuery, 1)
	f(new(Params), ByPage, 0)                           // the keys are pages
	f(&Params{Notes: []string{byPageNote}}, ByQuery, 0) // the filter's own note says it
	f(&Params{Notes: []string{"another note"}}, ByQuery, 1)
}

package translate

import (
	"encoding/binary"
	"fmt"
)

// A Report is what a performance endpoint reports: which questions to the upstream it comes from, and how their rows become
// its answer. The questions are wider than the request wherever that costs the upstream nothing, so that one answer serves
// the requests to come.
type Report struct {
	kind reportKind
	by   Dimension
}

type reportKind uint8

const (
	summary reportKind = iota
	timeseries
	breakdown
	movers
)

// The reports of the endpoints that carry their names; by is what rows are keyed by.
func SummaryReport() Report               { return Report{kind: summary, by: ByDate} }
func TimeseriesReport() Report            { return Report{kind: timeseries, by: ByDate} }
func BreakdownReport(by Dimension) Report { return Report{kind: breakdown, by: by} }
func MoversReport(by Dimension) Report    { return Report{kind: movers, by: by} }

// Queries returns the questions whose rows Head takes, in its order: one, or for the movers the period and then the one
// before it. The conditions are the Ask's filters, as Conditions returns them; w covers the Ask's Span.
func (r Report) Queries(a *Ask, site string, w Window, conditions []Condition) []Query {
	switch r.kind {
	case summary, timeseries:
		return []Query{SeriesQuery(site, seriesRange(a, w, len(conditions) > 0), conditions)}
	case breakdown:
		return []Query{SampleQuery(site, r.by, a.Period.DateRange, conditions, a.Order)}
	case movers:
		return []Query{WideQuery(site, r.by, a.Period.DateRange), WideQuery(site, r.by, a.Period.Previous())}
	}
	panic(fmt.Sprintf("BUG: report %d has no questions", r.kind))
}

// seriesRange returns the days to ask for: all that the upstream has, since one row a day costs it little and one answer
// then serves every range. With filters it costs more the longer the range is, so that it is only as much as serves the
// period, compared or not.
func seriesRange(a *Ask, w Window, filtered bool) DateRange {
	if !filtered {
		return DateRange{Start: w.Live, End: w.Anchor}
	}
	return DateRange{Start: max(w.Live, a.Period.Previous().Start), End: a.Period.End}
}

// Head writes the answer from the rows of the Queries. It fails only on rows that no answer to them can hold.
func (r Report) Head(a *Ask, queries []Query, rows []*Rows, origin Origin) (Head, error) {
	switch r.kind {
	case breakdown:
		return breakdownHead(a, r.by, rows[0], origin), nil
	case movers:
		return moversHead(a, r.by, rows[0], rows[1], origin), nil
	}
	series, err := SeriesOf(rows[0], queries[0].Range)
	if err != nil {
		return nil, err
	}
	if r.kind == summary {
		return summaryHead(a, series, origin), nil
	}
	return timeseriesHead(a, series, origin), nil
}

// AppendKey appends what tells the report's answer to the Ask from any other about the same property: two requests have
// equal keys if and only if they have equal heads of equal rows. The conditions are those of Queries.
func (r Report) AppendKey(dst []byte, a *Ask, conditions []Condition) []byte {
	compare := byte(0)
	if a.Compare {
		compare = 1
	}
	dst = append(dst, byte(r.kind), byte(r.by), compare)
	for _, n := range [...]int{int(a.Period.Start), int(a.Period.End), a.Limit, a.MinClicks} {
		dst = binary.AppendVarint(dst, int64(n))
	}
	dst = appendText(dst, a.Period.Preset)
	dst = a.Order.appendKey(dst)
	dst = binary.AppendUvarint(dst, uint64(len(a.Notes)))
	for _, note := range a.Notes {
		dst = appendText(dst, note)
	}
	for _, c := range conditions {
		dst = appendText(appendText(appendText(dst, c.Dimension), c.Operator), c.Expression)
	}
	return dst
}

func (o Order) appendKey(dst []byte) []byte {
	if o.Descending {
		dst = append(dst, '-')
	}
	return appendText(dst, o.By)
}

// appendText appends a text and its length, so that no two lists of texts look alike.
func appendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

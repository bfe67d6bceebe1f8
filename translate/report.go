package translate

import (
	"encoding/binary"
	"fmt"
)

// A Report is what a performance endpoint reports: which rows it comes from, and how they become its answer. The questions are wider than the request wherever that costs the upstream nothing, so that one answer serves
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

// A Fetch is one set of rows that a report comes from: the upstream's for the days that it has, the archive's for those
// before them, or both.
type Fetch struct {
	By       Dimension
	Range    DateRange  // what the rows may be of
	Upstream *Query     // what the upstream is asked; nil for nothing
	Archive  *DateRange // what the archive is asked; nil for nothing
}

// Fetches returns the rows that Head takes, in its order: one set, or for the movers that of the period and then that of the
// one before it. The conditions are the Ask's filters, as Conditions returns them; the archive knows of none. The upstream
// has the days from w.Live to w.Anchor.
func (r Report) Fetches(a *Params, site string, w Window, conditions []Condition) []Fetch {
	switch r.kind {
	case summary, timeseries:
		return []Fetch{seriesFetch(a, site, w, conditions)}
	case breakdown:
		return []Fetch{sampleFetch(a.Period.DateRange, w, func(live DateRange) Query {
			if live != a.Period.DateRange {
				return WideQuery(site, r.by, live) // what is to be added to other rows needs all of them
			}
			return SampleQuery(site, r.by, live, conditions, a.Order)
		}, r.by)}
	case movers:
		wide := func(live DateRange) Query { return WideQuery(site, r.by, live) }
		return []Fetch{sampleFetch(a.Period.DateRange, w, wide, r.by), sampleFetch(a.Period.Previous(), w, wide, r.by)}
	}
	panic(fmt.Sprintf("BUG: report %d has no needs", r.kind))
}

// seriesFetch asks the upstream for all days that it has, since one row a day costs it little and one answer then serves
// every range. With filters it costs more the longer the range is, so that it is only as much as serves the period,
// compared or not.
func seriesFetch(a *Params, site string, w Window, conditions []Condition) Fetch {
	span := a.Span()
	need := Fetch{By: ByDate, Range: span}
	if span.End >= w.UpstreamStart {
		live := DateRange{Start: w.UpstreamStart, End: w.Anchor}
		if len(conditions) > 0 {
			live = DateRange{Start: max(w.UpstreamStart, a.Period.Previous().Start), End: a.Period.End}
		}
		q := SeriesQuery(site, live, conditions)
		need.Upstream, need.Range = &q, DateRange{Start: min(span.Start, live.Start), End: live.End}
	}
	need.Archive = archivePart(span, w)
	return need
}

func sampleFetch(r DateRange, w Window, query func(live DateRange) Query, by Dimension) Fetch {
	need := Fetch{By: by, Range: r, Archive: archivePart(r, w)}
	if r.End >= w.UpstreamStart {
		q := query(DateRange{Start: max(r.Start, w.UpstreamStart), End: r.End})
		need.Upstream = &q
	}
	return need
}

// archivePart returns the days of r that the upstream does not have any more, nil if there are none.
func archivePart(r DateRange, w Window) *DateRange {
	if r.Start >= w.UpstreamStart {
		return nil
	}
	return &DateRange{Start: r.Start, End: min(r.End, w.UpstreamStart-1)}
}

// Head writes the answer from the rows of the needs. It fails only on rows that no answer to them can hold.
func (r Report) Head(a *Params, needs []Fetch, rows []*Rows, origin Origin) (Head, error) {
	switch r.kind {
	case breakdown:
		return breakdownHead(a, r.by, rows[0], origin), nil
	case movers:
		return moversHead(a, r.by, rows[0], rows[1], origin), nil
	}
	series, err := SeriesOf(rows[0], needs[0].Range)
	if err != nil {
		return nil, err
	}
	if r.kind == summary {
		return summaryHead(a, series, origin), nil
	}
	return timeseriesHead(a, series, origin), nil
}

// AppendKey appends what tells the report's answer to the Ask from any other about the same property: two requests have
// equal keys if and only if they have equal heads of equal rows. The conditions are those of Needs.
func (r Report) AppendKey(dst []byte, a *Params, conditions []Condition) []byte {
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

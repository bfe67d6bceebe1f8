package translate

import (
	"encoding/binary"
	"fmt"
)

// A Report is the kind of response of a performance endpoint: it knows which rows the response needs, and writes it from
// them. It widens the queries wherever that costs no more upstream quota, so that one result answers later requests too.
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

// The reports of the endpoints with these names; by is the key of the rows.
func SummaryReport() Report               { return Report{kind: summary, by: ByDate} }
func TimeseriesReport() Report            { return Report{kind: timeseries, by: ByDate} }
func BreakdownReport(by Dimension) Report { return Report{kind: breakdown, by: by} }
func MoversReport(by Dimension) Report    { return Report{kind: movers, by: by} }

// A Fetch is one set of rows that a report needs: from the upstream the days that it still has, from the archive the days
// before them.
type Fetch struct {
	By       Dimension
	Range    DateRange  // the rows may be of any of these days
	Upstream *Query     // nil if no day is in the upstream's reach
	Archive  *DateRange // nil if all days are
}

// Fetches returns the rows that Head needs, in its order: one set, or for the movers one for the period and one for the
// previous period. conditions are the expanded filters, which the archive does not support. The upstream has the days from
// w.UpstreamStart to w.Anchor.
func (r Report) Fetches(p *Params, site string, w Window, conditions []Condition) []Fetch {
	switch r.kind {
	case summary, timeseries:
		return []Fetch{seriesFetch(p, site, w, conditions)}
	case breakdown:
		return []Fetch{sampleFetch(p.Period.DateRange, w, func(live DateRange) Query {
			if live != p.Period.DateRange {
				return WideQuery(site, r.by, live) // to add archived rows, a sum needs all rows
			}
			return SampleQuery(site, r.by, live, conditions, p.Order)
		}, r.by)}
	case movers:
		wide := func(live DateRange) Query { return WideQuery(site, r.by, live) }
		return []Fetch{sampleFetch(p.Period.DateRange, w, wide, r.by), sampleFetch(p.Period.Previous(), w, wide, r.by)}
	}
	panic(fmt.Sprintf("BUG: report %d has no fetches", r.kind))
}

// seriesFetch queries all days that the upstream has: one row a day is cheap, and one result then answers every range. With
// filters a longer range costs more upstream quota, so the query covers the period and the previous one only.
func seriesFetch(p *Params, site string, w Window, conditions []Condition) Fetch {
	span := p.Span()
	fetch := Fetch{By: ByDate, Range: span}
	if span.End >= w.UpstreamStart {
		live := DateRange{Start: w.UpstreamStart, End: w.Anchor}
		if len(conditions) > 0 {
			live = DateRange{Start: max(w.UpstreamStart, p.Period.Previous().Start), End: p.Period.End}
		}
		q := SeriesQuery(site, live, conditions)
		fetch.Upstream, fetch.Range = &q, DateRange{Start: min(span.Start, live.Start), End: live.End}
	}
	fetch.Archive = archivePart(span, w)
	return fetch
}

func sampleFetch(r DateRange, w Window, query func(live DateRange) Query, by Dimension) Fetch {
	fetch := Fetch{By: by, Range: r, Archive: archivePart(r, w)}
	if r.End >= w.UpstreamStart {
		q := query(DateRange{Start: max(r.Start, w.UpstreamStart), End: r.End})
		fetch.Upstream = &q
	}
	return fetch
}

// archivePart returns the days of r that the upstream no longer has, or nil.
func archivePart(r DateRange, w Window) *DateRange {
	if r.Start >= w.UpstreamStart {
		return nil
	}
	return &DateRange{Start: r.Start, End: min(r.End, w.UpstreamStart-1)}
}

// Head writes the response from the rows of the fetches. It fails on rows that cannot be a result of them.
func (r Report) Head(p *Params, fetches []Fetch, rows []*Rows, origin Origin) (Head, error) {
	switch r.kind {
	case breakdown:
		return breakdownHead(p, r.by, rows[0], origin), nil
	case movers:
		return moversHead(p, r.by, rows[0], rows[1], origin), nil
	}
	series, err := SeriesOf(rows[0], fetches[0].Range)
	if err != nil {
		return nil, err
	}
	if r.kind == summary {
		return summaryHead(p, series, origin), nil
	}
	return timeseriesHead(p, series, origin), nil
}

// AppendKey appends the canonical form of everything that decides the response about a property: two requests have equal
// keys if and only if they have equal heads for equal rows. conditions are those of Fetches.
func (r Report) AppendKey(dst []byte, p *Params, conditions []Condition) []byte {
	compare := byte(0)
	if p.Compare {
		compare = 1
	}
	dst = append(dst, byte(r.kind), byte(r.by), compare)
	for _, n := range [...]int{int(p.Period.Start), int(p.Period.End), p.Limit, p.MinClicks} {
		dst = binary.AppendVarint(dst, int64(n))
	}
	dst = appendText(dst, p.Period.Preset)
	dst = p.Order.appendKey(dst)
	dst = binary.AppendUvarint(dst, uint64(len(p.Notes)))
	for _, note := range p.Notes {
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

// appendText appends a text with its length, so that no two lists of texts have the same encoding.
func appendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

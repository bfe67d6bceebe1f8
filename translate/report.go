package translate

import (
	"cmp"
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

// SummaryReport is the report of /summary.
func SummaryReport() Report { return Report{kind: summary, by: ByDate} }

// TimeseriesReport is the report of /timeseries.
func TimeseriesReport() Report { return Report{kind: timeseries, by: ByDate} }

// BreakdownReport is the report of /queries, /pages, /countries or /devices, by the key of its rows.
func BreakdownReport(by Dimension) Report { return Report{kind: breakdown, by: by} }

// MoversReport is the report of /movers/queries or /movers/pages, by the key of its rows.
func MoversReport(by Dimension) Report { return Report{kind: movers, by: by} }

// A Fetch is one set of rows that a report needs: from the upstream, from the archive, or both, of different days.
type Fetch struct {
	By       Dimension
	Range    DateRange   // the rows may be of any of these days
	Upstream *Query      // nil: nothing
	Archive  []DateRange // in order
	// Uncut is Upstream with the days that are not published, if it leaves some out. Its rows serve as well if they are older than
	// the copy of the series that shows those days as unpublished: they cannot have figures for them.
	Uncut *Query

	cut *cut // selects from a grid in Read; nil: Read returns all rows
}

// Sources describes where the figures of a property are available.
type Sources struct {
	Site        string // the property's full upstream string
	Window      Window
	Unpublished Date   // as in Gaps
	Unclear     Date   // as in Gaps
	Missing     []Date // days of the span that the archive lacks; only of reports for which NeedsInventory
	NoGrids     bool   // because one was full
}

// A Plan is what a response is built from.
type Plan struct {
	Fetches []Fetch
	Gaps    Gaps // as far as known before the rows are read
}

// NeedsInventory reports whether Plan needs to know which days the archive lacks: movers compare either live or archived rows.
func (r Report) NeedsInventory(p *Params, w Window) bool {
	return r.kind == movers && p.Span().Start < w.LiveStart
}

// NeedsDays reports whether Plan depends on what is unpublished: both samples of the movers have the same days.
func (r Report) NeedsDays() bool { return r.kind == movers }

// By returns the key of the report's rows.
func (r Report) By() Dimension { return r.by }

// IsSeries reports whether the rows of the report are the property's daily series, which shows its KnownDays.
func (r Report) IsSeries(conditions []Condition) bool { return r.by == ByDate && len(conditions) == 0 }

// Plan returns the rows that AppendHead needs, in its order: one set, or for the movers one for the period and one for the previous
// period, or none if there is no day to compare or to count. conditions are the expanded filters, which the archive does not support.
func (r Report) Plan(p *Params, s Sources, conditions []Condition) Plan {
	gaps := Gaps{Unpublished: s.Unpublished, Unclear: s.Unclear}
	switch r.kind {
	case summary, timeseries:
		return Plan{Fetches: seriesFetch(p, s, conditions).orNone(), Gaps: gaps}
	case breakdown:
		return Plan{Fetches: r.sampleFetch(p, s, conditions).orNone(), Gaps: gaps}
	case movers:
		return r.planMovers(p, s)
	}
	panic(fmt.Sprintf("BUG: report %d has no plan", r.kind))
}

// seriesFetch queries all days that the upstream has: one row a day is cheap, and one result then answers every range. With
// filters a longer range costs more upstream quota, so the query covers the period and the previous one only, unless a grid has them.
func seriesFetch(p *Params, s Sources, conditions []Condition) Fetch {
	span, w := p.Span(), s.Window
	fetch := Fetch{By: ByDate, Range: span, Archive: archiveParts(p.Covered(), w)}
	if span.End < w.LiveStart {
		return fetch
	}
	live := w.Live()
	if len(conditions) > 0 {
		live = DateRange{Start: max(w.UpstreamStart, p.Previous().Start), End: p.Period.End}
	}
	fetch.Range = DateRange{Start: min(span.Start, live.Start), End: live.End}
	switch q := SeriesQuery(s.Site, live, conditions); {
	case len(conditions) == 0:
		fetch.Upstream = &q // it shows which days are published
	case !fetch.queryGrid(ByDate, live, conditions, s):
		fetch.query(q, s)
	}
	return fetch
}

func (r Report) sampleFetch(p *Params, s Sources, conditions []Condition) Fetch {
	period := p.Period.DateRange
	fetch := Fetch{By: r.by, Range: period, Archive: archiveParts([]DateRange{period}, s.Window)}
	switch {
	case period.Start >= s.Window.LiveStart:
		if fetch.queryGrid(r.by, period, conditions, s) {
			break
		}
		fetch.query(SampleQuery(s.Site, r.by, period, conditions, p.Order, p.Offset+p.Limit), s)
	case period.End >= s.Window.LiveStart: // to add archived rows, a sum needs all rows
		fetch.query(WideQuery(s.Site, r.by, DateRange{Start: s.Window.LiveStart, End: period.End}), s)
	}
	return fetch
}

// PublishedEnd returns the last day that the upstream query should have if the days from one on are not published; 0: all are published.
func (f Fetch) PublishedEnd(unpublished Date) Date {
	return Gaps{Unpublished: unpublished}.published(cmp.Or(f.Uncut, f.Upstream).Range).End
}

// orNone returns the fetch, or none if it reads nothing because no day is published.
func (f Fetch) orNone() []Fetch {
	if f.Upstream == nil && len(f.Archive) == 0 {
		return nil
	}
	return []Fetch{f}
}

// query sets the upstream query. It leaves out the days that are not published: the upstream may publish one at any time, and rows
// with figures of it would contradict the notes of the answer.
func (f *Fetch) query(q Query, s Sources) {
	cut := q
	cut.Range = Gaps{Unpublished: s.Unpublished}.published(q.Range)
	if cut.Range != q.Range {
		f.Uncut = &q
	}
	if cut.Range.Days() > 0 {
		f.Upstream = &cut
	}
}

// archiveParts returns the days of ranges that come from the archive.
func archiveParts(ranges []DateRange, w Window) (parts []DateRange) {
	for _, r := range ranges {
		if r.Start < w.LiveStart {
			parts = append(parts, DateRange{Start: r.Start, End: min(r.End, w.LiveStart-1)})
		}
	}
	return parts
}

// planMovers compares live rows with live ones or archived rows with archived ones: a live sample has 25,000 rows, and the
// archive the top 100 of each day, so most keys would seem to move. If a period needs the archive and it has some of those
// days, both periods come from it; else the days that the upstream has on both sides are compared.
func (r Report) planMovers(p *Params, s Sources) Plan {
	span, live := p.Span(), s.Window.LiveStart
	beyond := DateRange{Start: span.Start, End: min(span.End, live-1)} // the days that only the archive may have
	stored := false
	gaps := Gaps{Unpublished: s.Unpublished, Unclear: s.Unclear}
	if beyond.Days() > 0 {
		archived := Gaps{Missing: s.Missing}
		for day := beyond.Start; day <= beyond.End; day++ {
			stored = stored || !archived.has(day)
			gaps.Missing = append(gaps.Missing, day)
		}
		if stored {
			gaps = archived
			gaps.Archived = span.End >= live
		}
	}
	plan := Plan{Gaps: gaps}
	counted := p.counted(gaps)
	if len(counted) == 0 {
		return plan
	}
	for _, side := range [...][]DateRange{counted, p.previous(counted, gaps)} {
		fetch := Fetch{By: r.by, Range: DateRange{Start: side[0].Start, End: side[len(side)-1].End}}
		if stored {
			fetch.Archive = side
		} else { // in one piece: unknown are only days at the beginning and at the end
			q := WideQuery(s.Site, r.by, fetch.Range)
			fetch.Upstream = &q
		}
		plan.Fetches = append(plan.Fetches, fetch)
	}
	return plan
}

// FirstRows returns how many of the first rows of a fetch AppendHead reads: those of the first page of a table in the upstream's order. 0 means
// all.
func (r Report) FirstRows(p *Params, f Fetch) int {
	if r.kind != breakdown || p.Offset > 0 || !p.Order.isUpstream() || f.cut != nil {
		return 0
	}
	return p.Limit
}

// FirstOfPart returns how many rows of each part of a fetch, the result of its upstream query and the days of each archived range, are
// needed for FirstRows: all if there are several to add up.
func (r Report) FirstOfPart(p *Params, f Fetch) int {
	parts := len(f.Archive)
	if f.Upstream != nil {
		parts++
	}
	if parts > 1 {
		return 0
	}
	return r.FirstRows(p, f)
}

// AppendHead appends the Head of the response from the rows of the fetches. It fails on rows that cannot be a result of them.
func (r Report) AppendHead(dst []byte, p *Params, fetches []Fetch, rows []*Rows, origin Origin) (Head, error) {
	if len(fetches) == 0 {
		fetches, rows = []Fetch{{Range: p.Span()}}, []*Rows{new(Rows), new(Rows)}
	}
	switch r.kind {
	case breakdown:
		origin.Notes = append(origin.Notes, p.aggregationNotes(rows[0], r.by)...)
		return breakdownHead(dst, p, r.by, rows[0], origin), nil
	case movers:
		return moversHead(dst, p, r.by, rows[0], rows[1], origin), nil
	}
	series, err := SeriesOf(rows[0], fetches[0].Range)
	if err != nil {
		return nil, err
	}
	origin.Notes = append(origin.Notes, p.aggregationNotes(rows[0], r.by)...)
	if r.kind == summary {
		return summaryHead(dst, p, series, origin), nil
	}
	return timeseriesHead(dst, p, series, origin), nil
}

// AppendKey appends the canonical form of everything that decides the response about a property: two requests have equal
// keys if and only if they have equal heads for equal rows. conditions are those of Plan.
func (r Report) AppendKey(dst []byte, p *Params, conditions []Condition) []byte {
	dst = append(dst, byte(r.kind), byte(r.by), byte(p.Compare))
	for _, n := range [...]int{int(p.Period.Start), int(p.Period.End), p.Limit, p.Offset, p.MinClicks} {
		dst = binary.AppendVarint(dst, int64(n))
	}
	dst = appendSized(dst, p.Period.Preset)
	dst = p.Order.appendKey(dst)
	dst = binary.AppendUvarint(dst, uint64(len(p.Notes)))
	for _, note := range p.Notes {
		dst = appendSized(dst, note)
	}
	return appendConditions(dst, conditions)
}

func (o Order) appendKey(dst []byte) []byte {
	if o.Descending {
		dst = append(dst, '-')
	}
	return appendSized(dst, o.By)
}

// appendSized appends a text with its length, so that no two lists of texts have the same encoding.
func appendSized(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

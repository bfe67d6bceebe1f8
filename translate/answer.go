package translate

import (
	"strconv"
)

// A Head is a success envelope of a performance endpoint, but for what differs from one request to the next: the cache
// word and the request's id, which stand at its end. AppendTail writes those. A Head is shared, and never changed.
type Head []byte

// AppendTail appends what makes a Head a whole envelope. cache and requestID are plain ASCII without quotes.
func AppendTail(dst []byte, cache, requestID string) []byte {
	dst = append(dst, cache...)
	dst = append(dst, `","request_id":"`...)
	dst = append(dst, requestID...)
	return append(dst, `"}}`...)
}

// Source is where an answer's figures come from (spec: meta.source).
type Source string

// The sources. Figures that are not live must not be taken for current ones.
const (
	SourceLive    Source = "live"   // straight from the upstream, now or within the life of a copy
	SourceArchive Source = "stored" // kept by sara
	SourceHybrid  Source = "hybrid" // both
)

// Origin is what an answer says of itself beside its rows.
type Origin struct {
	PropertyID  string
	Source      Source
	StaleReason string   // why the figures are not live ones; empty for none
	Truncated   bool     // rows are missing because of the ranking by clicks, whatever these rows look like
	Notes       []string // beside those of the Ask
}

// meta is the rest of the envelope's meta: what the rows decide. Counts below zero stand for null.
type meta struct {
	rowCount, limit int
	truncated       bool
}

const none = -1

// seal closes data and appends the meta up to the cache word.
func (a *Params) seal(data []byte, origin Origin, m meta) Head {
	dst := append(data, `,"meta":{"property_id":`...)
	dst = appendString(dst, origin.PropertyID)
	dst = append(dst, `,"date_range":{`...)
	dst = appendRange(dst, a.Period.DateRange)
	dst = append(dst, `,"preset":`...)
	dst = appendString(dst, a.Period.Preset)
	dst = append(dst, `},"row_count":`...)
	dst = appendCount(dst, m.rowCount)
	dst = append(dst, `,"limit":`...)
	dst = appendCount(dst, m.limit)
	dst = append(dst, `,"total":null,"truncated_by":`...)
	if m.truncated || origin.Truncated {
		dst = append(dst, `"clicks"`...)
	} else {
		dst = append(dst, `null`...)
	}
	dst = append(dst, `,"source":`...)
	dst = appendString(dst, string(origin.Source))
	dst = append(dst, `,"stale_reason":`...)
	if origin.StaleReason == "" {
		dst = append(dst, `null`...)
	} else {
		dst = appendString(dst, origin.StaleReason)
	}
	dst = append(dst, `,"notes":[`...)
	first := true
	for _, notes := range [...][]string{a.Notes, origin.Notes} {
		for _, note := range notes {
			if !first {
				dst = append(dst, ',')
			}
			dst, first = appendString(dst, note), false
		}
	}
	return append(dst, `],"cache":"`...)
}

func appendCount(dst []byte, n int) []byte {
	if n == none {
		return append(dst, `null`...)
	}
	return strconv.AppendInt(dst, int64(n), 10)
}

const opening = `{"success":true,"data":`

// summaryHead writes the totals of the period, and those of the previous one when the Ask compares. The series covers
// the Ask's Span.
func summaryHead(a *Params, series *Series, origin Origin) Head {
	dst := append(make([]byte, 0, 1024), opening...)
	dst = append(dst, `{"totals":{`...)
	dst = appendMetrics(dst, series.Totals(a.Period.DateRange))
	dst = append(dst, '}')
	if a.Compare {
		previous := a.Period.Previous()
		dst = append(dst, `,"previous":{`...)
		dst = appendRange(dst, previous)
		dst = append(dst, ',')
		dst = appendMetrics(dst, series.Totals(previous))
		dst = append(dst, '}')
	}
	return a.seal(append(dst, '}'), origin, meta{rowCount: none, limit: none})
}

// timeseriesHead writes one row for every day of the period.
func timeseriesHead(a *Params, series *Series, origin Origin) Head {
	const rowLength = 128
	days := a.Period.Days()
	dst := append(make([]byte, 0, 1024+days*rowLength), opening...)
	dst = append(dst, `{"rows":[`...)
	for day := a.Period.Start; day <= a.Period.End; day++ {
		if day > a.Period.Start {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"date":"`...)
		dst = day.Append(dst)
		dst = append(dst, `",`...)
		dst = appendMetrics(dst, series.days[day-series.first])
		dst = append(dst, '}')
	}
	return a.seal(append(dst, `]}`...), origin, meta{rowCount: days, limit: none})
}

// breakdownHead writes the first rows, in the Ask's order, of the answer to a SampleQuery for that order.
func breakdownHead(a *Params, by Dimension, rows *Rows, origin Origin) Head {
	const rowLength = 192
	if a.Order.isUpstream() {
		rows = rows.head(NarrowSample)
	}
	first := a.Order.first(rows, a.Limit)
	dst := append(make([]byte, 0, 1024+len(first)*rowLength), opening...)
	dst = append(dst, `{"dimension":"`...)
	dst = append(dst, by.String()...)
	dst = append(dst, `","rows":[`...)
	for i, r := range first {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"key":`...)
		dst = appendString(dst, rows.Key(int(r.row)))
		dst = append(dst, ',')
		dst = appendMetrics(dst, rows.metrics[r.row])
		dst = append(dst, '}')
	}
	// Rows are missing because of the upstream's ranking when it had more than the limit under that ranking, or when a
	// sample is full, so that rows beyond it could have come first in another order.
	truncated := rows.Len() >= WideSample || a.Order.isUpstream() && rows.Len() > a.Limit
	return a.seal(append(dst, `]}`...), origin, meta{rowCount: len(first), limit: a.Limit, truncated: truncated})
}

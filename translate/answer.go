package translate

import (
	"slices"
	"strconv"
)

// A Head is the success envelope of a performance endpoint without its tail, the cache status and the request ID, which
// differ from request to request. AppendTail writes the tail. Requests share a Head, so it must not be changed.
type Head []byte

// AppendTail appends the end of the envelope. cache and requestID must be ASCII without quotes or backslashes.
func AppendTail(dst []byte, cache, requestID string) []byte {
	dst = append(dst, cache...)
	dst = append(dst, `","request_id":"`...)
	dst = append(dst, requestID...)
	return append(dst, `"}}`...)
}

// Source is where the figures of a response come from (spec: meta.source).
type Source string

// The sources.
const (
	SourceLive    Source = "live"   // from the upstream, now or from a fresh cache
	SourceArchive Source = "stored" // from the archive, or from a stale cache
	SourceHybrid  Source = "hybrid" // both, or from the upstream without days that the archive lacks
)

// Origin is the part of the meta that does not follow from the parameters and the rows.
type Origin struct {
	PropertyID  string
	Source      Source
	StaleReason string   // why the figures are not live; empty if they are
	Truncated   bool     // rows are missing because of the ranking by clicks, even if these rows do not show it
	Notes       []string // appended to those of the Params
	Gaps        Gaps     // of the period and, if the request compares, of the previous one
}

// meta is the part of the envelope's meta that follows from the rows. A count of none is null.
type meta struct {
	rowCount, limit int
	offset          int // 0: not shown
	truncated       bool
	table, hasMore  bool // a table says whether rows beyond the last one exist
}

const none = -1

// appendMeta closes data and appends the meta up to the cache status.
func (p *Params) appendMeta(data []byte, origin Origin, m meta) Head {
	dst := append(data, `,"meta":{"property_id":`...)
	dst = appendString(dst, origin.PropertyID)
	dst = p.appendPeriod(append(dst, ','))
	dst = append(dst, `,"row_count":`...)
	dst = appendCount(dst, m.rowCount)
	dst = append(dst, `,"limit":`...)
	dst = appendCount(dst, m.limit)
	if m.offset > 0 {
		dst = append(dst, `,"offset":`...)
		dst = strconv.AppendInt(dst, int64(m.offset), 10)
	}
	dst = append(dst, `,"total":null,"truncated_by":`...)
	if m.truncated || origin.Truncated {
		dst = append(dst, `"clicks"`...)
	} else {
		dst = append(dst, `null`...)
	}
	if m.table {
		dst = append(dst, `,"has_more":`...)
		dst = strconv.AppendBool(dst, m.hasMore)
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
	dst = appendList(dst, p.Notes, origin.Notes, p.notes(origin.Gaps))
	return append(dst, `],"cache":"`...)
}

func (p *Params) appendPeriod(dst []byte) []byte {
	dst = append(dst, `"date_range":{`...)
	dst = appendRange(dst, p.Period.DateRange)
	dst = append(dst, `,"preset":`...)
	dst = appendString(dst, p.Period.Preset)
	return append(dst, '}')
}

// appendList appends texts with commas in between.
func appendList(dst []byte, lists ...[]string) []byte {
	first := true
	for _, list := range lists {
		for _, text := range list {
			if !first {
				dst = append(dst, ',')
			}
			dst, first = appendString(dst, text), false
		}
	}
	return dst
}

func appendCount(dst []byte, n int) []byte {
	if n == none {
		return append(dst, `null`...)
	}
	return strconv.AppendInt(dst, int64(n), 10)
}

const opening = `{"success":true,"data":`

// summaryHead appends the totals of the period, and of the previous period if the request compares. The series must cover
// Params.Span.
func summaryHead(dst []byte, p *Params, series *Series, origin Origin) Head {
	counted := p.counted(origin.Gaps)
	dst = append(slices.Grow(dst, 1024), opening...)
	dst = append(dst, `{"totals":{`...)
	dst = appendMetrics(dst, series.Totals(counted...))
	dst = append(dst, '}')
	if p.Compares() {
		dst = append(dst, `,"previous":{`...)
		dst = appendRange(dst, p.Previous())
		dst = append(dst, ',')
		dst = appendMetrics(dst, series.Totals(p.previous(counted, origin.Gaps)...))
		dst = append(dst, '}')
	}
	return p.appendMeta(append(dst, '}'), origin, meta{rowCount: none, limit: none})
}

// timeseriesHead appends one row for each known day.
func timeseriesHead(dst []byte, p *Params, series *Series, origin Origin) Head {
	const rowLength = 128
	dst = append(slices.Grow(dst, 1024+p.Period.Days()*rowLength), opening...)
	dst = append(dst, `{"rows":[`...)
	rows := 0
	for _, r := range p.counted(origin.Gaps) {
		for day := r.Start; day <= r.End; day++ {
			if rows++; rows > 1 {
				dst = append(dst, ',')
			}
			dst = append(dst, `{"date":"`...)
			dst = day.Append(dst)
			dst = append(dst, `",`...)
			dst = appendMetrics(dst, series.days[day-series.first])
			dst = append(dst, '}')
		}
	}
	return p.appendMeta(append(dst, `]}`...), origin, meta{rowCount: rows, limit: none})
}

// breakdownHead appends a page of the rows in the requested order. The rows must come from the SampleQuery for it.
func breakdownHead(dst []byte, p *Params, by Dimension, rows *Rows, origin Origin) Head {
	const withoutKey = 112 // bytes of most rows
	begin, end := min(p.Offset, rows.Len()), min(p.Offset+p.Limit, rows.Len())
	at := p.pageOf(rows)
	size := 1024 + (end-begin)*withoutKey
	for place := begin; place < end; place++ {
		size += len(rows.Key(at(place)))
	}
	dst = append(slices.Grow(dst, size), opening...)
	dst = append(dst, `{"dimension":"`...)
	dst = append(dst, by.String()...)
	dst = append(dst, `","rows":[`...)
	for place := begin; place < end; place++ {
		if place > begin {
			dst = append(dst, ',')
		}
		row := at(place)
		dst = appendString(append(dst, `{"key":`...), rows.Key(row))
		dst = append(appendMetrics(append(dst, ','), rows.metrics[row]), '}')
	}
	// Rows are missing because of the upstream's ranking by clicks if the page cut that ranking, or if the sample is full:
	// in another order, rows beyond the sample might have come first.
	truncated := rows.Len() >= WideSample || p.Order.isUpstream() && rows.Len() > end
	// On a page without rows, those beyond the sample are no reason to read on: no page has them.
	isPast := p.Offset > 0 && begin == end
	hasMore := rows.Len() > end || (truncated || origin.Truncated) && !isPast
	return p.appendMeta(append(dst, `]}`...), origin,
		meta{rowCount: end - begin, limit: p.Limit, offset: p.Offset, truncated: truncated, table: true, hasMore: hasMore})
}

// pageOf returns the function that maps the places of the requested page to rows. The first page needs no ranking of all rows.
func (p *Params) pageOf(rows *Rows) func(place int) (row int) {
	if p.Offset > 0 {
		if p.Offset >= rows.Len() {
			return nil // the page has no places
		}
		return rows.rankedIn(p.Order).row
	}
	if p.Order.isUpstream() {
		if rows = rows.head(NarrowSample); rows.areRanked() {
			return samePlace
		}
	}
	first := p.Order.first(rows, p.Limit)
	return func(place int) int { return int(first[place].row) }
}

func samePlace(place int) int { return place }

// appendString appends s, which must be UTF-8, as a JSON string. It escapes only what JSON requires, not HTML: responses are
// served as application/json only, and URLs stay readable.
func appendString[T string | []byte](dst []byte, s T) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := plainBytes(s); i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		}
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// plainBytes returns how many of the first bytes are known to need no escape. It looks at eight bytes at a time.
func plainBytes[T string | []byte](s T) (n int) {
	const each, highest = 0x0101010101010101, 0x8080808080808080
	for ; n+8 <= len(s); n += 8 {
		w := uint64(s[n]) | uint64(s[n+1])<<8 | uint64(s[n+2])<<16 | uint64(s[n+3])<<24 |
			uint64(s[n+4])<<32 | uint64(s[n+5])<<40 | uint64(s[n+6])<<48 | uint64(s[n+7])<<56
		quote, backslash := w^each*'"', w^each*'\\'
		// No highest bit of a byte is set unless one of the bytes is below ' ' or one of the two: those before it borrow nothing.
		if ((w-each*' ')&^w|(quote-each)&^quote|(backslash-each)&^backslash)&highest != 0 {
			break
		}
	}
	return n
}

func appendMetrics(dst []byte, m Metrics) []byte {
	dst = appendInt(append(dst, `"clicks":`...), m.Clicks)
	dst = appendInt(append(dst, `,"impressions":`...), m.Impressions)
	dst = appendFloat(append(dst, `,"ctr":`...), m.CTR)
	return appendFloat(append(dst, `,"position":`...), m.Position)
}

func appendRange(dst []byte, r DateRange) []byte {
	dst = append(dst, `"start_date":"`...)
	dst = r.Start.Append(dst)
	dst = append(dst, `","end_date":"`...)
	dst = r.End.Append(dst)
	return append(dst, '"')
}

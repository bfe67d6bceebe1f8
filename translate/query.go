package translate

import (
	"cmp"
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/tidwall/sjson"
)

// Dimension is the key of the rows of a Query.
type Dimension uint8

// The dimensions. A Query has exactly one.
const (
	ByDate Dimension = iota
	ByQuery
	ByPage
	ByCountry
	ByDevice
	// Those of grids: the key is a day, as YYYY-MM-DD, and directly after it a country or device.
	ByDayAndCountry
	ByDayAndDevice
)

// String returns the name of the dimension, both in the upstream's API and in ours.
func (d Dimension) String() string {
	switch d {
	case ByDate:
		return "date"
	case ByQuery:
		return "query"
	case ByPage:
		return "page"
	case ByCountry:
		return "country"
	case ByDevice:
		return "device"
	case ByDayAndCountry:
		return "date,country"
	case ByDayAndDevice:
		return "date,device"
	}
	return "BUG: dimension " + strconv.Itoa(int(d))
}

// A Condition is a filter of the upstream's API.
type Condition struct {
	Dimension, Operator, Expression string
}

func (c Condition) compare(other Condition) int {
	return cmp.Or(
		cmp.Compare(c.Dimension, other.Dimension),
		cmp.Compare(c.Operator, other.Operator),
		cmp.Compare(c.Expression, other.Expression))
}

// The row limits of the two samples, which between them answer every limit and order. The upstream ranks by clicks and then
// cuts. The narrow sample answers the default order; its one row beyond the largest limit shows whether rows are missing.
// The wide one, the most that one call returns, is the best basis for any other order. The narrow sample of countries and
// devices has all rows, for there are only some 250 countries and three devices.
const (
	NarrowSample = maxDimensionLimit + 1
	WideSample   = 25_000
)

// widest returns the row limit that gets all rows of a dimension that one call can return.
func (d Dimension) widest() int {
	if d == ByCountry || d == ByDevice {
		return NarrowSample
	}
	return WideSample
}

// EnlargedSample is the row limit of a query that a fill may make in place of that for the narrow sample. If the table has fewer
// rows, the result has all of them, like the wide sample, and so answers every order.
const EnlargedSample = 5_001

// A Query is an upstream query in canonical form: requests that the same rows answer have equal Queries. It is for final data
// of web search, with the upstream's default aggregation.
type Query struct {
	Site       string // the property's full upstream string
	Dimension  Dimension
	Range      DateRange
	Conditions []Condition // as Conditions returns them
	RowLimit   int
}

// SeriesQuery returns the query for one row a day, which answers any summary and timeseries within the range.
func SeriesQuery(site string, r DateRange, conditions []Condition) Query {
	return Query{Site: site, Dimension: ByDate, Range: r, Conditions: conditions, RowLimit: WideSample}
}

// SampleQuery returns the query for as many rows of a dimension as the first rows in an order need: the narrow sample if its last row
// still shows whether more follow.
func SampleQuery(site string, by Dimension, r DateRange, conditions []Condition, order Order, first int) Query {
	q := Query{Site: site, Dimension: by, Range: r, Conditions: conditions, RowLimit: by.widest()}
	if order.isUpstream() && first < NarrowSample {
		q.RowLimit = NarrowSample
	}
	return q
}

// WideQuery returns the query for as many rows of a dimension as one call returns. The movers compare these.
func WideQuery(site string, by Dimension, r DateRange) Query {
	return Query{Site: site, Dimension: by, Range: r, RowLimit: by.widest()}
}

// DayQuery returns the query for the rows of one day: the top queries or pages by clicks, or all countries or devices.
func DayQuery(site string, by Dimension, day Date, top int) Query {
	if by.widest() == NarrowSample {
		top = NarrowSample
	}
	return Query{Site: site, Dimension: by, Range: DateRange{Start: day, End: day}, RowLimit: top}
}

// Sibling returns the query for the other sample of the same rows, the wide or the narrow one. ok is false if there is only
// one sample.
func (q Query) Sibling() (sibling Query, ok bool) {
	if q.Dimension != ByQuery && q.Dimension != ByPage {
		return Query{}, false
	}
	switch q.RowLimit {
	case NarrowSample:
		q.RowLimit = WideSample
	case WideSample:
		q.RowLimit = NarrowSample
	default:
		return Query{}, false
	}
	return q, true
}

// AnsweredBy reports whether a result of other, with a number of rows, also answers q. other must be q or its Sibling. It does
// if its row limit is at least as high, or if it was not reached, so the result has all rows. Of a narrow sample with more rows
// than its limit, the limit was that of its Enlarged query.
func (q Query) AnsweredBy(other Query, rows int) bool {
	enlarged := other.RowLimit == NarrowSample && rows > NarrowSample && rows < EnlargedSample
	return other.RowLimit >= q.RowLimit || rows < other.RowLimit || enlarged
}

// Enlarged returns the query for the enlarged sample of the same rows, whose result may be kept as that of q; ok is false unless q
// is a narrow sample of queries or pages, without conditions.
func (q Query) Enlarged() (enlarged Query, ok bool) {
	if _, ok = q.Sibling(); !ok || q.RowLimit != NarrowSample || len(q.Conditions) > 0 {
		return q, false
	}
	q.RowLimit = EnlargedSample
	return q, true
}

// MaxBody returns the bytes that the body of an answer to the query may have, decoded. It is far above what the upstream
// sends: a row has some 100 bytes and its key, and the 25,000 longest URLs of a large site come to about 10 MB.
func (q Query) MaxBody() int64 {
	const (
		few      = 256 << 10 // some 500 days, 250 countries or three devices
		longRow  = 2560
		queries  = 16 << 20
		pages    = 32 << 20
		gridRow  = 256
		leastRow = 64 << 10 // for the members besides the rows
	)
	rows := leastRow + int64(q.RowLimit)*longRow
	switch q.Dimension {
	case ByQuery:
		return min(rows, queries)
	case ByPage:
		return min(rows, pages)
	case ByDayAndCountry, ByDayAndDevice:
		return leastRow + int64(min(q.RowLimit, q.Range.Days()*q.Dimension.mostKeys()))*gridRow
	}
	return few
}

// Body returns the JSON body of the upstream request (searchAnalytics.query).
func (q Query) Body() []byte {
	body := []byte(`{"startDate":"","endDate":"","dimensions":[],"type":"web","dataState":"final","rowLimit":0}`)
	body = setRaw(body, "startDate", appendString(nil, q.Range.Start.String()))
	body = setRaw(body, "endDate", appendString(nil, q.Range.End.String()))
	for dimension := range strings.SplitSeq(q.Dimension.String(), ",") {
		body = setRaw(body, "dimensions.-1", appendString(nil, dimension))
	}
	body = setRaw(body, "rowLimit", strconv.AppendInt(nil, int64(q.RowLimit), 10))
	for i, c := range q.Conditions {
		if i == 0 {
			body = setRaw(body, "dimensionFilterGroups.-1", []byte(`{"groupType":"and","filters":[]}`))
		}
		filter := setRaw([]byte(`{}`), "dimension", appendString(nil, c.Dimension))
		filter = setRaw(filter, "operator", appendString(nil, c.Operator))
		filter = setRaw(filter, "expression", appendString(nil, c.Expression))
		body = setRaw(body, "dimensionFilterGroups.0.filters.-1", filter)
	}
	return body
}

// setRaw sets a member to raw JSON. Strings are encoded before, since sjson would escape HTML in them.
func setRaw(body []byte, path string, raw []byte) []byte {
	body, err := sjson.SetRawBytes(body, path, raw)
	if err != nil {
		panic("BUG: set " + path + ": " + err.Error())
	}
	return body
}

// AppendKey appends the canonical form of the query, without its site, for cache keys: two queries have equal keys if and
// only if they have equal bodies.
func (q Query) AppendKey(dst []byte) []byte {
	dst = append(dst, byte(q.Dimension))
	for _, n := range [...]int{int(q.Range.Start), int(q.Range.End), q.RowLimit} {
		dst = binary.AppendVarint(dst, int64(n))
	}
	return appendConditions(dst, q.Conditions)
}

// appendConditions appends the canonical form of conditions, for cache keys. It ends a key, because it does not have their number.
func appendConditions(dst []byte, conditions []Condition) []byte {
	for _, c := range conditions {
		dst = appendSized(appendSized(appendSized(dst, c.Dimension), c.Operator), c.Expression)
	}
	return dst
}

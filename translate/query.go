package translate

import (
	"cmp"
	"encoding/binary"
	"strconv"

	"github.com/tidwall/sjson"
)

// Dimension is what the rows of a Query are keyed by.
type Dimension uint8

// The dimensions that sara asks for, one at a time.
const (
	ByDate Dimension = iota
	ByQuery
	ByPage
	ByCountry
	ByDevice
)

// String returns the dimension's name, the same for the upstream and for the API's users.
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
	}
	return "BUG: dimension " + strconv.Itoa(int(d))
}

// A Condition is one filter as the upstream takes it.
type Condition struct {
	Dimension, Operator, Expression string
}

func (c Condition) compare(other Condition) int {
	return cmp.Or(
		cmp.Compare(c.Dimension, other.Dimension),
		cmp.Compare(c.Operator, other.Operator),
		cmp.Compare(c.Expression, other.Expression))
}

// Sizes of the two samples that answer every limit and order. The upstream ranks by clicks before it cuts, so the narrow
// sample answers the default order, one row more than the largest limit telling whether there are more; the wide one, the
// most that one call returns, is the best there is for any other. There are some 250 countries and three devices: the
// narrow sample has all of them, whatever the order.
const (
	NarrowSample = maxDimensionLimit + 1
	WideSample   = 25_000
)

// widest returns how many rows of a dimension are worth asking for.
func (d Dimension) widest() int {
	if d == ByCountry || d == ByDevice {
		return NarrowSample
	}
	return WideSample
}

// A Query is one canonical question to the upstream: two requests that the same rows answer have equal Queries. It asks
// for final data of web search, aggregated as the upstream thinks fit.
type Query struct {
	Site       string // the property's full upstream string
	Dimension  Dimension
	Range      DateRange
	Conditions []Condition // as Conditions returns them
	RowLimit   int
}

// SeriesQuery asks for one row a day. It answers every summary and timeseries within the range.
func SeriesQuery(site string, r DateRange, conditions []Condition) Query {
	return Query{Site: site, Dimension: ByDate, Range: r, Conditions: conditions, RowLimit: WideSample}
}

// SampleQuery asks for the rows of a dimension, as many as the order needs.
func SampleQuery(site string, by Dimension, r DateRange, conditions []Condition, order Order) Query {
	q := Query{Site: site, Dimension: by, Range: r, Conditions: conditions, RowLimit: by.widest()}
	if order.isUpstream() {
		q.RowLimit = NarrowSample
	}
	return q
}

// WideQuery asks for as many rows of a dimension as there are to have, which is what the movers compare.
func WideQuery(site string, by Dimension, r DateRange) Query {
	return Query{Site: site, Dimension: by, Range: r, RowLimit: by.widest()}
}

// DayQuery asks for the rows of one day: of queries or pages the top ones by clicks, of countries or devices all there are.
func DayQuery(site string, by Dimension, day Date, top int) Query {
	if by.widest() == NarrowSample {
		top = NarrowSample
	}
	return Query{Site: site, Dimension: by, Range: DateRange{Start: day, End: day}, RowLimit: top}
}

// Sibling returns the Query for the other sample of the same rows: the wide one for the narrow, the narrow one for the
// wide. It is false where there is but one.
func (q Query) Sibling() (Query, bool) {
	if q.Dimension == ByDate || q.Dimension.widest() == NarrowSample {
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

// AnsweredBy reports whether an answer of so many rows to other answers q as well. Other is q or its Sibling: it asked for
// at least as many rows, or it got all there are, because it got fewer than it asked for.
func (q Query) AnsweredBy(other Query, rows int) bool {
	return other.RowLimit >= q.RowLimit || rows < other.RowLimit
}

// Body returns the JSON body of the upstream request (searchAnalytics.query).
func (q Query) Body() []byte {
	body := []byte(`{"startDate":"","endDate":"","dimensions":[],"type":"web","dataState":"final","rowLimit":0}`)
	body = setRaw(body, "startDate", appendString(nil, q.Range.Start.String()))
	body = setRaw(body, "endDate", appendString(nil, q.Range.End.String()))
	body = setRaw(body, "dimensions.-1", appendString(nil, q.Dimension.String()))
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
	for _, c := range q.Conditions {
		dst = appendText(appendText(appendText(dst, c.Dimension), c.Operator), c.Expression)
	}
	return dst
}

package translate

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// A PortfolioProperty is one property of a portfolio, and the answer to its summary.
type PortfolioProperty struct {
	ID, Name, Site, Slug string

	Summary       Head   // nil: it has none
	Code, Message string // of the error that it has instead
}

// OfSummary returns the parameters of the summary of each property: those of the portfolio without its page.
func (p *Params) OfSummary() *Params {
	of := *p
	of.Limit, of.Offset, of.Order = 0, 0, Order{}
	return &of
}

// portfolioOrders returns the values of order_by of a portfolio.
func portfolioOrders() []string {
	var orders []string
	for _, by := range []string{"clicks", "impressions", "ctr", "position", byName, byClicksDelta} {
		orders = append(orders, by, "-"+by)
	}
	return orders
}

// Orders that only a portfolio has.
const (
	byName        = "name"
	byClicksDelta = "clicks_delta"
)

// A portfolioRow is what a portfolio shows of a property. Raw members are as the summary has them, to the last digit.
type portfolioRow struct {
	*PortfolioProperty
	totals, previous       Metrics
	rawTotals, rawPrevious string // empty: null
	source, rawStale       string
	notes                  []string
}

// PortfolioHead writes the portfolio of all properties, which are in order of their names, with one page of them. Shared are the notes
// that all of their summaries have.
func PortfolioHead(p *Params, properties []PortfolioProperty, shared []string) Head {
	rows, everywhere := make([]*portfolioRow, len(properties)), slices.Concat(p.Notes, shared)
	for i := range properties {
		rows[i] = portfolioRowOf(&properties[i], everywhere)
	}
	whole := sumPortfolio(rows)
	page := p.portfolioPage(rows)
	const rowLength = 512
	dst := append(make([]byte, 0, 1024+len(page)*rowLength), opening...)
	dst = append(dst, `{"rows":[`...)
	for i, row := range page {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = row.append(dst, p.Compares())
	}
	dst = append(dst, `],"totals":`...)
	dst = whole.appendTotals(dst)
	dst = append(dst, `,"previous":`...)
	dst = whole.appendPrevious(dst, p)
	dst = p.appendPortfolioMeta(append(dst, '}'), &whole, len(page), len(rows))
	dst = append(dst, `,"notes":[`...)
	dst = appendList(dst, p.Notes, shared, p.portfolioNotes(&whole))
	return append(dst, `],"cache":"`...)
}

// portfolioRowOf reads the summary of a property. Shared notes are left out: they stand in the meta of the portfolio.
func portfolioRowOf(property *PortfolioProperty, shared []string) *portfolioRow {
	row := &portfolioRow{PortfolioProperty: property}
	if property.Summary == nil {
		return row
	}
	members := gjson.GetManyBytes(property.Summary, "data.totals", "data.previous", "meta.source", "meta.stale_reason", "meta.notes")
	row.totals, row.rawTotals = metricsIn(members[0]), members[0].Raw
	row.previous, row.rawPrevious = metricsIn(members[1]), members[1].Raw
	row.source, row.rawStale = members[2].String(), members[3].Raw
	for _, note := range members[4].Array() {
		if text := note.String(); !slices.Contains(shared, text) {
			row.notes = append(row.notes, text)
		}
	}
	return row
}

func metricsIn(object gjson.Result) (m Metrics) {
	object.ForEach(func(name, value gjson.Result) bool {
		switch name.Str {
		case "clicks":
			m.Clicks = value.Int()
		case "impressions":
			m.Impressions = value.Int()
		case "ctr":
			m.CTR = value.Float()
		case "position":
			m.Position = value.Float()
		}
		return true
	})
	return m
}

// A portfolioSum adds up the properties that answered.
type portfolioSum struct {
	answered, failed int
	noted            int // of those that answered, with notes of their own
	countedTwice     int // of those that answered, whose figures another one has, too
	totals, previous Sum
	source           string // empty: no property answered
}

func sumPortfolio(rows []*portfolioRow) (sum portfolioSum) {
	for _, row := range rows {
		if row.Summary == nil {
			sum.failed++
			continue
		}
		sum.totals.Add(row.totals.Clicks, row.totals.Impressions, row.totals.Position)
		sum.previous.Add(row.previous.Clicks, row.previous.Impressions, row.previous.Position)
		if len(row.notes) > 0 {
			sum.noted++
		}
		if sum.answered++; sum.source == "" {
			sum.source = row.source
		}
		if sum.source != row.source {
			sum.source = string(SourceHybrid)
		}
	}
	sum.countedTwice = countedByOthers(rows)
	return sum
}

// isKnown reports whether there are totals: those of no property are zero, those of properties that all failed are unknown.
func (s *portfolioSum) isKnown() bool { return s.answered > 0 || s.failed == 0 }

func (s *portfolioSum) appendTotals(dst []byte) []byte {
	if !s.isKnown() {
		return append(dst, `null`...)
	}
	return append(appendMetrics(append(dst, '{'), s.totals.Metrics()), '}')
}

func (s *portfolioSum) appendPrevious(dst []byte, p *Params) []byte {
	if !s.isKnown() || !p.Compares() {
		return append(dst, `null`...)
	}
	dst = append(appendRange(append(dst, '{'), p.Previous()), ',')
	return append(appendMetrics(dst, s.previous.Metrics()), '}')
}

// portfolioPage sorts the rows, which are in order of their names, and returns those of the page.
func (p *Params) portfolioPage(rows []*portfolioRow) []*portfolioRow {
	slices.SortStableFunc(rows, p.comparePortfolio)
	from := min(p.Offset, len(rows))
	return rows[from:min(from+p.Limit, len(rows))]
}

// comparePortfolio orders rows without figures last, in either direction. Ties stay as they are: in the order of the names.
func (p *Params) comparePortfolio(a, b *portfolioRow) int {
	switch {
	case a.Summary == nil || b.Summary == nil:
		return cmp.Compare(boolRank(a.Summary == nil), boolRank(b.Summary == nil))
	case p.Order.By == byClicksDelta && !p.Compares():
		return 0
	}
	c := 0
	switch p.Order.By {
	case "clicks":
		c = cmp.Compare(a.totals.Clicks, b.totals.Clicks)
	case "impressions":
		c = cmp.Compare(a.totals.Impressions, b.totals.Impressions)
	case "ctr":
		c = cmp.Compare(a.totals.CTR, b.totals.CTR)
	case "position":
		c = cmp.Compare(a.totals.Position, b.totals.Position)
	case byName:
		c = cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	case byClicksDelta:
		c = cmp.Compare(a.delta(), b.delta())
	}
	if p.Order.Descending {
		return -c
	}
	return c
}

func boolRank(last bool) int {
	if last {
		return 1
	}
	return 0
}

// append appends the row as JSON.
func (r *portfolioRow) append(dst []byte, compares bool) []byte {
	for _, member := range [...]struct{ name, value string }{
		{`{"property_id":`, r.ID}, {`,"name":`, r.Name}, {`,"gsc_property":`, r.Site}, {`,"slug":`, r.Slug},
	} {
		dst = appendString(append(dst, member.name...), member.value)
	}
	answered := r.Summary != nil
	dst = append(append(dst, `,"totals":`...), cmp.Or(r.rawTotals, `null`)...)
	dst = append(append(dst, `,"previous":`...), cmp.Or(r.rawPrevious, `null`)...)
	dst = append(dst, `,"clicks_delta":`...)
	if answered && compares {
		dst = strconv.AppendInt(dst, r.delta(), 10)
	} else {
		dst = append(dst, `null`...)
	}
	dst = append(dst, `,"source":`...)
	if answered {
		dst = appendString(dst, r.source)
	} else {
		dst = append(dst, `null`...)
	}
	dst = append(append(dst, `,"stale_reason":`...), cmp.Or(r.rawStale, `null`)...)
	dst = appendList(append(dst, `,"notes":[`...), r.notes)
	dst = append(dst, `],"error":`...)
	if answered {
		return append(dst, `null}`...)
	}
	dst = appendString(append(dst, `{"code":`...), r.Code)
	dst = appendString(append(dst, `,"message":`...), r.Message)
	return append(dst, `}}`...)
}

func (r *portfolioRow) delta() int64 { return r.totals.Clicks - r.previous.Clicks }

func (p *Params) appendPortfolioMeta(dst []byte, sum *portfolioSum, rows, total int) []byte {
	dst = p.appendPeriod(append(dst, `,"meta":{`...))
	for _, member := range [...]struct {
		name  string
		value int
	}{{`,"row_count":`, rows}, {`,"limit":`, p.Limit}, {`,"offset":`, p.Offset}, {`,"total":`, total}} {
		dst = strconv.AppendInt(append(dst, member.name...), int64(member.value), 10)
	}
	dst = append(dst, `,"source":`...)
	if sum.source == "" {
		return append(dst, `null`...)
	}
	return appendString(dst, sum.source)
}

// portfolioNotes explains what concerns more than one row.
func (p *Params) portfolioNotes(sum *portfolioSum) (notes []string) {
	if sum.failed > 0 {
		verb := " properties have no figures: the error of each"
		if sum.failed == 1 {
			verb = " property has no figures: its error"
		}
		notes = append(notes, strconv.Itoa(sum.failed)+verb+" says why, and totals are those of the others.")
	}
	if sum.noted > 0 { // perhaps of days that are not known, on any page
		notes = append(notes, strconv.Itoa(sum.noted)+oneOrMore(sum.noted, " property has notes of its own", " properties have notes of their own")+
			", which concern these totals too.")
	}
	if sum.countedTwice > 0 {
		notes = append(notes, strconv.Itoa(sum.countedTwice)+oneOrMore(sum.countedTwice,
			" property is the same site as another, or a part of it: these totals count its figures more than once.",
			" properties are the same sites as others, or parts of them: these totals count their figures more than once."))
	}
	if p.Order.By == byClicksDelta && !p.Compares() {
		notes = append(notes, "Without compare there is no "+byClicksDelta+": the rows are in the order of their names.")
	}
	return notes
}

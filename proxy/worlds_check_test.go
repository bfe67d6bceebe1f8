package proxy

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// served is the answer to a question about a random world.
type served struct {
	Data struct {
		Totals   servedMetrics
		Previous *struct {
			StartDate string `json:"start_date"`
			EndDate   string `json:"end_date"`
			servedMetrics
		}
		Rows []struct {
			Date, Key string
			servedMetrics
		}
		PreviousRange struct {
			StartDate string `json:"start_date"`
			EndDate   string `json:"end_date"`
		} `json:"previous_range"`
		Gainers, Losers []servedMover
	}
	Error struct{ Code, Message string }
	Meta  struct {
		DateRange struct {
			StartDate string `json:"start_date"`
			EndDate   string `json:"end_date"`
			Preset    string
		} `json:"date_range"`
		RowCount    *int `json:"row_count"`
		Offset      *int
		HasMore     *bool   `json:"has_more"`
		TruncatedBy *string `json:"truncated_by"`
		StaleReason *string `json:"stale_reason"`
		Source      string
		Notes       []string
	}
}

type servedMetrics struct{ Clicks, Impressions, CTR, Position float64 }

type servedMover struct {
	Key                 string
	Clicks, Impressions float64
	PreviousClicks      float64 `json:"previous_clicks"`
	ClicksDelta         float64 `json:"clicks_delta"`
	PreviousImpressions float64 `json:"previous_impressions"`
	Position            float64
	PreviousPosition    float64 `json:"previous_position"`
}

// problems are the differences between an answer and what it should be.
type problems []string

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Sprintf(format, args...)) }

func (p *problems) figures(what string, got servedMetrics, want tally) {
	ctr, position := 0.0, 0.0
	if want.impressions > 0 {
		ctr, position = want.clicks/want.impressions, want.positions/want.impressions
	}
	if !near(got.Clicks, want.clicks) || !near(got.Impressions, want.impressions) || !near(got.CTR, ctr) || !near(got.Position, position) {
		p.add("%s: %+v, want %v clicks, %v impressions, position %v", what, got, want.clicks, want.impressions, position)
	}
}

// check compares an answer with an expectation.
func (x *reading) check(q *question, e *expectation, status int, s *served) (p problems) {
	if status != http.StatusOK {
		if answer := fmt.Sprint(status, " ", s.Error.Code); !slices.Contains(e.refusals, answer) {
			p.add("it answers %s (%s), want %s", answer, s.Error.Message, cmp.Or(strings.Join(e.refusals, " or "), "a success"))
		}
		return p
	}
	if len(e.refusals) > 0 {
		p.add("it answers 200, want %s", strings.Join(e.refusals, " or "))
		return p
	}
	if d := s.Meta.DateRange; d.StartDate != q.from.String() || d.EndDate != q.to.String() || d.Preset != q.preset {
		p.add("date_range is %+v", d)
	}
	switch q.endpoint {
	case "/summary":
		x.checkSummary(&p, q, e, s)
	case "/timeseries":
		x.checkTimeseries(&p, q, e, s)
	case "/movers/queries", "/movers/pages":
		x.checkMovers(&p, q, e, s)
	default:
		x.checkTable(&p, q, e, s)
	}
	x.checkSource(&p, q, e, s)
	x.checkNotes(&p, q, e, s.Meta.Notes)
	return p
}

func (x *reading) checkSummary(p *problems, q *question, e *expectation, s *served) {
	p.figures("totals", s.Data.Totals, e.totals)
	if s.Meta.RowCount != nil {
		p.add("row_count is %d, want null", *s.Meta.RowCount)
	}
	previous := s.Data.Previous
	if (previous != nil) != q.compare {
		p.add("previous is %v", previous)
		return
	}
	if q.compare {
		p.figures("previous", previous.servedMetrics, e.previous)
		p.before(q, previous.StartDate, previous.EndDate)
	}
}

func (p *problems) before(q *question, start, end string) {
	if start != q.counterpart(q.from).String() || end != q.counterpart(q.to).String() {
		p.add("the previous period is %s to %s", start, end)
	}
}

func (x *reading) checkTimeseries(p *problems, _ *question, e *expectation, s *served) {
	p.rowCount(s, len(e.counted))
	if len(s.Data.Rows) != len(e.counted) {
		p.add("%d days are answered, want %d", len(s.Data.Rows), len(e.counted))
		return
	}
	for i, d := range e.counted {
		if s.Data.Rows[i].Date != d.String() {
			p.add("row %d is of %s, want %s", i, s.Data.Rows[i].Date, d)
			return
		}
		p.figures(d.String(), s.Data.Rows[i].servedMetrics, e.days[d])
	}
}

func (p *problems) rowCount(s *served, want int) {
	if s.Meta.RowCount == nil || *s.Meta.RowCount != want {
		p.add("row_count is %v, want %d", s.Meta.RowCount, want)
	}
}

func (x *reading) checkTable(p *problems, q *question, e *expectation, s *served) {
	keys := ranked(e.rows, q.order)
	more := len(keys) > q.offset+q.limit
	keys = keys[min(len(keys), q.offset):min(len(keys), q.offset+q.limit)]
	if shown := s.Meta.Offset != nil; shown != (q.offset > 0) || shown && *s.Meta.Offset != q.offset {
		p.add("offset is %v, want %d", s.Meta.Offset, q.offset)
	}
	p.rowCount(s, len(keys))
	if s.Meta.HasMore == nil || *s.Meta.HasMore != more {
		p.add("has_more is %v, want %t", s.Meta.HasMore, more)
	}
	if cut := s.Meta.TruncatedBy != nil; cut != (more && q.order == "-clicks") {
		p.add("truncated_by is %v of %d rows in the order %s, limit %d", s.Meta.TruncatedBy, len(e.rows), q.order, q.limit)
	}
	if len(s.Data.Rows) != len(keys) {
		p.add("%d rows are answered, want %q", len(s.Data.Rows), keys)
		return
	}
	for i, key := range keys {
		if s.Data.Rows[i].Key != key {
			p.add("row %d is %q, want %q", i, s.Data.Rows[i].Key, key)
			return
		}
		p.figures(key, s.Data.Rows[i].servedMetrics, e.rows[key])
	}
}

func (x *reading) checkMovers(p *problems, q *question, e *expectation, s *served) {
	p.before(q, s.Data.PreviousRange.StartDate, s.Data.PreviousRange.EndDate)
	p.rowCount(s, len(s.Data.Gainers)+len(s.Data.Losers))
	union := map[string]tally{}
	addRows(union, e.rows)
	addRows(union, e.before)
	var want [2][]string // gainers, losers: key and clicks
	for key := range union {
		switch delta := e.rows[key].clicks - e.before[key].clicks; {
		case delta > 0:
			want[0] = append(want[0], key)
		case delta < 0:
			want[1] = append(want[1], key)
		}
	}
	for side, movers := range [][]servedMover{s.Data.Gainers, s.Data.Losers} {
		slices.SortFunc(want[side], func(a, b string) int {
			sign := float64(1 - 2*side)
			return cmp.Or(cmp.Compare(sign*(e.rows[b].clicks-e.before[b].clicks), sign*(e.rows[a].clicks-e.before[a].clicks)), cmp.Compare(a, b))
		})
		keys := want[side][:min(len(want[side]), q.limit)]
		if len(movers) != len(keys) {
			p.add("%d gainers or losers (%d), want %q", len(movers), side, keys)
			continue
		}
		for i, m := range movers {
			now, before := e.rows[keys[i]], e.before[keys[i]]
			if m.Key != keys[i] || m.ClicksDelta != m.Clicks-m.PreviousClicks {
				p.add("mover %d is %+v, want %q", i, m, keys[i])
				continue
			}
			p.figures(m.Key, servedMetrics{m.Clicks, m.Impressions, ratio(m.Clicks, m.Impressions), m.Position}, now)
			p.figures(m.Key+" before", servedMetrics{m.PreviousClicks, m.PreviousImpressions, ratio(m.PreviousClicks, m.PreviousImpressions),
				m.PreviousPosition}, before)
		}
	}
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// checkSource checks where the answer says that its figures come from. Days that are in reach of both and counted from neither
// leave it open.
func (x *reading) checkSource(p *problems, q *question, e *expectation, s *served) {
	usesLive, usesStored := false, false
	for _, days := range [][]date{e.counted, e.comparable} {
		for _, d := range days {
			rows, _, _ := x.stored(d, q.table)
			usesStored = usesStored || e.states[d] == isStored && len(rows) > 0
			usesLive = usesLive || e.states[d] == isLive
		}
	}
	missing := slices.Contains(slices.Collect(maps.Values(e.states)), isMissing) // so that figures are not complete
	may := []string{"live"}
	switch span := e.span(); {
	case x.kind != connected, x.moversStored, q.to < liveStart:
		may = []string{"stored"}
	case usesLive && (usesStored || missing):
		may = []string{"hybrid"}
	case usesStored:
		may = []string{"stored", "hybrid"}
	case span[0] < liveStart || slices.ContainsFunc(span, func(d date) bool { return x.mayBeStored(e, d, q.table) }):
		if may = []string{"hybrid"}; !missing {
			may = append(may, "live")
		}
		if !usesLive { // days without traffic, all of which the archive may have
			may = append(may, "stored")
		}
	}
	if !slices.Contains(may, s.Meta.Source) {
		p.add("source is %s, want %s", s.Meta.Source, strings.Join(may, " or "))
	}
	// Movers that need the archive do not ask the upstream, so that it does not matter whether it answers.
	live := x.kind == disconnected && q.to >= liveStart
	either := live && strings.HasPrefix(q.endpoint, "/movers") && e.span()[0] < liveStart
	if stale := s.Meta.StaleReason != nil; stale != live && !either {
		p.add("stale_reason is %v", s.Meta.StaleReason)
	}
}

// mayBeStored reports whether a day can come from the archive: a day without traffic, too, if the upstream's figures begin later.
func (x *reading) mayBeStored(e *expectation, d date, table string) bool {
	first, _, _ := x.bounds()
	_, _, stored := x.stored(d, table)
	return stored && (e.states[d] == isStored || e.states[d] == isQuiet && d < first)
}

// span returns the days of the period and, with compare, of the one before, in order.
func (e *expectation) span() []date {
	var days []date
	for d := range e.states {
		days = append(days, d)
	}
	slices.Sort(days)
	return days
}

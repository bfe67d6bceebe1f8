package trace

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"time"
)

const (
	meanActions   = 4
	meanPause     = 40 * time.Second
	portfolioPage = 20 // properties on the first page of the agency's home page
)

// A session is one person at one dashboard.
type session struct {
	*generator
	client  client
	request Request // common fields of all requests of the session, and the current time
	period  period
}

func (g *generator) session() {
	account, person := g.random.IntN(g.Accounts), g.random.IntN(g.People)
	property := g.drawProperty(account)
	s := session{generator: g, client: g.clients[account*g.People+person], period: g.drawPeriod(),
		request: Request{Account: account, Person: person, Property: property, At: time.Duration(g.random.Int64N(int64(workingDay)))}}
	if g.random.IntN(2) == 0 {
		s.portfolio()
		s.pause()
	}
	s.board(s.period, nil)
	const stop = 1.0 / (meanActions + 1)
	for g.random.Float64() > stop {
		s.pause()
		s.act()
	}
}

func (s *session) pause() { s.request.At += time.Duration(s.random.ExpFloat64() * float64(meanPause)) }

func (s *session) act() {
	switch s.pick(33, 33, 10, 7, 7, 10) {
	case 0:
		before := s.period
		s.period = s.drawPeriod()
		s.board(s.period, nil)
		if s.random.IntN(3) == 0 {
			s.pause()
			s.period = before
			s.board(s.period, nil)
		}
	case 1:
		s.drillDown()
	case 2:
		s.board(s.period, nil)
	case 3:
		s.board(s.period, s.drawFilters(s.request.Property))
	case 4:
		s.movers()
	case 5:
		s.portfolio()
	}
}

// portfolio requests the agency's home page: figures and a sparkline for each property on it, and one time in three the
// same for another range.
func (s *session) portfolio() {
	opened := s.request.Property
	for p := s.period; ; p = s.drawPeriod() {
		for rank := range portfolioPage {
			if property := rank*s.Accounts + s.request.Account; property < s.Properties {
				s.request.Property = property
				s.overview(p, nil)
			}
		}
		if s.random.IntN(3) > 0 {
			break
		}
		s.pause()
	}
	s.request.Property = opened
}

// board requests one view of the dashboard.
func (s *session) board(p period, filters []filter) {
	s.overview(p, filters)
	s.table("queries", p, filters, s.drawLimit(), "-clicks")
	s.table("pages", p, filters, s.drawLimit(), "-clicks")
	if s.client.wide {
		s.table("countries", p, filters, s.drawLimit(), "-clicks")
		s.table("devices", p, filters, s.drawLimit(), "-clicks")
	}
}

// overview requests the summary and the timeseries of a range.
func (s *session) overview(p period, filters []filter) {
	compare := "none"
	if p.comparable(s.Anchor) {
		compare = "previous_period"
	}
	s.ask("summary", p, filters, Param{"compare", compare})
	s.ask("timeseries", p, filters)
}

// drawLimit returns the client's default number of rows, or one time in five one that the person chose.
func (s *session) drawLimit() int {
	if s.random.IntN(5) > 0 {
		return s.client.rows
	}
	return []int{10, 25, 100, 1000}[s.pick(40, 30, 20, 10)]
}

// drillDown requests other orders and more rows of one table, one after the other.
func (s *session) drillDown() {
	by := []string{"queries", "pages"}[s.pick(60, 40)]
	orders := []string{"-impressions", "position", "-ctr", "ctr", "-position", "clicks", "key"}
	for order, limit := "-clicks", s.drawLimit(); ; s.pause() {
		if s.random.IntN(3) == 0 {
			limit = []int{100, 1000}[s.pick(70, 30)]
		} else {
			order = orders[s.pick(40, 25, 15, 5, 5, 5, 5)]
		}
		s.table(by, s.period, nil, limit, order)
		if s.random.IntN(3) == 0 {
			return
		}
	}
}

// movers requests movers over a range with a previous period.
func (s *session) movers() {
	p := s.period
	for !p.comparable(s.Anchor) {
		p = s.drawPeriod()
	}
	by := []string{"movers/queries", "movers/pages"}[s.pick(60, 40)]
	params := s.limit([]int{10, 25, 50}[s.pick(60, 20, 20)], 10)
	if s.random.IntN(4) == 0 {
		params = append(params, Param{"min_clicks", "10"})
	}
	s.ask(by, p, nil, params...)
}

func (s *session) table(endpoint string, p period, filters []filter, limit int, order string) {
	params := s.limit(limit, 100)
	if order != "-clicks" || s.client.spellsOut {
		params = append(params, Param{"order_by", order})
	}
	s.ask(endpoint, p, filters, params...)
}

func (s *session) limit(limit, byDefault int) []Param {
	if limit == byDefault && !s.client.spellsOut {
		return nil
	}
	return []Param{{"limit", strconv.Itoa(limit)}}
}

// ask appends a request as the client spells it.
func (s *session) ask(endpoint string, p period, filters []filter, rest ...Param) {
	if len(rest) > 0 && rest[0] == (Param{"compare", "none"}) && !s.client.spellsOut {
		rest = nil
	}
	when := s.when(p)
	if len(filters) > 0 {
		rest = slices.Insert(rest, 0, Param{"filters", s.filtersText(filters)})
	}
	r := s.request
	r.Endpoint = endpoint
	if s.client.datesLast {
		r.Params = slices.Concat(rest, when)
	} else {
		r.Params = slices.Concat(when, rest)
	}
	if s.client.alphabetical {
		slices.SortFunc(r.Params, func(a, b Param) int { return cmp.Compare(a.Name, b.Name) })
	}
	s.requests = append(s.requests, r)
}

func (s *session) when(p period) []Param {
	switch {
	case s.client.dates || p.preset == "":
		return []Param{{"start_date", p.from.String()}, {"end_date", p.to.String()}}
	case p.preset == defaultPreset && !s.client.spellsOut:
		return nil
	}
	return []Param{{"date_range", p.preset}}
}

func (s *session) filtersText(filters []filter) string {
	spelled := slices.Clone(filters)
	for i := range spelled {
		if s.client.spellsOut && spelled[i].Operator == "equals" {
			spelled[i].Operator = "is"
		}
	}
	text, err := json.Marshal(spelled)
	if err != nil {
		panic("BUG: filters are strings: " + err.Error())
	}
	return string(text)
}

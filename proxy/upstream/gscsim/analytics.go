package gscsim

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// maxBody bounds the request bodies that are read.
const maxBody = 4 << 20

func readBody(r *http.Request, into any) *apiError {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return &apiError{code: http.StatusBadRequest, status: "INVALID_ARGUMENT", reason: "badRequest", message: "The request body could not be read."}
	}
	return decodeRequest(body, into)
}

// query answers searchAnalytics.query.
func (s *Server) query(r *http.Request) (any, *apiError) {
	user, site, fail := s.authorize(r)
	if fail != nil {
		return nil, fail
	}
	if site.Permission == UnverifiedUser {
		return nil, forbiddenSite(site.URL)
	}
	if fail := s.chargeSearch(user, site); fail != nil {
		return nil, fail
	}
	fields, fail := selectFields(r.URL.Query().Get("fields"), queryMembers)
	if fail != nil {
		return nil, fail
	}
	var request queryRequest
	if fail := readBody(r, &request); fail != nil {
		return nil, fail
	}
	q, fail := request.parse()
	if fail != nil {
		return nil, fail
	}
	answer, err := s.answer(r.Context(), site, q, fields, new(loadedDay))
	if err != nil { // the client disconnected, so this answer is not read
		return nil, backendError(http.StatusServiceUnavailable)
	}
	return answer, nil
}

// answer computes the selected part of an answer's body. Its only error is ctx's.
func (s *Server) answer(ctx context.Context, site Site, q *parsedQuery, fields selection, loaded *loadedDay) (rawJSON, error) {
	select {
	case s.working <- struct{}{}:
		defer func() { <-s.working }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	e := &evaluation{parsedQuery: q, world: s.world(site), extent: s.extent(site), hours: s.hoursOf, perDay: maxRowsPerDay, loaded: loaded}
	e.filterMask = newFilterMask(e.world, q.filters)
	rows, err := s.config.Worlds.recent.run(ctx, e)
	if err != nil {
		return nil, err
	}
	return s.encodeAnswer(e, rows, fields), nil
}

// Answers returns the API's response bodies to search analytics request bodies about one site, without a network. It does not
// authorise, count or charge them, and no fault applies. Consecutive requests about the same day share most of the work.
func (s *Server) Answers(ctx context.Context, siteURL string, requests ...[]byte) ([][]byte, error) {
	site, ok := s.anySite(siteURL)
	if !ok {
		return nil, fmt.Errorf("gscsim: no user has the site %s", siteURL)
	}
	answers := make([][]byte, len(requests))
	var loaded loadedDay
	for i, body := range requests {
		var request queryRequest
		fail := decodeRequest(body, &request)
		var q *parsedQuery
		if fail == nil {
			q, fail = request.parse()
		}
		if fail != nil {
			return nil, fmt.Errorf("gscsim: request %d about %s: %s", i, siteURL, fail.message)
		}
		var err error
		if answers[i], err = s.answer(ctx, site, q, nil, &loaded); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

func (s *Server) encodeAnswer(e *evaluation, rows []row, fields selection) rawJSON {
	out := make([]byte, 0, 256+160*len(rows))
	out = append(out, '{')
	if len(rows) > 0 && fields.has("rows") { // an empty answer has no rows member
		out = append(appendMember(out, "rows"), '[')
		for i := range rows {
			if i > 0 {
				out = append(out, ',')
			}
			out = s.appendRow(out, e, &rows[i], fields["rows"])
		}
		out = append(out, ']')
	}
	if fields.has("responseAggregationType") {
		kind := "byProperty"
		if e.aggregation == pageAggregation {
			kind = "byPage"
		}
		out = appendString(appendMember(out, "responseAggregationType"), kind)
	}
	if name, value := s.firstIncomplete(e); name != "" && fields.has("metadata") {
		out = append(appendMember(out, "metadata"), '{')
		if fields["metadata"].has(name) {
			out = appendString(appendMember(out, name), value)
		}
		out = append(out, '}')
	}
	return append(out, '}')
}

func (s *Server) appendRow(out []byte, e *evaluation, r *row, fields selection) []byte {
	out = append(out, '{')
	if len(e.dimensions) > 0 && fields.has("keys") {
		out = append(s.appendKeys(append(appendMember(out, "keys"), '['), e, r), ']')
	}
	if fields.has("clicks") {
		out = strconv.AppendUint(appendMember(out, "clicks"), r.clicks, 10)
	}
	if fields.has("impressions") {
		out = strconv.AppendUint(appendMember(out, "impressions"), r.impressions, 10)
	}
	if fields.has("ctr") {
		out = appendNumber(appendMember(out, "ctr"), r.perImpression(r.clicks))
	}
	if fields.has("position") {
		out = appendNumber(appendMember(out, "position"), r.perImpression(r.positions))
	}
	return append(out, '}')
}

// perImpression returns a sum divided by the number of impressions; 0 if there are none.
func (r *row) perImpression(sum uint64) float64 {
	if r.impressions == 0 {
		return 0
	}
	return float64(sum) / float64(r.impressions)
}

func (s *Server) appendKeys(out []byte, e *evaluation, r *row) []byte {
	var values [7]uint64
	rest := r.key
	for i := len(e.dimensions) - 1; i >= 0; i-- {
		if d := e.dimensions[i]; d != byDate {
			size := e.world.size(d)
			values[i], rest = rest%size, rest/size
		}
	}
	for i, d := range e.dimensions {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendString(out, s.keyText(e.world, d, values[i], r.day))
	}
	return out
}

func (s *Server) keyText(w *world, d dimension, value uint64, date day) string {
	switch d {
	case byDate:
		return date.String()
	case byHour:
		return s.hourText(date, int(value))
	case byQuery:
		return w.queries[value]
	case byPage:
		return w.pages[value]
	case byCountry:
		return w.countries[value]
	case byDevice:
		return devices()[value]
	default:
		return w.appearances[value]
	}
}

// firstIncomplete returns the metadata of an answer whose range includes incomplete data.
func (s *Server) firstIncomplete(e *evaluation) (name, value string) {
	switch {
	case e.state == allData && e.groupedBy(byDate) && e.to > e.extent.final:
		return "firstIncompleteDate", max(e.from, e.extent.final+1).String()
	case e.state == hourlyData && e.to >= e.extent.today && e.extent.hoursDone > 0:
		return "firstIncompleteHour", s.hourText(e.extent.today, e.extent.hoursDone-1)
	}
	return "", ""
}

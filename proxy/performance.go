package proxy

import (
	"context"
	"errors"
	"fmt"

	"sara/translate"
)

// A report is answered in five steps, the first two in reportServer.answerOnce, the others in reportServer.answerLive:
//
//  1. If memory has a fresh answer, it is sent again.
//  2. The request is planned (plan.go): what is known of the property's days decides which days come from the upstream and which from the
//     archive, whose part is read then. It comes first, because only the upstream costs a live call.
//  3. The upstream's part is read (upstreamread.go). If it fails or is late, stored figures answer in place of live ones (stale.go).
//  4. The rows may show more about the days than the plan knew (days.go). Then the plan is corrected, or, if it needs other rows, outdated:
//     the request is planned again.
//  5. The answer is built from the material, which is the plan and its rows (buildanswer.go).
//
// No function changes a request, a plan or a material that it is given, but planDays and planRows, which complete a new plan: to know more is
// to make another.

// A reportRequest is a request for a report in canonical form: equal requests, however they are written, have equal keys.
type reportRequest struct {
	call        *call // which asks for the report
	report      translate.Report
	conditions  []translate.Condition
	window      translate.Window // in which the upstream has data
	key         []byte           // the property and everything else that the answer depends on
	archived    bool             // the request asks for days that only the archive has
	staleReason string           // why stored figures replace live ones; empty: they do not
}

// serve returns the handler of a report.
func serve(report translate.Report) handler {
	return func(s *Server, ctx context.Context, x *exchange) (reply, error) {
		conditions, err := s.reports.conditions(ctx, &x.call)
		if err != nil {
			return reply{}, err
		}
		q := x.canonical(report, conditions)
		r, err := s.reports.answerReport(ctx, &q)
		if err == nil && r.cacheStatus == cacheHit {
			s.memo.keep(x, &q)
		}
		return r, err
	}
}

// canonical returns the call's request for a report, under conditions.
func (c *call) canonical(report translate.Report, conditions []translate.Condition) reportRequest {
	q := reportRequest{call: c, report: report, conditions: conditions, window: c.window}
	q.key = append(c.scratch[:0], c.property.ID...)
	if c.property.Archived {
		q.window = c.window.ArchiveOnly()
		q.key = append(q.key, 'a')
	}
	q.archived = c.params.Span().Start < q.window.LiveStart
	q.key = report.AppendKey(q.key, c.params, conditions)
	return q
}

// stored returns the request for the same figures from the archive alone, whatever the reason. Its answer is kept apart from that of the
// live ones.
func (q *reportRequest) stored(reason string) reportRequest {
	stored := q.inPlaceOfLive(reason)
	stored.window, stored.archived = q.call.window.ArchiveOnly(), true
	return stored
}

// inPlaceOfLive returns the request for stored figures in place of live ones, whose answer has a key of its own.
func (q *reportRequest) inPlaceOfLive(reason string) reportRequest {
	other := *q
	other.key = append(append(append(make([]byte, 0, len(q.key)+1+len(reason)), q.key...), 0), reason...)
	other.staleReason = reason
	return other
}

// conditions expands the request's filters with the brand terms and page groups that the property has now.
func (s *reportServer) conditions(ctx context.Context, c *call) ([]translate.Condition, error) {
	var segments translate.Segments
	if translate.UsesSegments(c.params.Filters) {
		ctx, span := c.step(ctx, "look up segments")
		defer span.End()
		var err error
		if segments.BrandTerms, err = s.store.BrandTerms(ctx, c.property.ID); err != nil {
			return nil, storeError{err}
		}
		if segments.PageGroups, err = s.store.PageGroups(ctx, c.property.ID); err != nil {
			return nil, storeError{err}
		}
	}
	return translate.Conditions(c.params.Filters, segments)
}

// The lessons of outdated plans are what a request knows for the next one, besides the copies of the series that memory has by then.
type lessons struct {
	gridFull     bool   // so that the next plan has none
	seriesStatus string // of the daily series, if the request read that besides its rows; empty: it did not
}

// maxPlans bounds how often a report is planned. Each plan knows more than the one before, so a few suffice.
const maxPlans = 10

// answerReport answers a report, and plans it again as long as what it reads shows that it needs other rows.
func (s *reportServer) answerReport(ctx context.Context, q *reportRequest) (r reply, err error) {
	var past lessons
	for range maxPlans {
		if r, err = s.answerOnce(ctx, q, &past); !errors.Is(err, errPlanOutdated) {
			return r, err
		}
	}
	return reply{}, fmt.Errorf("BUG: after %d plans: %w", maxPlans, err)
}

// answerOnce answers from memory, else with one plan.
func (s *reportServer) answerOnce(ctx context.Context, q *reportRequest, past *lessons) (reply, error) {
	c := q.call
	answer := s.cache.Answer(q.key)
	c.held = c.held || q.rests(answer) // the look at its archive has the request's context
	if answer != nil && s.isFresh(ctx, q, answer) {
		return q.reply(answer, cacheHit), nil
	}
	c.held = true // fills continue without the request
	known := s.lookUpDays(ctx, q, past)
	p, err := s.newPlan(ctx, q, known, past.gridFull)
	if err != nil {
		return reply{}, err
	}
	defer p.archive.release()
	if translate.MatchNothing(q.conditions) {
		m := p.withoutUpstream()
		return s.buildAnswer(ctx, &m, cacheHit)
	}
	return s.answerLive(ctx, &p, past)
}

// answerLive reads what a plan needs from the upstream, learns from the rows, and builds the answer.
func (s *reportServer) answerLive(ctx context.Context, p *plan, past *lessons) (reply, error) {
	read := s.readUpstream(ctx, &p.reportRequest, p.fetches)
	if p.call.canHedge() && !read.endsWithin(s.hedge.delay(p.call.property.ID)) {
		if r, err := s.hedgedAnswer(ctx, p, read); err == nil {
			return r, nil
		}
	}
	found, err := read.wait()
	m := material{plan: *p, found: found}
	switch {
	case errors.Is(err, errGridFull):
		past.gridFull = true
		return reply{}, errPlanOutdated
	case errors.Is(err, errPlanOutdated):
		return reply{}, err
	case err != nil:
		return s.fallBack(ctx, &m, liveFailure{err, read.calls.hasCalled()})
	}
	unclear := s.clarify(ctx, &m, past)
	status := coldest(p.cacheStatus(p.fetches, found), past.seriesStatus)
	if m, err = s.learnDays(ctx, &m); err != nil {
		return reply{}, err
	}
	defer m.archive.release() // another one, if the live days have moved
	m.unclear, m.age = unclear, s.noteOnAge(&m)
	return s.buildAnswer(ctx, &m, status)
}

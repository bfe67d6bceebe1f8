package proxy

import (
	"context"
	"errors"

	"sara/policy"
	"sara/proxy/cache"
	"sara/proxy/fillbudget"
	"sara/translate"
)

// A liveFailure is why there are no live figures.
type liveFailure struct {
	err    error
	called bool // the request made a call, which failed or is late
}

// fallBack is stale-if-error (RFC 5861): when the upstream fails, it answers from stale copies if there are any, else from the
// archive, with the reason (spec: meta.stale_reason). Filtered figures are never replaced by others. A fill that was refused
// for memory is replaced by stale copies only: it may start in a few seconds, and the archive has less than live figures.
func (s *reportServer) fallBack(ctx context.Context, m *material, f liveFailure) (reply, error) {
	copies := s.orYesterdaysSeries(ctx, m, f)
	copied, oldest := copies.areCopies()
	if !copied {
		return s.answerFromArchive(ctx, &m.reportRequest, f)
	}
	learned, err := s.learnDays(ctx, &copies)
	switch {
	case errors.Is(err, errPlanOutdated): // the copies are not of the rows that are needed
		return s.answerFromArchive(ctx, &m.reportRequest, f)
	case err != nil:
		return reply{}, err
	}
	if learned.archive != m.archive { // which is the caller's: a hedged request continues with it if this fails
		defer learned.archive.release()
	}
	if isDenied(f.err) && !m.call.noCache { // as if a refresh had not been tried
		learned.unclear, _ = s.unclearFrom(ctx, &learned)
		return s.buildAnswer(ctx, &learned, cacheHit)
	}
	reason, err := m.call.staleReason(f, true)
	if err != nil {
		return reply{}, err
	}
	learned.reportRequest = m.inPlaceOfLive(reason)
	learned.age = "The figures of Search Console are a copy from " + timestamp(oldest) + "."
	r, err := s.buildAnswer(ctx, &learned, cacheHit)
	return m.call.stale(r, f), err
}

// answerFromArchive answers from the archive alone. If that cannot answer either, the error is that of the upstream.
func (s *reportServer) answerFromArchive(ctx context.Context, q *reportRequest, f liveFailure) (reply, error) {
	c := q.call
	reason, err := c.staleReason(f, false)
	if err != nil {
		return reply{}, err
	}
	stored := q.stored(reason)
	if answer := s.cache.Answer(stored.key); answer != nil && c.started.Sub(answer.Filled()) < freshArchived {
		return c.stale(reportReply(answer, 0, cacheHit), f), nil
	}
	p, err := s.newPlan(ctx, &stored, knownDays{}, false)
	if err != nil {
		return reply{}, c.explain(f.err)
	}
	defer p.archive.release()
	m := p.withoutUpstream()
	r, err := s.buildAnswer(ctx, &m, cacheMiss)
	return c.stale(r, f), err
}

// orYesterdaysSeries replaces a daily series that cannot be fetched with a copy of yesterday's, which has a key of its own because its window
// differs. The copy must have the first day of the request: if its figures began later, the archive might have to complete them with days that
// the copy has too. It lacks the anchor's day, which is unknown then, unless the copy shows that it cannot be published, or the archive has
// it: that has more days than the copy. A request for which no budget is left does without, since it is not told why a day is missing.
func (s *reportServer) orYesterdaysSeries(ctx context.Context, m *material, f liveFailure) material {
	if !m.report.IsSeries(m.conditions) || len(m.found) != 1 || m.firstEntry() != nil || m.fetches[0].Upstream == nil || len(m.fetches[0].Archive) > 0 {
		return *m
	}
	c := m.call
	anchor := c.window.Anchor
	series := seriesOf(c.property, translate.NewWindow(anchor-1, c.grant.Plan.RetentionMonths))
	entry, _ := s.cache.AtHand(ctx, true, c.property.ID, c.grant.Key.AccountID, series)
	if entry == nil {
		return *m
	}
	known, yesterdays := entry.KnownDays(series.Range), *m
	if first, _, ok := known.Bounds(); !ok || c.params.Span().Start < first {
		return *m
	}
	if c.params.Period.End == anchor && known.Unpublished(anchor) == 0 {
		missing, _, err := s.config.History.Missing(ctx, c.property.ID, translate.ByDate, translate.DateRange{Start: anchor, End: anchor})
		if err == nil && len(missing) == 0 || c.params.Period.Start == anchor || isDenied(f.err) {
			return *m
		}
		yesterdays.gaps.Missing = []translate.Date{anchor} // also if the archive cannot be read: it has no answer then
	}
	fetch := m.fetches[0]
	fetch.Upstream, fetch.Range.Start = &series, series.Range.Start
	yesterdays.fetches = []translate.Fetch{fetch}
	yesterdays.found = []cache.Found{{Entry: entry, Stale: true}}
	return yesterdays
}

func isDenied(err error) bool {
	_, denied := errors.AsType[*policy.Denial](err)
	return denied
}

// staleReason returns the text in the answer that explains why stored figures replace live ones. If they must not after this failure, it
// returns the client's error. copied is whether the stored figures are copies of live ones.
func (c *call) staleReason(f liveFailure, copied bool) (string, error) {
	if len(c.params.Filters) > 0 {
		return "", c.explain(f.err)
	}
	if denial, denied := errors.AsType[*policy.Denial](f.err); denied && c.part { // a portfolio answers for its other properties all the same
		return reasonSpent(denial), nil
	}
	if _, refused := errors.AsType[*fillbudget.RefusedError](f.err); refused && copied {
		return reasonBusy, nil
	}
	if late, isLate := errors.AsType[lateError](f.err); isLate {
		return late.reason, nil
	}
	if failure := upstreamFailure(f.err); failure != nil && !isMalformed(failure) {
		return reasonOf(failure), nil
	}
	return "", c.explain(f.err)
}

// stale makes a reply one of a stale answer, which the client must revalidate each time. While no call is made, such as during a cooldown,
// no-cache makes no difference.
func (c *call) stale(r reply, f liveFailure) reply {
	if c.noCache && f.called {
		r.cacheStatus = cacheBypass
	}
	r.maxAge = mustRevalidate
	return r
}

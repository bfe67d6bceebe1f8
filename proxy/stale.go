package proxy

import (
	"context"
	"errors"
	"slices"
	"time"

	"sara/policy"
	"sara/proxy/cache"
	"sara/proxy/fillbudget"
	"sara/translate"
)

// fallBack is stale-if-error (RFC 5861): when the upstream fails, it answers from stale copies if there are any, else from the
// archive, with the reason (spec: meta.stale_reason). Filtered figures are never replaced by others. A fill that was refused
// for memory is replaced by stale copies only: it may start in a few seconds, and the archive has less than live figures.
func (s *Server) fallBack(ctx context.Context, q *reportRequest, m material, failure error) (reply, error) {
	s.useYesterdaysSeries(ctx, q, m, failure)
	copied, oldest := m.areCopies(q.fetches)
	if !copied {
		return s.answerFromArchive(ctx, q, failure)
	}
	learned, err := s.learnDays(ctx, q, m)
	switch {
	case errors.Is(err, errPlanOutdated): // the copies are not of the rows that are needed
		return s.answerFromArchive(ctx, q, failure)
	case err != nil:
		return reply{}, err
	}
	if learned.archivePart != m.archivePart { // which is the caller's: a hedged request continues with it if this fails
		defer learned.release()
	}
	if isDenied(failure) && !q.call.header.noCache {
		return s.buildUnrefreshed(ctx, q, learned)
	}
	return s.answerFromCopies(ctx, q, learned, oldest, failure)
}

// answerFromCopies answers from stale copies, the oldest of which was filled at a time.
func (s *Server) answerFromCopies(ctx context.Context, q *reportRequest, m material, oldest time.Time, failure error) (reply, error) {
	reason, err := q.replaceLive(failure, true)
	if err != nil {
		return reply{}, err
	}
	m.note("The figures of Search Console are a copy from " + timestamp(oldest) + ".")
	return s.buildStale(ctx, q, m, reason, cacheHit)
}

// answerFromArchive answers from the archive alone. If that cannot answer either, the error is that of the upstream.
func (s *Server) answerFromArchive(ctx context.Context, q *reportRequest, failure error) (reply, error) {
	c := q.call
	reason, err := q.replaceLive(failure, false)
	if err != nil {
		return reply{}, err
	}
	if answer := s.cache.Answer(q.key); answer != nil && c.started.Sub(answer.Filled()) < freshArchived {
		return q.stale(c.reply(answer, 0, cacheHit)), nil
	}
	q.window, q.known, q.begins = c.window.ArchiveOnly(), translate.KnownDays{}, 0
	part, absent := s.prepare(ctx, q)
	if absent != nil {
		return reply{}, c.explain(failure)
	}
	defer part.release()
	return s.buildStale(ctx, q, archiveOnly(part), reason, cacheMiss)
}

// replaceLive makes q the request for stored figures in place of live ones, whose answer has a key of its own, and returns the reason for the
// answer. If stored figures must not replace live ones after a failure, it returns the client's error.
func (q *reportRequest) replaceLive(failure error, copied bool) (reason string, err error) {
	reason, ok := q.call.staleReason(failure, copied)
	if !ok || len(q.call.params.Filters) > 0 {
		return "", q.call.explain(failure)
	}
	q.key = append(append(q.key, 0), reason...)
	return reason, nil
}

// buildStale builds an answer from stored figures in place of live ones.
func (s *Server) buildStale(ctx context.Context, q *reportRequest, m material, reason, status string) (reply, error) {
	m.origin.Source, m.origin.StaleReason = translate.SourceArchive, reason
	r, err := s.buildAnswer(ctx, q, m, status)
	return q.stale(r), err
}

// buildUnrefreshed builds an answer from copies that no budget is left to refresh, as if that had not been tried.
func (s *Server) buildUnrefreshed(ctx context.Context, q *reportRequest, m material) (reply, error) {
	if unclear, _ := s.unclearFrom(ctx, q, m); unclear != 0 {
		m.origin.Gaps.Unclear = unclear
	}
	return s.buildAnswer(ctx, q, m, cacheHit)
}

// useYesterdaysSeries replaces a daily series that cannot be fetched with a copy of yesterday's, which has a key of its own because its window
// differs. The copy must have the first day of the request: if its figures began later, the archive might have to complete them with days that
// the copy has too. It lacks the anchor's day, which is unknown then, unless the copy shows that it cannot be published, or the archive has
// it: that has more days than the copy. A request for which no budget is left does without, since it is not told why a day is missing.
func (s *Server) useYesterdaysSeries(ctx context.Context, q *reportRequest, m material, failure error) {
	if !q.report.IsSeries(q.conditions) || len(m.found) != 1 || m.firstEntry() != nil || q.fetches[0].Upstream == nil || len(q.fetches[0].Archive) > 0 {
		return
	}
	c := q.call
	anchor := c.window.Anchor
	series := seriesOf(c.property, translate.NewWindow(anchor-1, c.grant.Plan.RetentionMonths))
	entry, _ := s.cache.AtHand(ctx, true, c.property.ID, c.grant.Key.AccountID, series)
	if entry == nil {
		return
	}
	known := entry.KnownDays(series.Range)
	if first, _, ok := known.Bounds(); !ok || c.params.Span().Start < first {
		return
	}
	if c.params.Period.End == anchor && known.Unpublished(anchor) == 0 {
		missing, _, err := s.config.History.Missing(ctx, c.property.ID, translate.ByDate, translate.DateRange{Start: anchor, End: anchor})
		if err == nil && len(missing) == 0 || c.params.Period.Start == anchor || isDenied(failure) {
			return
		}
		m.origin.Gaps.Missing = []translate.Date{anchor} // also if the archive cannot be read: it has no answer then
	}
	m.found[0] = cache.Found{Entry: entry, Stale: true}
	q.fetches = slices.Clone(q.fetches) // a hedged request shares them with the read that continues
	fetch := &q.fetches[0]
	fetch.Upstream, fetch.Range.Start = &series, series.Range.Start
}

func isDenied(err error) bool {
	_, denied := errors.AsType[*policy.Denial](err)
	return denied
}

// staleReason returns the text in the answer that explains why stored figures replace live ones after an error; ok is false if they must
// not. copied is whether the stored figures are copies of live ones.
func (c *call) staleReason(err error, copied bool) (reason string, ok bool) {
	if denial, denied := errors.AsType[*policy.Denial](err); denied && c.part { // a portfolio answers for its other properties all the same
		return reasonSpent(denial), true
	}
	if _, refused := errors.AsType[*fillbudget.RefusedError](err); refused && copied {
		return reasonBusy, true
	}
	if late, isLate := errors.AsType[lateError](err); isLate {
		return late.reason, true
	}
	failure := upstreamFailure(err)
	return reasonOf(failure), failure != nil && !isMalformed(failure)
}

// stale makes a reply one of a stale answer, which the client must revalidate each time. While no call is made, such as during a cooldown,
// no-cache makes no difference.
func (q *reportRequest) stale(r reply) reply {
	if q.call.header.noCache && q.called {
		r.cacheStatus = cacheBypass
	}
	r.maxAge = mustRevalidate
	return r
}

package proxy

import (
	"context"
	"errors"
)

// errNotAtHand means that a live call is needed for the figures of a property.
var errNotAtHand = errors.New("the daily series is not at hand")

// answerAtHand answers a summary that is part of another answer without a live call: from a copy of the daily series, or from an archive
// that has every day. The archive does not answer for a connection that does not work: the usual path does, with the reason.
func (s *reportServer) answerAtHand(ctx context.Context, q *reportRequest) (reply, error) {
	c := q.call
	isCopied := func(shared bool) bool {
		entry, _ := s.cache.AtHand(ctx, shared, c.property.ID, c.grant.Key.AccountID, seriesOf(c.property, c.window))
		return entry != nil && c.started.Sub(entry.Filled()) < c.acceptedAge(c.ttl())
	}
	stored := q.stored("")
	isStored := c.mayBeStored()
	switch {
	case c.params.Period.End < q.window.LiveStart, isCopied(false):
		return s.answerReport(ctx, q)
	case isStored && s.isKept(ctx, &stored):
		return s.answerReport(ctx, &stored)
	case isCopied(true):
		return s.answerReport(ctx, q)
	case isStored:
		return s.answerStored(ctx, &stored)
	}
	return reply{}, errNotAtHand
}

// mayBeStored reports whether the archive may have every day of the request, and may answer in place of Search Console.
func (c *call) mayBeStored() bool {
	has := c.property.History
	span := c.params.Span()
	return has != nil && int32(span.Start) >= has.First && int32(span.End) <= has.Last && c.property.AccessProblem() == "" && !c.noCache
}

// isKept reports whether memory has an answer to a request that can be sent again.
func (s *reportServer) isKept(ctx context.Context, q *reportRequest) bool {
	answer := s.cache.Answer(q.key)
	return answer != nil && s.isFresh(ctx, q, answer)
}

// answerStored answers from the archive if it has the totals of every day.
func (s *reportServer) answerStored(ctx context.Context, q *reportRequest) (reply, error) {
	p, err := s.newPlan(ctx, q, knownDays{}, false)
	if err != nil {
		return reply{}, errNotAtHand // and the live figures are asked for
	}
	defer p.archive.release()
	if len(p.gaps.Missing) > 0 || p.archive.derived > 0 {
		return reply{}, errNotAtHand
	}
	m := p.withoutUpstream()
	return s.buildAnswer(ctx, &m, cacheMiss)
}

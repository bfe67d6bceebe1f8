package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sync/errgroup"

	"sara/policy"
	"sara/proxy/cache"
	"sara/proxy/upstream"
	"sara/translate"
)

// How long figures stay fresh. The last days may still change until the upstream calls them final; earlier ones do not.
// What the archive is asked costs nobody anything, and an operator who has just filled it wants to see that.
const (
	freshAtAnchor = 10 * time.Minute
	freshSettled  = 6 * time.Hour
	freshArchived = time.Minute
)

// life is how long rows of the upstream stay fresh for an answer about the period.
func (c *call) ttl() time.Duration {
	if c.params.Period.End >= c.window.Anchor {
		return freshAtAnchor
	}
	return freshSettled
}

// A question is what a request asks of a property, in canonical form.
type reportRequest struct {
	report     translate.Report
	conditions []translate.Condition
	window     translate.Window  // of what the upstream is asked
	key        []byte            // the property and everything else that decides the answer
	fetches    []translate.Fetch // once the answer is not ready
	ttl        time.Duration     // of the answer
}

// serve makes a report the answer of a route.
func serve(report translate.Report) func(*Server, context.Context, *call) (reply, error) {
	return func(s *Server, ctx context.Context, c *call) (reply, error) {
		conditions, err := s.conditions(ctx, c)
		if err != nil {
			return reply{}, err
		}
		q := reportRequest{report: report, conditions: conditions, window: c.window, ttl: c.ttl()}
		q.key = append(c.scratch[:0], c.property.ID...)
		if c.property.Archived {
			q.window = c.window.ArchiveOnly()
			q.key = append(q.key, 'a')
		}
		if c.params.Span().Start < q.window.UpstreamStart {
			q.ttl = freshArchived
		}
		q.key = report.AppendKey(q.key, c.params, conditions)
		return s.answerReport(ctx, c, &q)
	}
}

// conditions expands the request's filters, by what is configured for the property at this moment.
func (s *Server) conditions(ctx context.Context, c *call) ([]translate.Condition, error) {
	var segments translate.Segments
	if translate.UsesSegments(c.params.Filters) {
		ctx, span := c.step(ctx, "look up segments")
		defer span.End()
		var err error
		if segments.BrandTerms, err = s.config.Store.BrandTerms(ctx, c.property.ID); err != nil {
			return nil, asStoreError(err)
		}
		if segments.PageGroups, err = s.config.Store.PageGroups(ctx, c.property.ID); err != nil {
			return nil, asStoreError(err)
		}
	}
	return translate.Conditions(c.params.Filters, segments)
}

// figures answers a question: with an answer that is ready, else from the rows that it takes, of the archive and then of
// the upstream, since only the latter costs a call.
func (s *Server) answerReport(ctx context.Context, c *call, q *reportRequest) (reply, error) {
	live := c.header.live
	if !live {
		if answer := s.cache.Answer(q.key); answer != nil && c.started.Sub(answer.Filled()) < q.ttl {
			if c.memoized == nil {
				s.memoize(c, q)
			}
			return c.reply(answer, q.ttl, cacheHit), nil
		}
	}
	q.fetches = q.report.Fetches(c.params, c.property.Site, q.window, q.conditions)
	stored, err := s.readArchive(ctx, c, q.fetches)
	if err != nil {
		return reply{}, err
	}
	found, err := s.readUpstream(ctx, c, q, live)
	if err != nil {
		return s.fallBack(ctx, c, q, stored, found, err)
	}
	status := cacheHit
	for i, f := range found {
		if q.fetches[i].Upstream == nil || f.Status == cache.Filled || f.Status == cache.Coalesced {
			status = cacheMiss
		}
	}
	if live {
		status = cacheBypass
	}
	return s.buildAnswer(c, q, stored, found, status)
}

// fromUpstream finds the rows that the needs have of the upstream, one for each need, none for one that has none of it.
// With an error, what it found beside it are copies that may be out of date, or nothing.
func (s *Server) readUpstream(ctx context.Context, c *call, q *reportRequest, live bool) ([]cache.Found, error) {
	asked := xxhash.Sum64(q.key)
	bill := &bill{gate: s.gate, grant: c.grant, propertyID: c.property.ID}
	questions := make([]cache.Request, len(q.fetches))
	for i, fetch := range q.fetches {
		if fetch.Upstream == nil {
			continue
		}
		questions[i] = cache.Request{
			PropertyID: c.property.ID, AccountID: c.grant.Key.AccountID, Query: *fetch.Upstream, TTL: c.ttl(), Bypass: live, RequestHash: asked,
			Fill: func(ctx context.Context) (*translate.Rows, error) { return s.fill(ctx, c, *fetch.Upstream, bill) },
		}
		// What takes more than one call is charged for all of them at once, so that none is spent on half an answer.
		if len(q.fetches) > 1 && (live || !s.cache.Has(ctx, questions[i])) {
			bill.expected++
		}
	}
	found := make([]cache.Found, len(questions))
	// One that fails does not cut the other off: it was paid for, and its rows are kept.
	var group errgroup.Group
	for i := range questions {
		if questions[i].Fill == nil {
			continue
		}
		group.Go(func() (err error) {
			defer recoverPanic(&err)
			found[i], err = s.cache.Do(ctx, questions[i])
			return err
		})
	}
	err := group.Wait()
	bill.settle(ctx)
	return found, err
}

// answerFrom makes the reply of rows that were found, and keeps it ready.
func (s *Server) buildAnswer(c *call, q *reportRequest, stored *stored, found []cache.Found, status string) (reply, error) {
	asked := xxhash.Sum64(q.key)
	var entries []*cache.Entry
	rows := make([]*translate.Rows, len(q.fetches))
	widened, known := 0, stored.none()
	for i, f := range found {
		rows[i] = stored.rows[i]
		if f.Entry == nil {
			continue
		}
		entries = append(entries, f.Entry)
		if rows[i] = f.Entry.Rows(); stored.rows[i] != nil {
			rows[i] = translate.MergeRows(q.fetches[i].By, stored.rows[i], rows[i])
		}
		known = known && f.Status == cache.HitMemory
		if f.Entry.RequestHash() != asked && (f.Status == cache.HitMemory || f.Status == cache.HitShared) {
			widened++
		}
	}
	if known {
		// Rows that are out of date were most likely in date when they were last asked for.
		if answer := s.cache.Answer(q.key); answer != nil {
			return c.reply(answer, q.ttl, status), nil
		}
	}
	head, err := q.report.Head(c.params, q.fetches, rows, stored.origin)
	if err != nil {
		return reply{}, fmt.Errorf("write the answer: %w", err)
	}
	s.cache.Widened(widened)
	answer := cache.NewAnswer(head, c.started, entries...)
	s.cache.Keep(q.key, c.grant.Key.AccountID, answer)
	return c.reply(answer, q.ttl, status), nil
}

// fallBack answers a question whose rows could not be had live: with copies that are out of date, if there are any, else
// from the archive, saying why (spec: meta.stale_reason). With filters there is no other answer than a live one.
func (s *Server) fallBack(ctx context.Context, c *call, q *reportRequest, stored *stored, found []cache.Found, err error) (reply, error) {
	copied, oldest := copies(q.fetches, found)
	trouble := troubleOf(err)
	var denial *policy.Denial
	switch {
	case errors.As(err, &denial) && copied && !c.header.live:
		// The copies are what there would be if nobody had tried to get newer ones.
		return s.buildAnswer(c, q, stored, found, cacheHit)
	case trouble == nil || trouble.Kind == upstream.Rejected || len(c.params.Filters) > 0:
		return reply{}, c.explain(err)
	}
	reason, status := reasonOf(trouble), cacheHit
	q.key = append(append(q.key, 0), reason...)
	if copied {
		stored.note("The figures of the upstream are a copy of " + timestamp(oldest) + ".")
	} else {
		if answer := s.cache.Answer(q.key); answer != nil && c.started.Sub(answer.Filled()) < freshArchived {
			return c.stale(answer, status), nil
		}
		status, found = cacheMiss, make([]cache.Found, len(q.fetches))
		q.fetches = q.report.Fetches(c.params, c.property.Site, c.window.ArchiveOnly(), nil)
		var none error
		if stored, none = s.readArchive(ctx, c, q.fetches); none != nil {
			return reply{}, c.explain(err)
		}
	}
	stored.origin.Source, stored.origin.StaleReason = translate.SourceArchive, reason
	r, err := s.buildAnswer(c, q, stored, found, status)
	if err != nil {
		return reply{}, err
	}
	return c.stale(r.answer, status), nil
}

// stale makes the reply of an answer that is not what was asked for. A client may keep it if it asks each time.
func (c *call) stale(answer *cache.Answer, status string) reply {
	if c.header.live {
		status = cacheBypass
	}
	r := c.reply(answer, 0, status)
	r.maxAge = mustRevalidate
	return r
}

// copies reports whether there is a copy of whatever the upstream was asked, and when the oldest was filled.
func copies(fetches []translate.Fetch, found []cache.Found) (all bool, oldest time.Time) {
	for i, f := range found {
		switch {
		case fetches[i].Upstream == nil:
		case f.Entry == nil:
			return false, oldest
		case oldest.IsZero() || f.Entry.Filled().Before(oldest):
			oldest = f.Entry.Filled()
		}
	}
	return true, oldest
}

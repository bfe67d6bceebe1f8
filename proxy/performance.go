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
	"sara/proxy/fillbudget"
	"sara/proxy/upstream"
	"sara/translate"
)

// How long figures stay fresh. The upstream may still change the last days before the anchor; earlier days are final.
// Reading the archive costs no live call, and an operator who has just filled it wants to see the result.
const (
	freshAtAnchor = 10 * time.Minute
	freshSettled  = 6 * time.Hour
	freshArchived = time.Minute
)

// ttl is how long upstream rows of the request's period stay fresh.
func (c *call) ttl() time.Duration {
	if c.params.Period.End >= c.window.Anchor {
		return freshAtAnchor
	}
	return freshSettled
}

// A reportRequest is a request for a report in canonical form: equal requests, however they are written, have equal keys.
type reportRequest struct {
	report     translate.Report
	conditions []translate.Condition
	window     translate.Window  // in which the upstream has data
	key        []byte            // the property and everything else that the answer depends on
	fetches    []translate.Fetch // set once the answer is not in memory
	ttl        time.Duration     // of the answer
}

// serve returns the handler of a report.
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

// conditions expands the request's filters with the brand terms and page groups that the property has now.
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

// answerReport answers from memory, else fetches the rows and builds the answer. The archive is read before the upstream,
// because only the upstream costs a live call.
func (s *Server) answerReport(ctx context.Context, c *call, q *reportRequest) (reply, error) {
	if !c.header.noCache {
		if answer := s.cache.Answer(q.key); answer != nil && c.started.Sub(answer.Filled()) < q.ttl {
			if c.memoized == nil {
				s.memoize(c, q)
			}
			return c.reply(answer, q.ttl, cacheHit), nil
		}
	}
	q.fetches = q.report.Fetches(c.params, c.property.Site, q.window, q.conditions)
	part, err := s.readArchive(ctx, c, q.fetches)
	if err != nil {
		return reply{}, err
	}
	found, err := s.readUpstream(ctx, c, q)
	if err != nil {
		return s.fallBack(ctx, c, q, part, found, err)
	}
	status := cacheHit
	for i, f := range found {
		if q.fetches[i].Upstream == nil || f.Status == cache.Filled || f.Status == cache.Coalesced {
			status = cacheMiss
		}
	}
	if c.header.noCache {
		status = cacheBypass
	}
	return s.buildAnswer(ctx, c, q, part, found, status)
}

// readUpstream reads the upstream's part of each fetch through the cache; a fetch without one gets none. Next to an error it
// returns the stale copies that the cache still has.
func (s *Server) readUpstream(ctx context.Context, c *call, q *reportRequest) ([]cache.Found, error) {
	hash := xxhash.Sum64(q.key)
	calls := &liveCallReservation{gate: s.gate, grant: c.grant, propertyID: c.property.ID}
	requests := make([]cache.Request, len(q.fetches))
	for i, fetch := range q.fetches {
		if fetch.Upstream == nil {
			continue
		}
		f := s.newFill(c, *fetch.Upstream, calls)
		requests[i] = cache.Request{
			PropertyID: c.property.ID, AccountID: c.grant.Key.AccountID, Query: *fetch.Upstream, TTL: c.ttl(), Bypass: c.header.noCache, RequestHash: hash,
			Reserve: f.reserve, Fill: f.run,
		}
		// All calls of a request are charged at once, so that none is spent on half an answer.
		if len(q.fetches) > 1 && (c.header.noCache || !s.cache.Has(ctx, requests[i])) {
			calls.expected++
		}
	}
	found := make([]cache.Found, len(requests))
	// A failing call does not cancel the other one, which is already charged, and whose rows are cached.
	var group errgroup.Group
	for i := range requests {
		if requests[i].Fill == nil {
			continue
		}
		group.Go(func() (err error) {
			defer recoverPanic(&err)
			found[i], err = s.cache.Do(ctx, requests[i])
			return err
		})
	}
	err := group.Wait()
	calls.Release(ctx)
	return found, err
}

// buildAnswer builds the answer from rows, and keeps its bytes in memory.
func (s *Server) buildAnswer(ctx context.Context, c *call, q *reportRequest, part *archivePart, found []cache.Found, status string) (reply, error) {
	end, err := s.largeWork.beginRows(ctx, countRows(part, found))
	if err != nil {
		return reply{}, err
	}
	defer end()
	hash := xxhash.Sum64(q.key)
	var entries []*cache.Entry
	rows := make([]*translate.Rows, len(q.fetches))
	widened, fromMemory := 0, part.none()
	for i, f := range found {
		rows[i] = part.rows[i]
		if f.Entry == nil {
			continue
		}
		entries = append(entries, f.Entry)
		if rows[i] = f.Entry.Rows(); part.rows[i] != nil {
			rows[i] = translate.MergeRows(q.fetches[i].By, part.rows[i], rows[i])
		}
		fromMemory = fromMemory && f.Status == cache.HitMemory
		if f.Entry.RequestHash() != hash && (f.Status == cache.HitMemory || f.Status == cache.HitShared) {
			widened++
		}
	}
	if fromMemory {
		// The rows have not changed since the answer was built, so its bytes can be sent again.
		if answer := s.cache.Answer(q.key); answer != nil {
			return c.reply(answer, q.ttl, status), nil
		}
	}
	head, err := q.report.Head(c.params, q.fetches, rows, part.origin)
	if err != nil {
		return reply{}, fmt.Errorf("write the answer: %w", err)
	}
	s.cache.CountWidened(widened)
	answer := cache.NewAnswer(head, c.started, entries...)
	s.cache.Keep(q.key, c.grant.Key.AccountID, answer)
	return c.reply(answer, q.ttl, status), nil
}

// countRows returns how many rows an answer is built from.
func countRows(part *archivePart, found []cache.Found) (n int) {
	for i, f := range found {
		if f.Entry != nil {
			n += f.Entry.Rows().Len()
		}
		if part.rows[i] != nil {
			n += part.rows[i].Len()
		}
	}
	return n
}

// fallBack is stale-if-error (RFC 5861): when the upstream fails, it answers from stale copies if there are any, else from the
// archive, with the reason (spec: meta.stale_reason). Filtered figures are never replaced by others. A fill that was refused
// for memory is replaced by stale copies only: it may start in a few seconds, and the archive has less than live figures.
func (s *Server) fallBack(ctx context.Context, c *call, q *reportRequest, part *archivePart, found []cache.Found, err error) (reply, error) {
	copied, oldest := staleCopies(q.fetches, found)
	var denial *policy.Denial
	failure := upstreamFailure(err)
	reason := reasonOf(failure)
	if _, ok := errors.AsType[*fillbudget.RefusedError](err); ok && copied {
		failure, reason = new(upstream.Error), reasonBusy
	}
	switch {
	case errors.As(err, &denial) && copied && !c.header.noCache:
		// No budget is left for a refresh: the copies are served as if none had been tried.
		return s.buildAnswer(ctx, c, q, part, found, cacheHit)
	case failure == nil || failure.Kind == upstream.Rejected || len(c.params.Filters) > 0:
		return reply{}, c.explain(err)
	}
	status := cacheHit
	q.key = append(append(q.key, 0), reason...)
	if copied {
		part.note("The figures of the upstream are a copy of " + timestamp(oldest) + ".")
	} else {
		if answer := s.cache.Answer(q.key); answer != nil && c.started.Sub(answer.Filled()) < freshArchived {
			return c.staleReply(answer, status), nil
		}
		status, found = cacheMiss, make([]cache.Found, len(q.fetches))
		q.fetches = q.report.Fetches(c.params, c.property.Site, c.window.ArchiveOnly(), nil)
		var absent error
		if part, absent = s.readArchive(ctx, c, q.fetches); absent != nil {
			return reply{}, c.explain(err)
		}
	}
	part.origin.Source, part.origin.StaleReason = translate.SourceArchive, reason
	r, err := s.buildAnswer(ctx, c, q, part, found, status)
	if err != nil {
		return reply{}, err
	}
	return c.staleReply(r.answer, status), nil
}

// staleReply is the reply of a stale answer, which the client must revalidate each time.
func (c *call) staleReply(answer *cache.Answer, status string) reply {
	if c.header.noCache {
		status = cacheBypass
	}
	r := c.reply(answer, 0, status)
	r.maxAge = mustRevalidate
	return r
}

// staleCopies reports whether there is a copy for each fetch from the upstream, and when the oldest was filled.
func staleCopies(fetches []translate.Fetch, found []cache.Found) (all bool, oldest time.Time) {
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

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
const (
	freshAtAnchor = 10 * time.Minute
	freshSettled  = 6 * time.Hour
)

// life is how long an answer about the period stays fresh.
func (c *call) life() time.Duration {
	if c.ask.Period.End >= c.window.Anchor {
		return freshAtAnchor
	}
	return freshSettled
}

// serve makes a report the answer of a route.
func serve(report translate.Report) func(*Server, context.Context, *call) (reply, error) {
	return func(s *Server, ctx context.Context, c *call) (reply, error) {
		conditions, err := s.conditions(ctx, c)
		if err != nil {
			return reply{}, err
		}
		if err := c.checkReach(); err != nil {
			return reply{}, err
		}
		q := question{report: report, conditions: conditions}
		var buffer [256]byte
		key := append(buffer[:0], c.property.ID...)
		q.key = report.AppendKey(key, c.ask, conditions)
		return s.figures(ctx, c, &q)
	}
}

// conditions expands the request's filters, by what is configured for the property at this moment.
func (s *Server) conditions(ctx context.Context, c *call) ([]translate.Condition, error) {
	var segments translate.Segments
	if translate.NeedsSegments(c.ask.Filters) {
		var err error
		if segments.BrandTerms, err = s.config.Store.BrandTerms(ctx, c.property.ID); err != nil {
			return nil, asStoreError(err)
		}
		if segments.PageGroups, err = s.config.Store.PageGroups(ctx, c.property.ID); err != nil {
			return nil, asStoreError(err)
		}
	}
	return translate.Conditions(c.ask.Filters, segments)
}

// A question is what a request asks of a property, in canonical form.
type question struct {
	report     translate.Report
	conditions []translate.Condition
	key        []byte // the property and everything else that decides the answer
}

// figures answers a question: with an answer that is ready, else from the rows that it takes.
func (s *Server) figures(ctx context.Context, c *call, q *question) (reply, error) {
	live := c.wantsLive()
	if !live {
		if answer := s.cache.Answer(q.key); answer != nil && c.started.Sub(answer.Filled()) < c.life() {
			return c.reply(answer, wordHit), nil
		}
	}
	queries := q.report.Queries(c.ask, c.property.Site, c.window, q.conditions)
	found, err := s.rows(ctx, c, q, queries, live)
	if err != nil {
		return s.fallBack(c, q, queries, found, err)
	}
	word := wordHit
	for _, f := range found {
		if f.How == cache.Filled || f.How == cache.Awaited {
			word = wordMiss
		}
	}
	if live {
		word = wordBypass
	}
	return s.answerFrom(c, q, queries, found, c.liveOrigin(), word)
}

// rows finds the rows of every query. With an error, what it found beside it are copies that may be out of date, or nothing.
func (s *Server) rows(ctx context.Context, c *call, q *question, queries []translate.Query, live bool) ([]cache.Found, error) {
	asked := xxhash.Sum64(q.key)
	bill := &bill{gate: s.gate, grant: c.grant, propertyID: c.property.ID}
	questions := make([]cache.Question, len(queries))
	for i, query := range queries {
		questions[i] = cache.Question{
			PropertyID: c.property.ID, AccountID: c.grant.Key.AccountID, Query: query, Life: c.life(), Bypass: live, Asked: asked,
			Fill: func(ctx context.Context) (*translate.Rows, error) { return s.fill(ctx, c, query, bill) },
		}
		// What takes more than one call is charged for all of them at once, so that none is spent on half an answer.
		if len(queries) > 1 && (live || !s.cache.Has(ctx, questions[i])) {
			bill.expected++
		}
	}
	found := make([]cache.Found, len(queries))
	// One that fails does not cut the other off: it was paid for, and its rows are kept.
	var group errgroup.Group
	for i := range questions {
		group.Go(func() (err error) {
			defer catch(&err)
			found[i], err = s.cache.Do(ctx, questions[i])
			return err
		})
	}
	err := group.Wait()
	bill.settle(ctx)
	return found, err
}

// answerFrom makes the reply of rows that were found.
func (s *Server) answerFrom(c *call, q *question, queries []translate.Query, found []cache.Found, origin translate.Origin, word string) (reply, error) {
	asked := xxhash.Sum64(q.key)
	entries := make([]*cache.Entry, len(found))
	rows := make([]*translate.Rows, len(found))
	widened, known := 0, true
	for i, f := range found {
		entries[i], rows[i] = f.Entry, f.Entry.Rows()
		known = known && f.How == cache.Memory
		if f.Entry.Asked() != asked && (f.How == cache.Memory || f.How == cache.Shared) {
			widened++
		}
	}
	if known {
		// Rows that are out of date were most likely in date when they were last asked for.
		if answer := s.cache.Answer(q.key); answer != nil {
			return c.reply(answer, word), nil
		}
	}
	head, err := q.report.Head(c.ask, queries, rows, origin)
	if err != nil {
		return reply{}, fmt.Errorf("write the answer: %w", err)
	}
	s.cache.Widened(widened)
	answer := cache.NewAnswer(head, entries...)
	s.cache.Keep(q.key, c.grant.Key.AccountID, answer)
	return c.reply(answer, word), nil
}

// fallBack answers a question whose rows could not be had live: with copies that are out of date, if there are any and
// the request has no filters, saying why (spec: meta.stale_reason).
func (s *Server) fallBack(c *call, q *question, queries []translate.Query, found []cache.Found, err error) (reply, error) {
	oldest := c.started
	for _, f := range found {
		if f.Entry == nil {
			return reply{}, c.explain(err)
		}
		if f.Entry.Filled().Before(oldest) {
			oldest = f.Entry.Filled()
		}
	}
	trouble := troubleOf(err)
	var denial *policy.Denial
	switch {
	case trouble != nil && trouble.Kind != upstream.Rejected && len(c.ask.Filters) == 0:
		reason := reasonOf(trouble)
		q.key = append(append(q.key, 0), reason...)
		r, err := s.answerFrom(c, q, queries, found, translate.Origin{PropertyID: c.property.ID, Source: translate.Stored,
			StaleReason: reason, Notes: []string{"The figures are a copy of " + timestamp(oldest) + "."}}, wordHit)
		r.maxAge = 0
		return r, err
	case errors.As(err, &denial) && !c.wantsLive():
		// The copies are what there would be if nobody had tried to get newer ones.
		return s.answerFrom(c, q, queries, found, c.liveOrigin(), wordHit)
	}
	return reply{}, c.explain(err)
}

// liveOrigin is what an answer says of itself that is in date, or about to be.
func (c *call) liveOrigin() translate.Origin {
	return translate.Origin{PropertyID: c.property.ID, Source: translate.Live}
}

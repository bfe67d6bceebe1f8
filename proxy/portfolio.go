package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"sara/archive/sqlstore"
	"sara/policy/panics"
	"sara/proxy/cache"
	"sara/proxy/fillbudget"
	"sara/proxy/openapi"
	"sara/translate"
)

const (
	// portfolioWorkers is how many properties of one request are asked for at a time: as many as an account has fills.
	portfolioWorkers = fillbudget.DefaultPerAccount
	// portfolioReserve is the part of a request's time that is left to write its answer.
	portfolioReserve = time.Second
	// maxPortfolio and portfolioBytes, for each property, bound the memory of a request.
	maxPortfolio   = 10_000
	portfolioBytes = 5 << 10
	// freshPortfolio is how long a copy of a daily series counts as at hand. The figures of its days are final: what it may lack is
	// a day that was published since.
	freshPortfolio = 6 * time.Hour
)

// A portfolioPart is the summary of one property of a portfolio.
type portfolioPart struct {
	call  *call
	reply reply
	err   error     // errNotAtHand: not asked for yet
	late  bool      // it failed when the time of the request was over
	known time.Time // when the newest copy was filled that memory has, of today's window or of the one before; zero: none
}

// A portfolioServer answers portfolios, with the summaries of a reportServer.
type portfolioServer struct {
	reports *reportServer
	store   *sqlstore.Store
	memory  *fillbudget.Budget // of portfolios that are being made
	causes  causeLog
}

// servePortfolio answers /v1/portfolio.
func servePortfolio(s *Server, ctx context.Context, x *exchange) (reply, error) {
	return s.portfolios.serve(ctx, &x.call)
}

// serve answers with the summary of each property, by the same path as /summary. What is at hand comes first,
// so that no property waits for live calls of others; what is then not answered in the time of the request has an error of its own,
// and a later request finds in the cache what has come meanwhile.
func (s *portfolioServer) serve(ctx context.Context, c *call) (reply, error) {
	reach := sqlstore.Reach{PersonID: c.grant.Key.PersonID, WorkspaceID: c.grant.WorkspaceID(), Archived: true}
	release, err := s.beginPortfolio(ctx, c, reach)
	if err != nil {
		return reply{}, err
	}
	defer release()
	properties, err := s.store.ReachableProperties(ctx, reach, maxPortfolio, 0)
	if err != nil {
		return reply{}, storeError{err}
	}
	deadline, _ := ctx.Deadline()
	within, cancel := context.WithDeadline(ctx, deadline.Add(-portfolioReserve))
	defer cancel()
	parts := make([]portfolioPart, len(properties))
	left := make([]*portfolioPart, len(parts))
	params := c.params.OfSummary()
	for i := range parts {
		parts[i] = portfolioPart{call: c.about(&properties[i], params), err: errNotAtHand}
		left[i] = &parts[i]
	}
	s.summarize(within, left, (*reportServer).answerAtHand)
	s.summarize(within, s.withoutFigures(within, parts), (*reportServer).answerReport)
	return s.portfolioReply(c, parts), nil
}

// beginPortfolio waits for the memory of a portfolio of properties. The caller calls release afterwards.
func (s *portfolioServer) beginPortfolio(ctx context.Context, c *call, of sqlstore.Reach) (release func(), err error) {
	total, err := s.store.CountReachable(ctx, of)
	switch {
	case err != nil:
		return nil, storeError{err}
	case total > maxPortfolio:
		return nil, &translate.InputError{Code: translate.CodeValidation,
			Message: fmt.Sprintf("the key reaches %d properties, and a portfolio has at most %d: use keys of single workspaces", total, maxPortfolio)}
	}
	key := c.grant.Key
	held, err := s.memory.Acquire(ctx, fillbudget.Claim{Account: key.AccountID, Key: key.ID, Request: c.id, Bytes: int64(total) * portfolioBytes})
	if refused, ok := errors.AsType[*fillbudget.RefusedError](err); ok {
		return nil, &apiError{code: openapi.CodeServiceUnavailable, retryAfter: refused.RetryAfter,
			message: "the service is busy with other portfolios", cause: err}
	}
	if err != nil {
		return nil, err
	}
	return held.Release, nil
}

// withoutFigures returns the parts that need a live call: first those without any copy, then those with the oldest one. So a budget that
// does not suffice for all of them is not spent on the same properties each time.
func (s *portfolioServer) withoutFigures(ctx context.Context, parts []portfolioPart) (left []*portfolioPart) {
	for i := range parts {
		if part := &parts[i]; errors.Is(part.err, errNotAtHand) {
			part.known = s.reports.knownDays(ctx, part.call, false).at
			left = append(left, part)
		}
	}
	slices.SortStableFunc(left, func(a, b *portfolioPart) int { return a.known.Compare(b.known) })
	return left
}

// about returns the call for the summary of one property of a portfolio.
func (c *call) about(p *sqlstore.Property, params *translate.Params) *call {
	return &call{id: c.id + "/" + p.ID, started: c.started, span: c.span, noCache: c.noCache, part: true,
		grant: c.grant, window: c.window, windowEnds: c.windowEnds, params: params, property: &p.Property}
}

// An answerer answers a report.
type answerer func(*reportServer, context.Context, *reportRequest) (reply, error)

// summarize answers the parts, a few at a time. Those for which there is no time left keep their error.
func (s *portfolioServer) summarize(ctx context.Context, parts []*portfolioPart, answer answerer) {
	next := make(chan *portfolioPart)
	var workers sync.WaitGroup
	for range min(portfolioWorkers, len(parts)) {
		workers.Go(func() {
			for part := range next {
				part.reply, part.err = s.summarizeOne(ctx, part.call, answer)
				part.late = part.err != nil && ctx.Err() != nil
			}
		})
	}
	for _, part := range parts {
		if ctx.Err() != nil {
			break
		}
		next <- part
	}
	close(next)
	workers.Wait()
}

func (s *portfolioServer) summarizeOne(ctx context.Context, c *call, answer answerer) (r reply, err error) {
	defer panics.Recover(&err)
	q := c.canonical(translate.SummaryReport(), nil)
	return answer(s.reports, ctx, &q)
}

// portfolioReply writes the answer from those of the parts.
func (s *portfolioServer) portfolioReply(c *call, parts []portfolioPart) reply {
	properties := make([]translate.PortfolioProperty, len(parts))
	status := cacheHit
	for i := range parts {
		part, p := &parts[i], parts[i].call.property
		properties[i] = translate.PortfolioProperty{ID: p.ID, Name: p.DisplayName, Site: p.Site, Slug: p.Slug}
		if part.err == nil {
			properties[i].Summary = part.reply.answer.Head()
			status = coldest(status, part.reply.cacheStatus)
			continue
		}
		failed := s.partError(part)
		properties[i].Code, properties[i].Message = failed.code, failed.message
		status = coldest(status, cacheMiss)
	}
	head := translate.PortfolioHead(c.params, properties, s.reports.config.Anomalies.Notes(c.params))
	return reply{answer: cache.NewAnswer(head, c.started), tail: translate.AppendTail, cacheStatus: status, maxAge: mustRevalidate}
}

// coldest returns the status of an answer from two parts: a miss if any is, and bypass if a call was made because of no-cache.
func coldest(a, b string) string {
	for _, status := range [...]string{cacheBypass, cacheMiss} {
		if a == status || b == status {
			return status
		}
	}
	return cacheHit
}

// partError returns the error of a property, and logs its cause.
func (s *portfolioServer) partError(part *portfolioPart) *apiError {
	failed := apiErrorOf(part.err)
	if part.late && failed.httpStatus() >= fasthttp.StatusInternalServerError || errors.Is(part.err, errNotAtHand) {
		return &apiError{code: openapi.CodeUpstreamUnavailable,
			message: "the request timed out before this property answered: repeat it; what it has fetched by then is kept"}
	}
	s.causes.write(part.call.id, failed)
	return failed
}

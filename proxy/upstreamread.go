package proxy

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"sara/proxy/cache"
	"sara/translate"
)

// An upstreamRead reads the upstream's part of each fetch of a request through the cache, in the background unless nothing else can be
// done meanwhile. It ends with the context of the request; the fills that it has started go on.
type upstreamRead struct {
	requests []cache.Request // without a Fill: the fetch reads nothing from the upstream
	fills    []*fill         // of the requests
	left     atomic.Int32    // requests that have not ended
	done     chan struct{}   // closed once all have ended and the following are set
	found    []cache.Found
	errs     []error
}

// readUpstream begins to read the upstream's part of each fetch.
func (s *Server) readUpstream(ctx context.Context, c *call, q *reportRequest) *upstreamRead {
	hash := xxhash.Sum64(q.key)
	calls := &liveCallReservation{gate: s.gate, grant: c.grant, propertyID: c.property.ID}
	read := &upstreamRead{requests: make([]cache.Request, len(q.fetches)), done: make(chan struct{}),
		found: make([]cache.Found, len(q.fetches)), errs: make([]error, len(q.fetches))}
	var beside *translate.Query
	if q.usesCopy() {
		series := seriesOf(c.property, c.window)
		beside = &series
	}
	for i, fetch := range q.fetches {
		if fetch.Upstream == nil {
			continue
		}
		f := s.newFill(c, *fetch.Upstream, calls)
		read.fills = append(read.fills, f)
		read.requests[i] = cache.Request{
			PropertyID: c.property.ID, AccountID: c.grant.Key.AccountID, Query: *fetch.Upstream, TTL: s.copyTTL(ctx, c, *fetch.Upstream),
			FirstRows: q.report.FirstOfPart(c.params, fetch), Current: c.params.Offset > 0, RequestHash: hash, Beside: beside, Along: &f.cooldown, Reserve: f.reserve, Fill: f.run,
		}
		if c.header.noCache {
			read.requests[i].Bypass = s.isOld(ctx, c, read.requests[i])
		}
		// All calls of a request are charged at once, so that none is spent on half an answer.
		if len(q.fetches) > 1 && !s.cache.Has(ctx, read.requests[i]) {
			calls.expected++
		}
	}
	read.begin(ctx, s.cache, calls, !c.canHedge() && len(read.fills) == 1)
	return read
}

// isOld reports whether there is a copy that is too old for a request with no-cache.
func (s *Server) isOld(ctx context.Context, c *call, r cache.Request) bool {
	r.TTL = c.acceptedAge(r.TTL)
	copied := s.cache.Copy(ctx, r)
	return copied.Entry != nil && copied.Stale
}

// begin starts the reads, or reads alone, at once. A failing call does not cancel the other one, which is already charged, and whose
// rows are cached.
func (r *upstreamRead) begin(ctx context.Context, rows *cache.Cache, calls *liveCallReservation, alone bool) {
	r.left.Store(int32(len(r.requests)) + 1) // and this function
	end := func() {
		if r.left.Add(-1) == 0 {
			calls.Release(context.WithoutCancel(ctx)) // the request may have been answered by a hedge
			close(r.done)
		}
	}
	defer end()
	for i := range r.requests {
		if r.requests[i].Fill == nil {
			end()
			continue
		}
		if found, ok := rows.AtOnce(r.requests[i]); ok { // without a goroutine
			r.found[i] = found
			end()
			continue
		}
		read := func() {
			defer end()
			defer recoverPanic(&r.errs[i])
			r.found[i], r.errs[i] = rows.Do(ctx, r.requests[i])
		}
		if alone {
			read()
			continue
		}
		go read()
	}
}

// endsWithin waits until the read has ended, and no longer than a delay. It reports whether it has.
func (r *upstreamRead) endsWithin(delay time.Duration) bool {
	select {
	case <-r.done:
		return true
	default:
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-r.done:
		return true
	case <-timer.C:
		return false
	}
}

// wait waits until the read has ended. Next to an error it returns the stale copies that the cache still has.
func (r *upstreamRead) wait() ([]cache.Found, error) {
	<-r.done
	if i := slices.IndexFunc(r.errs, func(err error) bool { return err != nil }); i >= 0 {
		return r.found, r.errs[i]
	}
	return r.found, nil
}

// late returns the error of a read that has outlasted its hedge.
func (r *upstreamRead) late() lateError {
	if slices.ContainsFunc(r.fills, func(f *fill) bool { return f.waits.Load() }) {
		return lateError{reasonBusy}
	}
	return lateError{reasonSlow}
}

// hedgedAnswer answers from stored figures while the upstream is late: its call goes on in the background, and its rows will be
// cached. An error means that nothing is stored.
func (s *Server) hedgedAnswer(ctx context.Context, c *call, q reportRequest, part *archivePart, read *upstreamRead) (reply, error) {
	copies := make([]cache.Found, len(read.requests))
	for i := range read.requests {
		if read.requests[i].Fill != nil {
			copies[i] = s.cache.Copy(ctx, read.requests[i])
		}
	}
	stored := *part
	stored.origin.Notes = slices.Clone(part.origin.Notes)
	r, err := s.fallBack(ctx, c, &q, &stored, copies, read.late())
	if err != nil {
		s.hedge.waited.Inc()
		return reply{}, err
	}
	s.hedge.stored.Inc()
	return r, nil
}

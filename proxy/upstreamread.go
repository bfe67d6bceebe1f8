package proxy

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"sara/policy/panics"
	"sara/proxy/cache"
	"sara/translate"
)

// An upstreamRead reads the upstream's part of each fetch of a request through the cache, partly in the background (see begin). It ends
// with the context of the request; the fills that it has started continue.
type upstreamRead struct {
	parts  []readPart
	calls  liveCallReservation
	series translate.Query // whose copy comes along from Redis
	left   atomic.Int32    // parts that have not ended, and one for begin
	done   chan struct{}   // closed once all have ended and the following is set; nil: they have, without waiting
	found  []cache.Found

	// Memory for the slices: only movers have two fetches.
	part [1]readPart
	one  [1]cache.Found
}

// A readPart is the upstream's part of one fetch.
type readPart struct {
	request cache.Request // without a Fill: the fetch reads nothing from the upstream
	fill    fill          // of the request
	err     error         // set once the part has ended
}

// readUpstream begins to read the upstream's part of each fetch of a request.
func (s *reportServer) readUpstream(ctx context.Context, q *reportRequest, fetches []translate.Fetch) *upstreamRead {
	c := q.call
	hash := xxhash.Sum64(q.key)
	read := &upstreamRead{calls: liveCallReservation{gate: s.gate, grant: c.grant, propertyID: c.property.ID}}
	if n := len(fetches); n <= len(read.part) {
		read.parts, read.found = read.part[:n], read.one[:n]
	} else {
		read.parts, read.found = make([]readPart, n), make([]cache.Found, n)
	}
	var beside *translate.Query
	if q.usesCopy() {
		read.series = seriesOf(c.property, c.window)
		beside = &read.series
	}
	for i := range fetches {
		fetch := &fetches[i]
		if fetch.Upstream == nil {
			continue
		}
		part := &read.parts[i]
		s.setFill(&part.fill, c, fetch, &read.calls)
		part.request = cache.Request{
			PropertyID: c.property.ID, AccountID: c.grant.Key.AccountID, Query: *fetch.Upstream, TTL: s.copyTTL(ctx, c, *fetch.Upstream),
			FirstRows: q.report.FirstOfPart(c.params, *fetch), Current: c.params.Offset > 0, RequestHash: hash, Beside: beside,
			Along: &part.fill.cooldown, Reserve: part.fill.reserve, Fill: part.fill.run,
		}
		if c.noCache {
			part.request.Bypass = s.isOld(ctx, c, part.request)
		}
		// All calls of a request are charged at once, so that none is spent on half an answer.
		if len(fetches) > 1 && !s.cache.Has(ctx, part.request) {
			read.calls.expected++
		}
	}
	read.begin(ctx, s.cache, c.canHedge())
	return read
}

// isOld reports whether there is a copy that is too old for a request with no-cache.
func (s *reportServer) isOld(ctx context.Context, c *call, r cache.Request) bool {
	r.TTL = c.acceptedAge(r.TTL)
	copied := s.cache.Copy(ctx, r)
	return copied.Entry != nil && copied.Stale
}

// begin starts the reads. A failing call does not cancel the other one, which is already charged, and whose rows are cached. The last part
// is looked up right here, since Redis answers soon or not at all: most requests need no other goroutine. If nothing else can answer the
// request meanwhile (hedged), it waits for that part here, too.
func (r *upstreamRead) begin(ctx context.Context, rows *cache.Cache, hedged bool) {
	last := len(r.parts) - 1
	for last > 0 && r.parts[last].request.Fill == nil {
		last--
	}
	r.left.Store(int32(len(r.parts)) + 1)
	defer r.end()
	for i := range r.parts {
		rest := r.look(ctx, rows, i, i == last)
		if rest == nil {
			r.end()
			continue
		}
		run := func() {
			defer r.end()
			defer panics.Recover(&r.parts[i].err)
			r.found[i], r.parts[i].err = rest()
		}
		if i == last && !hedged {
			run()
			continue
		}
		if r.done == nil {
			r.done = make(chan struct{})
		}
		go run()
	}
}

// look looks up part i, in memory only unless shared is set. It returns what is left to do, which may have to wait; nil: nothing.
func (r *upstreamRead) look(ctx context.Context, rows *cache.Cache, i int, shared bool) (rest func() (cache.Found, error)) {
	part := &r.parts[i]
	defer panics.Recover(&part.err)
	switch {
	case part.request.Fill == nil:
		return nil
	case shared:
		r.found[i], rest = rows.Look(ctx, part.request)
		return rest
	}
	found, ok := rows.AtOnce(part.request)
	if ok {
		r.found[i] = found
		return nil
	}
	return func() (cache.Found, error) { return rows.Do(ctx, part.request) }
}

// end marks a part as ended. What the last one leaves reserved is not needed.
func (r *upstreamRead) end() {
	if r.left.Add(-1) > 0 {
		return
	}
	r.calls.release()
	if r.done != nil {
		close(r.done)
	}
}

// endsWithin waits until the read has ended, and no longer than a delay. It reports whether it has.
func (r *upstreamRead) endsWithin(delay time.Duration) bool {
	if r.done == nil {
		return true
	}
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

// wait waits until the read has ended. With an error it returns the stale copies that the cache still has.
func (r *upstreamRead) wait() ([]cache.Found, error) {
	if r.done != nil {
		<-r.done
	}
	for i := range r.parts {
		if err := r.parts[i].err; err != nil {
			return r.found, err
		}
	}
	return r.found, nil
}

// late returns the error of a read that has outlasted its hedge.
func (r *upstreamRead) late() lateError {
	for i := range r.parts {
		if r.parts[i].fill.waits.Load() {
			return lateError{reasonBusy}
		}
	}
	return lateError{reasonSlow}
}

package proxy

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"sara/proxy/cache"
	"sara/proxy/fillbudget"
	"sara/proxy/spans"
	"sara/proxy/upstream"
	"sara/translate"
)

// fillOverhead is what a fill holds in addition to its rows: buffers of the connection, of the decompression, and of the copy for Redis.
const fillOverhead = 512 << 10

// reasonBusy is the text of an answer to a request whose fill was refused.
const reasonBusy = "the service is busy with other questions for live figures"

// errGridFull is the error of a fill of a grid that may lack rows.
var errGridFull = errors.New("a grid has as many rows as one call returns: some may be missing")

// A fill is one upstream call of a request, which takes memory from the budget of fills. It may outlive the request.
type fill struct {
	reports *reportServer
	call    *call
	query   translate.Query
	fetch   *translate.Fetch
	calls   *liveCallReservation
	grant   *fillbudget.Grant
	waits   atomic.Bool // for its memory

	cooldown cache.Along // of the property's site
}

// setFill sets the fill of a fetch, which may get more rows than its query asks for.
func (s *reportServer) setFill(f *fill, c *call, fetch *translate.Fetch, calls *liveCallReservation) {
	f.reports, f.call, f.query, f.fetch, f.calls = s, c, *fetch.Upstream, fetch, calls
	f.cooldown.Key = s.config.Upstream.CooldownKey(f.query.Site)
}

// reserve waits for the memory of the fill, and decides how many rows to ask for. No live call is charged before.
func (f *fill) reserve(ctx context.Context) (release func(), err error) {
	ctx, span := spans.Start(ctx, "wait for memory")
	defer span.End()
	f.waits.Store(true)
	defer f.waits.Store(false)
	f.query = f.reports.tables.enlarged(f.call.property.ID, f.query)
	key := f.call.grant.Key
	claim := fillbudget.Claim{Account: key.AccountID, Key: key.ID, Request: f.call.id, Bytes: f.query.MaxBody() + fillOverhead}
	if f.grant, err = f.reports.fills.Acquire(ctx, claim); err != nil {
		return nil, err
	}
	return f.grant.Release, nil
}

// run calls the upstream, and keeps no more memory reserved than the rows take.
func (f *fill) run(ctx context.Context) (rows *translate.Rows, err error) {
	if err := f.reports.checkPlan(ctx, f.call, f.fetch); err != nil {
		return nil, err
	}
	rows, err = f.ask(ctx)
	switch {
	case err != nil:
		return nil, err
	case f.query.IsFull(rows.Len()):
		return nil, errGridFull
	}
	f.reports.tables.learn(f.call.property.ID, f.query, rows.Len())
	f.grant.Shrink(int64(rows.Size()) + fillOverhead)
	return rows, nil
}

// ask queries the upstream. It runs on a context of its own and may outlive the request, so it must not read parts of the call that are
// reused after the request.
func (f *fill) ask(ctx context.Context) (rows *translate.Rows, err error) {
	var begun time.Time
	rows, err = f.reports.config.Upstream.ChargedQuery(ctx, f.target(), f.query, func(ctx context.Context) error {
		err := f.calls.Take(ctx)
		begun = time.Now()
		return err
	})
	if err == nil {
		f.reports.hedge.observe(f.call.property.ID, time.Since(begun))
	}
	if _, ok := errors.AsType[*upstream.CredentialsError](err); ok {
		return nil, credentialsFailure(err)
	}
	return rows, err
}

// target returns the property as the upstream names it, with the cooldown that a look into Redis has just found.
func (f *fill) target() upstream.Target {
	p := f.call.property
	return upstream.Target{PropertyID: p.ID, Site: p.Site, ConnectionID: p.Connection.ID, Revision: p.Connection.Revision,
		Healthy: p.Connection.Healthy, AccessNote: p.AccessNote, Cooldown: f.cooldown.Value, CooldownRead: f.cooldown.Read}
}

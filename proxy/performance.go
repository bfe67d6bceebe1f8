package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"sara/proxy/cache"
	"sara/translate"
)

// A reportRequest is a request for a report in canonical form: equal requests, however they are written, have equal keys.
type reportRequest struct {
	call       *call // which asks for the report
	report     translate.Report
	conditions []translate.Condition
	window     translate.Window // in which the upstream has data
	key        []byte           // the property and everything else that the answer depends on
	archived   bool             // the request asks for days that only the archive has

	// Set once the answer is not in memory.
	basis   uint64 // of what depends on the archive: see Server.basis
	known   translate.KnownDays
	knownAt time.Time      // when the copy of the series that known comes from was filled
	begins  translate.Date // the first day with figures, of a request for earlier days; 0: there is nothing to say
	noGrids bool           // because one was full
	fetches []translate.Fetch
	// seriesStatus is the status of the daily series, if the request read that besides its rows; empty: it did not.
	seriesStatus string
	called       bool // for stored figures in place of live ones: this request made a call, which failed or is late
}

// serve returns the handler of a report.
func serve(report translate.Report) handler {
	return func(s *Server, ctx context.Context, c *call) (reply, error) {
		conditions, err := s.conditions(ctx, c)
		if err != nil {
			return reply{}, err
		}
		q := c.canonical(report, conditions)
		admitted := q // before planning adds to it
		r, err := s.answerReport(ctx, &q)
		if err == nil && r.cacheStatus == cacheHit {
			s.memoize(&admitted)
		}
		return r, err
	}
}

// canonical returns the call's request for a report, under conditions.
func (c *call) canonical(report translate.Report, conditions []translate.Condition) reportRequest {
	q := reportRequest{call: c, report: report, conditions: conditions, window: c.window}
	q.key = append(c.scratch[:0], c.property.ID...)
	if c.property.Archived {
		q.window = c.window.ArchiveOnly()
		q.key = append(q.key, 'a')
	}
	q.archived = c.params.Span().Start < q.window.LiveStart
	q.key = report.AppendKey(q.key, c.params, conditions)
	return q
}

// conditions expands the request's filters with the brand terms and page groups that the property has now.
func (s *Server) conditions(ctx context.Context, c *call) ([]translate.Condition, error) {
	var segments translate.Segments
	if translate.UsesSegments(c.params.Filters) {
		ctx, span := c.step(ctx, "look up segments")
		defer span.End()
		var err error
		if segments.BrandTerms, err = s.config.Store.BrandTerms(ctx, c.property.ID); err != nil {
			return nil, storeError{err}
		}
		if segments.PageGroups, err = s.config.Store.PageGroups(ctx, c.property.ID); err != nil {
			return nil, storeError{err}
		}
	}
	return translate.Conditions(c.params.Filters, segments)
}

// maxPlans bounds how often a report is planned. Each plan knows more than the one before, so a few suffice.
const maxPlans = 10

// answerReport answers a report, and plans it again as long as what it reads shows that it needs other rows.
func (s *Server) answerReport(ctx context.Context, q *reportRequest) (r reply, err error) {
	for range maxPlans {
		if r, err = s.answerOnce(ctx, q); !errors.Is(err, errPlanOutdated) {
			return r, err
		}
	}
	return reply{}, fmt.Errorf("BUG: after %d plans: %w", maxPlans, err)
}

// answerOnce answers from memory, else plans the fetches, and reads the rows. The archive is read before the upstream, because only the
// upstream costs a live call.
func (s *Server) answerOnce(ctx context.Context, q *reportRequest) (reply, error) {
	c := q.call
	answer := s.cache.Answer(q.key)
	c.held = c.held || q.rests(answer) // the look at its archive has the request's context
	if answer != nil && s.isFresh(ctx, q, answer) {
		return q.reply(answer, cacheHit), nil
	}
	c.held = true // fills continue without the request
	if q.archived {
		q.basis = s.basis(ctx, c) // before the archive is read: what is read may be newer, but not older
	}
	if err := s.lookUpDays(ctx, q); err != nil {
		return reply{}, err
	}
	part, err := s.prepare(ctx, q)
	if err != nil {
		return reply{}, err
	}
	defer part.release()
	if translate.MatchNothing(q.conditions) {
		for i := range part.parts {
			part.parts[i] = new(translate.Rows)
		}
		return s.buildAnswer(ctx, q, archiveOnly(part), cacheHit)
	}
	return s.answerLive(ctx, q, part)
}

// answerLive reads what the fetches need from the upstream, and builds the answer with what the archive has of them.
func (s *Server) answerLive(ctx context.Context, q *reportRequest, part *archivePart) (reply, error) {
	read := s.readUpstream(ctx, q)
	if q.call.canHedge() && !read.endsWithin(s.hedge.delay(q.call.property.ID)) {
		if r, err := s.hedgedAnswer(ctx, *q, part, read); err == nil {
			return r, nil
		}
	}
	found, err := read.wait()
	m := material{part, found}
	switch {
	case errors.Is(err, errGridFull):
		q.noGrids = true
		return reply{}, errPlanOutdated
	case errors.Is(err, errPlanOutdated):
		return reply{}, err
	case err != nil:
		q.called = read.calls.hasCalled()
		return s.fallBack(ctx, q, m, err)
	}
	unclear := s.clarify(ctx, q, m)
	status := coldest(q.cacheStatus(found), q.seriesStatus)
	if m, err = s.learnDays(ctx, q, m); err != nil {
		return reply{}, err
	}
	defer m.release() // another archive's part, if the live days have moved
	if unclear != 0 {
		m.origin.Gaps.Unclear = unclear
	}
	s.noteAge(q, m)
	return s.buildAnswer(ctx, q, m, status)
}

// canHedge reports whether stored figures may answer while the upstream is late.
func (c *call) canHedge() bool { return len(c.params.Filters) == 0 }

// reply is the reply with an answer to the request.
func (q *reportRequest) reply(answer *cache.Answer, status string) reply {
	return q.call.reply(answer, q.left(answer), status)
}

// cacheStatus is the status of an answer from these rows: bypass only if no-cache made a call.
func (q *reportRequest) cacheStatus(found []cache.Found) string {
	status := cacheHit
	for i, f := range found {
		switch called := f.Status == cache.Filled || f.Status == cache.Coalesced; {
		case called && q.call.header.noCache:
			return cacheBypass
		case called || q.fetches[i].Upstream == nil:
			status = cacheMiss
		}
	}
	return status
}

// buildAnswer builds the answer from its material, and keeps its bytes in memory.
func (s *Server) buildAnswer(ctx context.Context, q *reportRequest, m material, status string) (reply, error) {
	entries := m.appendEntries(make([]*cache.Entry, 0, 2)) // on the stack
	if m.isFromMemory() {
		// The rows have not changed since the answer was built, so its bytes can be sent again.
		if answer := s.cache.Answer(q.key); answer != nil && answer.IsOf(entries) {
			return q.reply(answer, status), nil
		}
	}
	size := m.work()
	end, err := s.largeWork.beginRows(ctx, size)
	if err != nil {
		return reply{}, err
	}
	defer end()
	head, err := s.buildHead(ctx, q, m)
	if err != nil {
		return reply{}, err
	}
	s.cache.CountWidened(m.countWidened(xxhash.Sum64(q.key)))
	answer := cache.NewAnswer(head, q.call.started, entries...)
	s.keepAnswer(q, m, answer)
	r := q.reply(answer, status)
	if size.isLarge() {
		_, err = s.inForm(q.call, r) // in the same turn: answers that wait for another one would take up memory
	}
	return r, err
}

// buildHead builds the head of an answer: it merges the rows, and completes what the answer says about its days.
func (s *Server) buildHead(ctx context.Context, q *reportRequest, m material) (translate.Head, error) {
	q.completeGaps(m)
	rows := make([]*translate.Rows, len(m.parts), len(m.memory)) // on the stack
	s.mergeRows(rows, q, m)
	if err := s.findBeginning(ctx, q, m, rows); err != nil {
		return nil, err
	}
	m.origin.Notes = append(m.origin.Notes, s.config.Anomalies.Notes(q.call.params)...)
	if q.begins != 0 {
		m.note("Search Console's figures of this property begin on " + q.begins.String() + ".")
	}
	head, err := s.writeHead(q, rows, m.origin)
	if err != nil {
		return nil, fmt.Errorf("write the answer: %w", err)
	}
	return head, nil
}

// keepAnswer keeps a new answer in memory, and records what it depends on besides its rows.
func (s *Server) keepAnswer(q *reportRequest, m material, answer *cache.Answer) {
	c := q.call
	answer.RestOn(q.basis, c.started)
	if m.origin.Gaps.Unclear != 0 {
		answer.Doubt()
	}
	if q.usesCopy() {
		answer.Mention(c.property.ID, seriesOf(c.property, c.window), q.known)
	}
	s.cache.Keep(q.key, c.grant.Key.AccountID, answer)
}

// usualHead is room for most answers.
const usualHead = 16 << 10

// writeHead writes the head of an answer. Its length is not known in advance, and the cache must not keep unused capacity: so most heads are
// written into a reused buffer, and then copied.
func (s *Server) writeHead(q *reportRequest, rows []*translate.Rows, origin translate.Origin) (translate.Head, error) {
	buffer := s.heads.Get().(*[]byte)
	defer s.heads.Put(buffer)
	head, err := q.report.AppendHead((*buffer)[:0], q.call.params, q.fetches, rows, origin)
	if err != nil || cap(head) > usualHead {
		return head, err
	}
	*buffer = head
	return bytes.Clone(head), nil
}

// mergeRows sets in rows those of each fetch, from the archive and from the upstream.
func (s *Server) mergeRows(rows []*translate.Rows, q *reportRequest, m material) {
	c := q.call
	for i, f := range m.found {
		archived, first := m.parts[i], q.report.FirstRows(c.params, q.fetches[i])
		switch {
		case f.Entry == nil && archived != nil:
			rows[i] = s.merge(q.fetches[i].By, first, archived)
		case f.Entry == nil:
		case archived != nil:
			rows[i] = s.merge(q.fetches[i].By, first, archived, q.fetches[i].Read(f.Entry.Rows()))
		case c.params.Offset > 0 && q.fetches[i].ReadsAll():
			rows[i] = s.cache.Ranked(f.Entry, c.params.Order, c.grant.Key.AccountID)
		default:
			rows[i] = q.fetches[i].Read(f.Entry.Rows())
		}
	}
}

// merge adds up rows of different days, as translate.Merger.Merge does.
func (s *Server) merge(by translate.Dimension, first int, parts ...translate.Part) *translate.Rows {
	m, _ := s.mergers.Get().(*translate.Merger)
	defer s.mergers.Put(m)
	return m.Merge(by, first, parts...)
}

package proxy

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"sara/proxy/cache"
	"sara/translate"
)

// reply is the reply with an answer to the request.
func (q *reportRequest) reply(answer *cache.Answer, status string) reply {
	return reportReply(answer, q.left(answer), status)
}

// reportReply returns the reply of a report. A client may keep it as long as it stays fresh.
func reportReply(answer *cache.Answer, fresh time.Duration, cacheStatus string) reply {
	return reply{answer: answer, tail: translate.AppendTail, cacheStatus: cacheStatus, maxAge: max(mustRevalidate, int(fresh/time.Second))}
}

// cacheStatus is the status of an answer from these rows: bypass only if no-cache made a call.
func (q *reportRequest) cacheStatus(fetches []translate.Fetch, found []cache.Found) string {
	status := cacheHit
	for i, f := range found {
		switch called := f.Status == cache.Filled || f.Status == cache.Coalesced; {
		case called && q.call.noCache:
			return cacheBypass
		case called || fetches[i].Upstream == nil:
			status = cacheMiss
		}
	}
	return status
}

// buildAnswer builds the answer from its material, and keeps its bytes in memory.
func (s *reportServer) buildAnswer(ctx context.Context, m *material, status string) (reply, error) {
	entries := m.appendEntries(make([]*cache.Entry, 0, 2)) // on the stack
	if m.isFromMemory() {
		// The rows have not changed since the answer was built, so its bytes can be sent again.
		if answer := s.cache.Answer(m.key); answer != nil && answer.IsOf(entries) {
			return m.reply(answer, status), nil
		}
	}
	size := m.work()
	end, err := s.largeWork.beginRows(ctx, size)
	if err != nil {
		return reply{}, err
	}
	defer func() { end() }()
	rows := make([]*translate.Rows, len(m.found), len(m.archive.memory)) // on the stack
	s.mergeRows(rows, m)
	origin, err := s.origin(ctx, m, rows)
	if err != nil {
		return reply{}, err
	}
	head, err := s.writeHead(m, rows, origin)
	if err != nil {
		return reply{}, fmt.Errorf("write the answer: %w", err)
	}
	s.cache.CountWidened(m.countWidened(xxhash.Sum64(m.key)))
	answer := cache.NewAnswer(head, m.call.started, entries...)
	s.keepAnswer(m, origin, answer)
	if size.isLarge() && !m.call.part {
		m.call.turn, end = end, func() {} // the answer takes its form in the same turn: answers that wait for another one would take up memory
	}
	return m.reply(answer, status), nil
}

// origin returns where the rows of an answer come from, and everything that it says about its days.
func (s *reportServer) origin(ctx context.Context, m *material, rows []*translate.Rows) (translate.Origin, error) {
	begins, err := s.findBeginning(ctx, m, rows)
	if err != nil {
		return translate.Origin{}, err
	}
	notes := m.archive.notes(m.report.By())
	if m.age != "" {
		notes = append(notes, m.age)
	}
	notes = append(notes, s.config.Anomalies.Notes(m.call.params)...)
	if begins != 0 {
		notes = append(notes, "Search Console's figures of this property begin on "+begins.String()+".")
	}
	return translate.Origin{PropertyID: m.call.property.ID, Source: m.source(), StaleReason: m.staleReason,
		Truncated: m.archive.truncated, Notes: notes, Gaps: m.allGaps()}, nil
}

// keepAnswer keeps a new answer in memory, and records what it depends on besides its rows.
func (s *reportServer) keepAnswer(m *material, origin translate.Origin, answer *cache.Answer) {
	c := m.call
	answer.RestOn(m.basis, c.started)
	if origin.Gaps.Unclear != 0 {
		answer.Doubt()
	}
	if m.usesCopy() {
		answer.Mention(c.property.ID, seriesOf(c.property, c.window), m.known.KnownDays)
	}
	s.cache.Keep(m.key, c.grant.Key.AccountID, answer)
}

// usualHead is room for most answers.
const usualHead = 16 << 10

// writeHead writes the head of an answer. Its length is not known in advance, and the cache must not keep unused capacity: so most heads are
// written into a reused buffer, and then copied.
func (s *reportServer) writeHead(m *material, rows []*translate.Rows, origin translate.Origin) (translate.Head, error) {
	buffer := s.heads.Get().(*[]byte)
	defer s.heads.Put(buffer)
	head, err := m.report.AppendHead((*buffer)[:0], m.call.params, m.fetches, rows, origin)
	if err != nil || cap(head) > usualHead {
		return head, err
	}
	*buffer = head
	return bytes.Clone(head), nil
}

// mergeRows sets in rows those of each fetch, from the archive and from the upstream.
func (s *reportServer) mergeRows(rows []*translate.Rows, m *material) {
	c := m.call
	for i, f := range m.found {
		archived, first := m.archive.parts[i], m.report.FirstRows(c.params, m.fetches[i])
		switch {
		case f.Entry == nil && archived != nil:
			rows[i] = s.merge(m.fetches[i].By, first, archived)
		case f.Entry == nil:
		case archived != nil:
			rows[i] = s.merge(m.fetches[i].By, first, archived, m.fetches[i].Read(f.Entry.Rows()))
		case c.params.Offset > 0 && m.fetches[i].ReadsAll():
			rows[i] = s.cache.Ranked(f.Entry, c.params.Order, c.grant.Key.AccountID)
		default:
			rows[i] = m.fetches[i].Read(f.Entry.Rows())
		}
	}
}

// merge adds up rows of different days, as translate.Merger.Merge does.
func (s *reportServer) merge(by translate.Dimension, first int, parts ...translate.Part) *translate.Rows {
	m, _ := s.mergers.Get().(*translate.Merger)
	defer s.mergers.Put(m)
	return m.Merge(by, first, parts...)
}

// findBeginning returns the first day with figures, if the answer has to say it (0: it has not): also for a summary, timeseries or movers
// whose first day is archived as one without traffic. The archive has such days from before the beginning of a site that was young when it was
// collected: they are zeros, and the answer says so, like that of the live ones.
func (s *reportServer) findBeginning(ctx context.Context, m *material, rows []*translate.Rows) (translate.Date, error) {
	byDate := m.report.By() == translate.ByDate
	if m.begins != 0 || m.archive.last == nil || !byDate && !m.report.NeedsDays() {
		return m.begins, nil
	}
	first, ok := m.gaps.FirstPresent(m.call.params.Covered())
	if !ok || first > *m.archive.last || byDate && rows[0].Shows(first) {
		return 0, nil
	}
	begins, archived, err := s.config.History.Begins(ctx, m.call.property.ID, 0) // not only of the days that the plan keeps
	if err != nil {
		return 0, storeError{err}
	}
	live, _, ok := m.known.Bounds()
	if !ok && m.hasLiveDays() { // a series that the archive has as a whole did not look
		live, _, ok = s.knownDays(ctx, m.call, false).Bounds()
	}
	if ok && (!archived || live < begins) {
		begins = live
	}
	if begins <= first {
		return 0, nil
	}
	return begins, nil
}

package proxy

import (
	"context"
	"errors"
	"slices"

	"sara/archive"
	"sara/translate"
)

// A plan says which rows answer a request, and what is known before those of the upstream are read.
type plan struct {
	reportRequest
	known   knownDays
	live    translate.Window // the request's, without days that the upstream has dropped
	begins  translate.Date   // the first day with figures, of a request for earlier days; 0: there is nothing to say
	basis   uint64           // of what depends on the archive: see reportServer.basis
	noGrids bool             // because one was full
	fetches []translate.Fetch
	archive *archivePart   // of the fetches
	gaps    translate.Gaps // those of the archive included
}

// newPlan plans a request by what is known of its days, and reads the archive's part, which the caller releases.
func (s *reportServer) newPlan(ctx context.Context, q *reportRequest, known knownDays, noGrids bool) (plan, error) {
	p := plan{reportRequest: *q, known: known, live: q.window, noGrids: noGrids}
	if q.archived {
		p.basis = s.basis(ctx, q.call) // before the archive is read: what is read may be newer, but not older
	}
	if err := s.planDays(ctx, &p); err != nil {
		return plan{}, err
	}
	if err := s.planRows(ctx, &p); err != nil {
		return plan{}, err
	}
	return p, nil
}

// planDays completes a new plan with the start of the live days, which is an estimate, if the request asks for days before the upstream's
// first day with figures. If the archive has earlier figures, the upstream has dropped those days: they come from the archive, and what that
// lacks is unknown. If it has none, the site is young: those days are zeros, and the answer says when its figures begin. The start of a copy
// with yesterday's window is moved by a day, like the window.
func (s *reportServer) planDays(ctx context.Context, p *plan) error {
	p.begins = 0
	first, _, ok := p.known.Bounds()
	from := first // the live days, if the archive has figures of days before
	if p.usesCopy() {
		from += p.known.Moved(p.call.window.Live())
	}
	if !ok || !p.asksBefore(from) {
		return nil
	}
	if p.basis == 0 {
		p.basis = s.basis(ctx, p.call) // before the archive is read
	}
	switch begins, archived, err := s.config.History.Begins(ctx, p.call.property.ID, p.call.window.Earliest); {
	case err != nil:
		return storeError{err}
	case archived && begins < first:
		p.live = p.live.LiveFrom(from)
	case p.asksBefore(first):
		p.begins = first
	}
	return nil
}

// asksBefore reports whether the request covers live days before a day.
func (p *plan) asksBefore(day translate.Date) bool {
	before := translate.DateRange{Start: p.live.LiveStart, End: day - 1}
	return slices.ContainsFunc(p.call.params.Covered(), before.Overlaps)
}

// planRows completes a new plan, whose days are known, with the fetches, their part of the archive, and the gaps.
func (s *reportServer) planRows(ctx context.Context, p *plan) (err error) {
	c := p.call
	sources := translate.Sources{Site: c.property.Site, Window: p.live, NoGrids: p.noGrids}
	sources.Unpublished, sources.Unclear = p.lateDays()
	var damage *archive.DamageError
	if p.report.NeedsInventory(c.params, p.live) {
		if sources.Missing, damage, err = s.config.History.Missing(ctx, c.property.ID, p.report.By(), c.params.Span()); err != nil {
			return storeError{err}
		}
	}
	planned := p.report.Plan(c.params, sources, p.conditions)
	p.fetches, p.gaps = planned.Fetches, planned.Gaps
	for i := range p.fetches {
		s.preferUncut(ctx, p, &p.fetches[i])
	}
	archived := func(f translate.Fetch) bool { return len(f.Archive) > 0 }
	if len(c.params.Filters) > 0 && slices.ContainsFunc(p.fetches, archived) {
		return c.neverFiltered(p.live.LiveStart)
	}
	if p.archive, err = s.readArchive(ctx, &p.reportRequest, p.fetches, damage); err != nil {
		return err
	}
	p.gaps = p.archive.completed(p.gaps)
	if err = s.checkGaps(ctx, p); err != nil {
		p.archive.release()
	}
	return err
}

// preferUncut saves a call: the fetch reads its uncut query, which includes unpublished days, if memory has fresh rows of it from before
// the copy of the series.
func (s *reportServer) preferUncut(ctx context.Context, p *plan, f *translate.Fetch) {
	if f.Uncut == nil {
		return
	}
	c := p.call
	rows, _ := s.cache.AtHand(ctx, false, c.property.ID, c.grant.Key.AccountID, *f.Uncut)
	if rows != nil && !rows.Filled().After(p.known.at) && c.started.Sub(rows.Filled()) < c.acceptedAge(c.ttl()) {
		f.Upstream = f.Uncut
	}
}

// source is where the rows of the answer come from.
func (p *plan) source() translate.Source {
	live := len(p.fetches) == 0 || slices.ContainsFunc(p.fetches, func(f translate.Fetch) bool { return f.Upstream != nil })
	switch {
	case !live, p.staleReason != "":
		return translate.SourceArchive
	case p.archive.last != nil, len(p.gaps.Missing) > 0: // live figures are complete
		return translate.SourceHybrid
	}
	return translate.SourceLive
}

// errPlanOutdated means that a report needs rows other than planned, because more is known by now: it is planned again.
var errPlanOutdated = errors.New("the plan of the report is outdated")

// checkPlan returns errPlanOutdated, which ends a fill before its call, if a copy of the series shows other days as published than the query
// asks for. Such a copy has reached memory since the report was planned, for example from Redis together with the rows. The query of
// the series itself always passes.
func (s *reportServer) checkPlan(ctx context.Context, c *call, f *translate.Fetch) error {
	if f.Upstream.Dimension == translate.ByDate && len(f.Upstream.Conditions) == 0 {
		return nil
	}
	if f.Upstream.Range.End != f.PublishedEnd(s.knownDays(ctx, c, false).Unpublished(c.window.Anchor)) {
		return errPlanOutdated
	}
	return nil
}

// learnDays returns the material by what is known of the days once its rows are read: which are unpublished, and where the upstream's figures
// begin. If the live days have moved, its archive's part was read again. It returns errPlanOutdated if the rows are not the ones needed.
func (s *reportServer) learnDays(ctx context.Context, m *material) (material, error) {
	learned := *m
	learned.known = s.shownDays(ctx, m)
	switch {
	case m.usesCopy() && learned.contradictsDays():
		return material{}, errPlanOutdated
	case learned.known.KnownDays == m.known.KnownDays:
		return learned, nil
	}
	if err := s.planDays(ctx, &learned.plan); err != nil {
		return material{}, err
	}
	switch {
	case learned.live == m.live:
		learned.gaps.Unpublished, learned.gaps.Unclear = learned.lateDays()
		return learned, learned.call.params.CheckComparable(learned.gaps)
	case m.usesCopy():
		return material{}, errPlanOutdated
	}
	err := s.planRows(ctx, &learned.plan)
	if err == nil && learned.fetches[0].Upstream == nil { // all days come from the archive
		return learned.withoutUpstream(), nil
	}
	return learned, err
}

// shownDays returns what is known of the days from the series that was fetched, or from a copy that came with the rows. The fetches of movers
// were planned with what was known, and stay so.
func (s *reportServer) shownDays(ctx context.Context, m *material) knownDays {
	switch entry := m.firstEntry(); {
	case m.report.NeedsDays():
	case m.usesCopy():
		return s.knownDays(ctx, m.call, false)
	case entry != nil:
		return knownDays{KnownDays: entry.KnownDays(m.fetches[0].Upstream.Range)}
	}
	return m.known
}

package proxy

import (
	"context"
	"errors"
	"slices"
	"time"

	"sara/archive"
	"sara/policy"
	"sara/translate"
)

// The daily series of a property shows which days the upstream has published. Summaries and timeseries fetch it. Tables, movers and the data
// window only look at a cached copy, if there is one. So do filtered summaries and timeseries, unless it does not tell enough: see mayLackDays
// and clarify.

func seriesOf(p *policy.Property, w translate.Window) translate.Query {
	return translate.SeriesQuery(p.Site, w.Live(), nil)
}

// knownDays returns what a cached copy of the property's daily series shows, and when it was filled; zero values without a copy. A copy
// is up to a day old, so it may have yesterday's window. With shared, knownDays looks into Redis too.
func (s *Server) knownDays(ctx context.Context, c *call, shared bool) (translate.KnownDays, time.Time) {
	yesterday := translate.NewWindow(c.window.Anchor-1, c.grant.Plan.RetentionMonths)
	entry, series := s.cache.AtHand(ctx, shared, c.property.ID, c.grant.Key.AccountID, seriesOf(c.property, c.window), seriesOf(c.property, yesterday))
	if entry == nil {
		return translate.KnownDays{}, time.Time{}
	}
	return entry.KnownDays(series.Range), entry.Filled()
}

// usesCopy reports whether the request looks at a copy of the series instead of fetching it.
func (q *reportRequest) usesCopy() bool {
	return !q.report.IsSeries(q.conditions) && q.window.LiveStart <= q.window.Anchor
}

// lookUpDays looks up the known days before the report is planned. Movers look into Redis too, because their queries depend on the days;
// for other reports, Redis returns the copy together with their rows.
func (s *Server) lookUpDays(ctx context.Context, q *reportRequest) error {
	if !q.usesCopy() {
		return nil
	}
	q.known, q.knownAt = s.knownDays(ctx, q.call, q.report.NeedsDays())
	if q.mayLackDays() && s.readSeries(ctx, q) == nil {
		q.known, q.knownAt = s.knownDays(ctx, q.call, false)
	}
	return s.findLiveStart(ctx, q)
}

// mayLackDays reports whether a copy of the series that is not fresh shows days of a filtered one as unpublished. A client that only sends
// filtered requests would be told so for a day.
func (q *reportRequest) mayLackDays() bool {
	c := q.call
	from := q.known.Unpublished(c.window.Anchor)
	return q.report.By() == translate.ByDate && from != 0 && c.params.Period.End >= from && c.started.Sub(q.knownAt) >= c.ttl() &&
		q.seriesStatus == "" && !translate.MatchNothing(q.conditions)
}

// readSeries reads the property's daily series into memory, and waits no longer than a hedged request does: a call that has begun continues.
func (s *Server) readSeries(ctx context.Context, q *reportRequest) error {
	series := seriesOf(q.call.property, q.call.window)
	days := reportRequest{call: q.call, report: q.report, window: q.window, key: q.key, fetches: []translate.Fetch{{Upstream: &series}}}
	ctx, cancel := context.WithTimeout(ctx, s.hedge.delay(q.call.property.ID))
	defer cancel()
	found, err := s.readUpstream(ctx, &days).wait()
	q.seriesStatus = days.cacheStatus(found)
	return err
}

// clarify reads the property's daily series for a filtered one that ends in days without figures, unless a copy or a grid covers them: zeros
// would say that nothing happened on days that the upstream may not have published. A filter that matches nothing on other days is not worth
// a call. clarify returns the first of the days that stay unclear, also because the series fails or is late; 0: there are none.
func (s *Server) clarify(ctx context.Context, q *reportRequest, m material) translate.Date {
	unclear, likely := s.unclearFrom(ctx, q, m)
	if unclear == 0 || likely && s.readSeries(ctx, q) == nil {
		return 0
	}
	return unclear
}

// unclearFrom returns the first of the last days of a filtered series that nothing at hand explains (0: none), and whether they are likely to
// lack traffic that is not published.
func (s *Server) unclearFrom(ctx context.Context, q *reportRequest, m material) (from translate.Date, likely bool) {
	entry := m.firstEntry()
	if entry == nil || !q.usesCopy() || q.report.By() != translate.ByDate || q.fetches[0].ReadsGrid() {
		return 0, false
	}
	c := q.call
	unclear, likely := translate.UnclearDays(entry.Rows(), q.fetches[0].Upstream.Range, c.params.Period.DateRange, c.window.Anchor)
	known, _ := s.knownDays(ctx, c, false)
	unclear = known.Unclear(unclear, c.window.Anchor)
	if h := c.property.History; h != nil && !likely { // no day is archived before it is published
		unclear.Start = max(unclear.Start, translate.Date(h.Last)+1)
	}
	if unclear.Days() <= 0 {
		return 0, false
	}
	return unclear.Start, likely
}

// lateDays returns what a copy of the series shows about the last days: the first that is not published, and the first of the period that the
// copy is too old to have. The latter does not concern a filtered series, whose own rows may have figures of it: see clarify.
func (q *reportRequest) lateDays() (unpublished, unclear translate.Date) {
	unpublished = q.known.Unpublished(q.call.window.Anchor)
	if q.report.By() == translate.ByDate {
		return unpublished, 0
	}
	if unclear = q.known.UnclearFrom(q.call.window.Anchor); unclear > q.call.params.Period.End {
		unclear = 0
	}
	return unpublished, unclear
}

// completeGaps adds to the gaps of an answer what the rows of a grid show: which days are published, like the series. A copy of the series that
// has the days, or shows some as unpublished, decides instead, so that all answers agree.
func (q *reportRequest) completeGaps(m material) {
	entry, gaps, anchor := m.firstEntry(), &m.origin.Gaps, q.call.window.Anchor
	if entry == nil || !q.fetches[0].ReadsGrid() || q.known.Has(anchor) || gaps.Unpublished != 0 {
		return
	}
	shown := entry.KnownDays(q.fetches[0].Upstream.Range)
	gaps.Unpublished, gaps.Unclear = shown.Unpublished(anchor), 0
}

// prepare plans the fetches, and reads the archive's part of them.
func (s *Server) prepare(ctx context.Context, q *reportRequest) (*archivePart, error) {
	c := q.call
	sources := translate.Sources{Site: c.property.Site, Window: q.window, NoGrids: q.noGrids}
	sources.Unpublished, sources.Unclear = q.lateDays()
	var damage *archive.DamageError
	if q.report.NeedsInventory(c.params, q.window) {
		var err error
		if sources.Missing, damage, err = s.config.History.Missing(ctx, c.property.ID, q.report.By(), c.params.Span()); err != nil {
			return nil, storeError{err}
		}
	}
	plan := q.report.Plan(c.params, sources, q.conditions)
	q.fetches = plan.Fetches
	for i := range q.fetches {
		s.preferUncut(ctx, q, &q.fetches[i])
	}
	archived := func(f translate.Fetch) bool { return len(f.Archive) > 0 }
	if len(c.params.Filters) > 0 && slices.ContainsFunc(q.fetches, archived) {
		return nil, c.neverFiltered(q.window.LiveStart)
	}
	return s.readArchive(ctx, q, plan.Gaps, damage)
}

// preferUncut saves a call: the fetch reads its uncut query, which includes unpublished days, if memory has fresh rows of it from before
// the copy of the series.
func (s *Server) preferUncut(ctx context.Context, q *reportRequest, f *translate.Fetch) {
	if f.Uncut == nil {
		return
	}
	c := q.call
	rows, _ := s.cache.AtHand(ctx, false, c.property.ID, c.grant.Key.AccountID, *f.Uncut)
	if rows != nil && !rows.Filled().After(q.knownAt) && c.started.Sub(rows.Filled()) < c.acceptedAge(c.ttl()) {
		f.Upstream = f.Uncut
	}
}

// errPlanOutdated means that a report needs rows other than planned, because more is known by now: it is planned again.
var errPlanOutdated = errors.New("the plan of the report is outdated")

// checkPlan returns errPlanOutdated, which ends a fill before its call, if a copy of the series shows other days as published than the query
// asks for. Such a copy has reached memory since the report was planned, for example from Redis together with the rows. The query of
// the series itself always passes.
func (s *Server) checkPlan(ctx context.Context, c *call, f *translate.Fetch) error {
	if f.Upstream.Dimension == translate.ByDate && len(f.Upstream.Conditions) == 0 {
		return nil
	}
	known, _ := s.knownDays(ctx, c, false)
	if f.Upstream.Range.End != f.PublishedEnd(known.Unpublished(c.window.Anchor)) {
		return errPlanOutdated
	}
	return nil
}

// contradicted reports whether rows may have other days than the copy of the series shows as published: rows that are newer than the copy
// may have more, since the upstream may have published those in between, and rows that were planned with an older copy lack some.
func (q *reportRequest) contradicted(m material) bool {
	unpublished := q.known.Unpublished(q.call.window.Anchor)
	for i, f := range m.found {
		if f.Entry == nil {
			continue
		}
		asked, published := q.fetches[i].Upstream.Range.End, q.fetches[i].PublishedEnd(unpublished)
		lacking := translate.DateRange{Start: asked + 1, End: published}
		if asked > published && f.Entry.Filled().After(q.knownAt) || slices.ContainsFunc(q.call.params.Covered(), lacking.Overlaps) {
			return true
		}
	}
	return false
}

// learnDays updates what is known of the days from the series that was fetched, or from a copy that came with the rows: which days are
// unpublished, and where the upstream's figures begin. It returns the material, whose archive's part was read again if the live
// days have moved, or errPlanOutdated if the rows that were fetched are not the ones needed.
func (s *Server) learnDays(ctx context.Context, q *reportRequest, m material) (material, error) {
	before, planned := q.known, q.window
	switch {
	case q.report.NeedsDays(): // the fetches were planned with what was known
	case q.usesCopy():
		q.known, q.knownAt = s.knownDays(ctx, q.call, false)
		if q.contradicted(m) {
			return material{}, errPlanOutdated
		}
	case m.firstEntry() != nil:
		q.known = m.firstEntry().KnownDays(q.fetches[0].Upstream.Range)
	}
	if q.known == before {
		return m, nil
	}
	if err := s.findLiveStart(ctx, q); err != nil {
		return material{}, err
	}
	switch {
	case q.window == planned:
		m.origin.Gaps.Unpublished, m.origin.Gaps.Unclear = q.lateDays()
		return m, q.call.params.CheckComparable(m.origin.Gaps)
	case q.usesCopy():
		return material{}, errPlanOutdated
	}
	part, err := s.prepare(ctx, q)
	if err == nil && q.fetches[0].Upstream == nil {
		m.found[0].Entry = nil // all days come from the archive
	}
	return material{part, m.found}, err
}

// findLiveStart corrects the start of the live days, which is an estimate, if the request asks for days before the upstream's first day
// with figures. If the archive has earlier figures, the upstream has dropped those days: they come from the archive, and what that lacks is
// unknown. If it has none, the site is young: those days are zeros, and the answer says when its figures begin. The start of a copy with
// yesterday's window is moved by a day, like the window.
func (s *Server) findLiveStart(ctx context.Context, q *reportRequest) error {
	c := q.call
	q.begins = 0
	first, _, ok := q.known.Bounds()
	from := first // the live days, if the archive has figures of days before
	if q.usesCopy() {
		from += q.known.Moved(c.window.Live())
	}
	asksBefore := func(day translate.Date) bool {
		before := translate.DateRange{Start: q.window.LiveStart, End: day - 1}
		return slices.ContainsFunc(c.params.Covered(), before.Overlaps)
	}
	if !ok || !asksBefore(from) {
		return nil
	}
	if q.basis == 0 {
		q.basis = s.basis(ctx, c) // before the archive is read
	}
	switch begins, archived, err := s.config.History.Begins(ctx, c.property.ID, c.window.Earliest); {
	case err != nil:
		return storeError{err}
	case archived && begins < first:
		q.window = q.window.LiveFrom(from)
	case asksBefore(first):
		q.begins = first
	}
	return nil
}

// findBeginning finds the first day with figures for a summary, timeseries or movers whose first day is archived as one without traffic. The
// archive has such days from before the beginning of a site that was young when it was collected: they are zeros, and the answer says so, like
// that of the live ones.
func (s *Server) findBeginning(ctx context.Context, q *reportRequest, m material, rows []*translate.Rows) error {
	byDate := q.report.By() == translate.ByDate
	if q.begins != 0 || m.last == nil || !byDate && !q.report.NeedsDays() {
		return nil
	}
	first, ok := firstKnown(q.call.params.Covered(), m.origin.Gaps.Missing)
	if !ok || first > *m.last || byDate && rows[0].Shows(first) {
		return nil
	}
	begins, archived, err := s.config.History.Begins(ctx, q.call.property.ID, 0) // not only of the days that the plan keeps
	if err != nil {
		return storeError{err}
	}
	if live, _, ok := q.known.Bounds(); ok && (!archived || live < begins) {
		begins = live
	}
	if begins > first {
		q.begins = begins
	}
	return nil
}

// firstKnown returns the first day of ranges that is not missing.
func firstKnown(ranges []translate.DateRange, missing []translate.Date) (first translate.Date, ok bool) {
	for _, r := range ranges {
		for day := r.Start; day <= r.End; day++ {
			if _, isMissing := slices.BinarySearch(missing, day); !isMissing {
				return day, true
			}
		}
	}
	return 0, false
}

package proxy

import (
	"context"
	"slices"
	"time"

	"sara/policy"
	"sara/translate"
)

// The daily series of a property shows which days the upstream has published. Summaries and timeseries fetch it. Tables, movers and the data
// window only look at a cached copy, if there is one. So do filtered summaries and timeseries, unless it does not tell enough: see mayLackDays
// and clarify.

func seriesOf(p *policy.Property, w translate.Window) translate.Query {
	return translate.SeriesQuery(p.Site, w.Live(), nil)
}

// A knownDays is what a cached copy of the daily series shows. The zero value is that of no copy.
type knownDays struct {
	translate.KnownDays
	at time.Time // when the copy was filled
}

// knownDays returns what a cached copy of the property's daily series shows. A copy is up to a day old, so it may have yesterday's window. With
// shared, knownDays looks into Redis too.
func (s *reportServer) knownDays(ctx context.Context, c *call, shared bool) knownDays {
	yesterday := translate.NewWindow(c.window.Anchor-1, c.grant.Plan.RetentionMonths)
	entry, series := s.cache.AtHand(ctx, shared, c.property.ID, c.grant.Key.AccountID, seriesOf(c.property, c.window), seriesOf(c.property, yesterday))
	if entry == nil {
		return knownDays{}
	}
	return knownDays{entry.KnownDays(series.Range), entry.Filled()}
}

// usesCopy reports whether the request looks at a copy of the series instead of fetching it.
func (q *reportRequest) usesCopy() bool {
	return !q.report.IsSeries(q.conditions) && q.hasLiveDays()
}

// hasLiveDays reports whether the property has days that the upstream answers for, whether or not the request asks for them.
func (q *reportRequest) hasLiveDays() bool { return q.window.LiveStart <= q.window.Anchor }

// lookUpDays looks up the known days before the report is planned. Movers look into Redis too, because their queries depend on the days;
// for other reports, Redis returns the copy together with their rows.
func (s *reportServer) lookUpDays(ctx context.Context, q *reportRequest, past *lessons) knownDays {
	if !q.usesCopy() {
		return knownDays{}
	}
	known := s.knownDays(ctx, q.call, q.report.NeedsDays())
	if past.seriesStatus == "" && q.mayLackDays(known) && s.readSeries(ctx, q, past) == nil {
		return s.knownDays(ctx, q.call, false)
	}
	return known
}

// mayLackDays reports whether a copy of the series that is not fresh shows days of a filtered one as unpublished. A client that only sends
// filtered requests would be told so for a day.
func (q *reportRequest) mayLackDays(known knownDays) bool {
	c := q.call
	from := known.Unpublished(c.window.Anchor)
	return q.report.By() == translate.ByDate && from != 0 && c.params.Period.End >= from && c.started.Sub(known.at) >= c.ttl() &&
		!translate.MatchNothing(q.conditions)
}

// readSeries reads the property's daily series into memory, and waits no longer than a hedged request does: a call that has begun continues.
func (s *reportServer) readSeries(ctx context.Context, q *reportRequest, past *lessons) error {
	query := seriesOf(q.call.property, q.call.window)
	series, fetches := *q, []translate.Fetch{{Upstream: &query}}
	series.conditions = nil
	ctx, cancel := context.WithTimeout(ctx, s.hedge.delay(q.call.property.ID))
	defer cancel()
	found, err := s.readUpstream(ctx, &series, fetches).wait()
	past.seriesStatus = q.cacheStatus(fetches, found)
	return err
}

// clarify reads the property's daily series for a filtered one that ends in days without figures, unless a copy or a grid covers them: zeros
// would say that nothing happened on days that the upstream may not have published. A filter that matches nothing on other days is not worth
// a call. clarify returns the first of the days that stay unclear, also because the series fails or is late; 0: there are none.
func (s *reportServer) clarify(ctx context.Context, m *material, past *lessons) translate.Date {
	unclear, likely := s.unclearFrom(ctx, m)
	if unclear == 0 || likely && s.readSeries(ctx, &m.reportRequest, past) == nil {
		return 0
	}
	return unclear
}

// unclearFrom returns the first of the last days of a filtered series that nothing at hand explains (0: none), and whether they are likely to
// lack traffic that is not published.
func (s *reportServer) unclearFrom(ctx context.Context, m *material) (from translate.Date, likely bool) {
	entry := m.firstEntry()
	if entry == nil || !m.usesCopy() || m.report.By() != translate.ByDate || m.fetches[0].ReadsGrid() {
		return 0, false
	}
	c := m.call
	unclear, likely := translate.UnclearDays(entry.Rows(), m.fetches[0].Upstream.Range, c.params.Period.DateRange, c.window.Anchor)
	unclear = s.knownDays(ctx, c, false).Unclear(unclear, c.window.Anchor)
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
func (p *plan) lateDays() (unpublished, unclear translate.Date) {
	unpublished = p.known.Unpublished(p.call.window.Anchor)
	if p.report.By() == translate.ByDate {
		return unpublished, 0
	}
	if unclear = p.known.UnclearFrom(p.call.window.Anchor); unclear > p.call.params.Period.End {
		unclear = 0
	}
	return unpublished, unclear
}

// allGaps returns the gaps of the answer. The rows of a grid show which days are published, like the series. A copy of the series that has the
// days, or shows some as unpublished, decides instead, so that all answers agree.
func (m *material) allGaps() translate.Gaps {
	entry, gaps, anchor := m.firstEntry(), m.gaps, m.call.window.Anchor
	if m.unclear != 0 {
		gaps.Unclear = m.unclear
	}
	if entry != nil && m.fetches[0].ReadsGrid() && !m.known.Has(anchor) && gaps.Unpublished == 0 {
		shown := entry.KnownDays(m.fetches[0].Upstream.Range)
		gaps.Unpublished, gaps.Unclear = shown.Unpublished(anchor), 0
	}
	return gaps
}

// contradictsDays reports whether the rows may have other days than the copy of the series shows as published: rows that are newer than the copy
// may have more, since the upstream may have published those in between, and rows that were planned with an older copy lack some.
func (m *material) contradictsDays() bool {
	unpublished := m.known.Unpublished(m.call.window.Anchor)
	for i, f := range m.found {
		if f.Entry == nil {
			continue
		}
		asked, published := m.fetches[i].Upstream.Range.End, m.fetches[i].PublishedEnd(unpublished)
		lacking := translate.DateRange{Start: asked + 1, End: published}
		if asked > published && f.Entry.Filled().After(m.known.at) || slices.ContainsFunc(m.call.params.Covered(), lacking.Overlaps) {
			return true
		}
	}
	return false
}

package proxy

import (
	"context"

	"sara/translate"
)

// serveAccount answers /v1/me. The usage includes the request that asks.
func (s *Server) serveAccount(_ context.Context, c *call) (reply, error) {
	key, plan := c.grant.Key, c.grant.Plan
	var me account
	me.Key.ID = key.ID
	me.Key.Scopes = key.Scopes.Names()
	me.Key.WorkspaceScope = workspaceOf(key.Workspace)
	me.Account.PlanTier = key.PlanName
	me.Limits.RequestsPerMinutePerKey = plan.RequestsPerMinutePerKey
	me.Limits.RequestsPerHour = plan.RequestsPerHour
	me.Limits.RequestsPerDay = plan.RequestsPerDay
	me.Limits.SearchConsoleCallsPerDay = plan.SearchConsoleCallsPerDay
	me.Usage.RequestsThisHour = c.grant.Usage.RequestsThisHour
	me.Usage.RequestsToday = c.grant.Usage.RequestsToday
	me.Usage.SearchConsoleCallsToday = c.grant.Usage.CallsToday
	me.Usage.SearchConsoleCallsRemainingToday = max(0, plan.SearchConsoleCallsPerDay-c.grant.Usage.CallsToday)
	r := envelope(me, struct{}{})
	r.maxAge = neverKept // the usage is another one each time
	return r, nil
}

// serveProperties answers /v1/properties.
func (s *Server) serveProperties(ctx context.Context, c *call) (reply, error) {
	properties, total, err := s.config.Store.ReachableProperties(ctx, c.grant.Key.PersonID, c.grant.WorkspaceID(),
		c.params.IncludeArchived, c.params.Limit, c.params.Offset)
	if err != nil {
		return reply{}, asStoreError(err)
	}
	meta := pageMeta{RowCount: len(properties), Limit: c.params.Limit, Offset: c.params.Offset, Total: total}
	return envelope(rows[propertyRow]{each(properties, rowOfProperty)}, meta), nil
}

// serveProperty answers /v1/properties/{id}. The window is of what can be read at this moment: live as far back as the
// upstream has it, stored as far back as it is archived, and neither further than the plan allows.
func (s *Server) serveProperty(_ context.Context, c *call) (reply, error) {
	p := c.property
	data := propertyDetail{ID: p.ID, GSCProperty: p.Site, DisplayName: p.DisplayName, Type: p.Type, Archived: p.Archived}
	available := c.available()
	data.DataWindow.LatestDataDate = available.End.String()
	data.DataWindow.EarliestDataDate = available.Start.String()
	data.DataWindow.LiveWindowMonths = translate.UpstreamMonths
	data.DataWindow.RetentionMonths = c.grant.Plan.RetentionMonths
	data.Connection.Healthy = p.AccessProblem() == ""
	data.Connection.Note = optional(p.AccessProblem())
	meta := propertyMeta{PropertyID: p.ID, Notes: []string{}}
	if p.History != nil {
		data.LastArchivedDate = optional(translate.Date(p.History.Last).String())
	}
	switch {
	case p.Archived && p.History == nil:
		meta.Notes = append(meta.Notes, "The property is archived: it serves stored history only, of which there is none.")
	case p.Archived:
		meta.Notes = append(meta.Notes, "The property is archived: it serves stored history only.")
	}
	return envelope(data, meta), nil
}

// available returns the days that the caller can read. What is not archived is shown as what the upstream has: there may be
// an answer to it another time.
func (c *call) available() translate.DateRange {
	r := translate.DateRange{Start: c.window.UpstreamStart, End: c.window.Anchor}
	if stored := c.property.History; stored != nil {
		first, last := translate.Date(stored.First), translate.Date(stored.Last)
		if c.property.Archived || c.property.AccessProblem() != "" {
			r = translate.DateRange{Start: first, End: last}
		}
		r.Start = min(r.Start, first)
	}
	r.Start = max(r.Start, c.window.Earliest)
	return r
}

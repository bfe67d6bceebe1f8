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
		c.ask.IncludeArchived, c.ask.Limit, c.ask.Offset)
	if err != nil {
		return reply{}, asStoreError(err)
	}
	meta := pageMeta{RowCount: len(properties), Limit: c.ask.Limit, Offset: c.ask.Offset, Total: total}
	return envelope(rows[propertyRow]{each(properties, rowOfProperty)}, meta), nil
}

// serveProperty answers /v1/properties/{id}. What can be read reaches back to the live window's edge, and no further than
// the plan allows.
func (s *Server) serveProperty(_ context.Context, c *call) (reply, error) {
	p := c.property
	data := propertyDetail{ID: p.ID, GSCProperty: p.Site, DisplayName: p.DisplayName, Type: p.Type, Archived: p.Archived}
	data.DataWindow.LatestDataDate = c.window.Anchor.String()
	data.DataWindow.EarliestDataDate = max(c.window.Live, c.window.Earliest).String()
	data.DataWindow.LiveWindowMonths = translate.LiveMonths
	data.DataWindow.RetentionMonths = c.grant.Plan.RetentionMonths
	data.Connection.Healthy = p.Trouble() == ""
	data.Connection.Note = optional(p.Trouble())
	meta := propertyMeta{PropertyID: p.ID, Notes: []string{}}
	if p.Archived {
		meta.Notes = append(meta.Notes, "The property is archived: it serves stored history only, of which there is none yet.")
	}
	return envelope(data, meta), nil
}

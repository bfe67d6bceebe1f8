package proxy

import (
	"context"

	"sara/archive/sqlstore"
	"sara/translate"
)

// The payloads of the endpoints about properties.

type propertyRow struct {
	ID              string `json:"id"`
	GSCProperty     string `json:"gsc_property"`
	DisplayName     string `json:"display_name"`
	Slug            string `json:"slug"`
	Type            string `json:"type"`
	PermissionLevel string `json:"permission_level"`
	Starred         bool   `json:"starred"`
	Archived        bool   `json:"archived"`
	CreatedAt       string `json:"created_at"`
}

type propertyDetail struct {
	ID          string `json:"id"`
	GSCProperty string `json:"gsc_property"`
	DisplayName string `json:"display_name"`
	Type        string `json:"type"`
	Archived    bool   `json:"archived"`
	DataWindow  struct {
		LatestDataDate   string `json:"latest_data_date"`
		EarliestDataDate string `json:"earliest_data_date"`
		LiveWindowMonths int    `json:"live_window_months"`
		RetentionMonths  int    `json:"retention_months"`
	} `json:"data_window"`
	Connection struct {
		Healthy bool    `json:"healthy"`
		Note    *string `json:"note"`
	} `json:"connection"`
	LastArchivedDate *string `json:"last_archived_date"`
}

type brandTermRow struct {
	ID        string `json:"id"`
	Term      string `json:"term"`
	MatchType string `json:"match_type"`
	CreatedAt string `json:"created_at"`
}

type pageGroupRow struct {
	ID        string               `json:"id"`
	Name      string               `json:"name"`
	Rules     []translate.PageRule `json:"rules"`
	CreatedAt string               `json:"created_at"`
}

type annotationRow struct {
	ID    string `json:"id"`
	Date  string `json:"date"`
	Title string `json:"title"`
	Note  string `json:"note"`
	Color string `json:"color"`
}

type pageMeta struct {
	RowCount int `json:"row_count"`
	Limit    int `json:"limit"`
	Offset   int `json:"offset"`
	Total    int `json:"total"`
}

type propertyMeta struct {
	PropertyID string   `json:"property_id"`
	Notes      []string `json:"notes"`
}

type listMeta struct {
	propertyMeta
	RowCount int `json:"row_count"`
}

// A propertyServer answers what is known about properties besides their figures. Every answer is read from the store.
type propertyServer struct {
	store    *sqlstore.Store
	history  History
	reports  *reportServer // whose copies show which days are known
	calendar translate.Calendar
}

// aboutProperties returns the handler of a method of propertyServer.
func aboutProperties(serve func(*propertyServer, context.Context, *call) (reply, error)) handler {
	return func(s *Server, ctx context.Context, x *exchange) (reply, error) {
		return serve(s.properties, ctx, &x.call)
	}
}

// serveProperties answers /v1/properties.
func (s *propertyServer) serveProperties(ctx context.Context, c *call) (reply, error) {
	reach := sqlstore.Reach{PersonID: c.grant.Key.PersonID, WorkspaceID: c.grant.WorkspaceID(), Archived: c.params.IncludeArchived}
	total, err := s.store.CountReachable(ctx, reach)
	if err != nil {
		return reply{}, storeError{err}
	}
	properties, err := s.store.ReachableProperties(ctx, reach, c.params.Limit, c.params.Offset)
	if err != nil {
		return reply{}, storeError{err}
	}
	meta := pageMeta{RowCount: len(properties), Limit: c.params.Limit, Offset: c.params.Offset, Total: total}
	return envelope(rows[propertyRow]{convertAll(properties, rowOfProperty)}, meta), nil
}

// serveProperty answers /v1/properties/{id}. The data window is the known range, bounded by the plan.
func (s *propertyServer) serveProperty(ctx context.Context, c *call) (reply, error) {
	p := c.property
	data := propertyDetail{ID: p.ID, GSCProperty: p.Site, DisplayName: p.DisplayName, Type: p.Type, Archived: p.Archived}
	readable := s.readableHistory(ctx, c)
	available := s.dataWindow(ctx, c, readable)
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
	case p.Archived && readable == nil:
		meta.Notes = append(meta.Notes, "The property is archived: it serves stored history only, of which the plan keeps none.")
	case p.Archived:
		meta.Notes = append(meta.Notes, "The property is archived: it serves stored history only.")
	}
	return envelope(data, meta), nil
}

// dataWindow returns the days that the caller can read: from the first to the last day with figures, as far as a copy of the
// property's daily series shows them, which also answers while the upstream denies access. Without a copy it is the upstream's window and the
// archived days before it, or the archived days from the first one with figures on if the upstream denies access. Without archived days it is
// the upstream's window even then: the next request may succeed.
func (s *propertyServer) dataWindow(ctx context.Context, c *call, readable *translate.DateRange) translate.DateRange {
	r := c.window.Live()
	first, last, ok := s.reports.knownDays(ctx, c, true).Bounds()
	switch {
	case c.property.Archived && readable != nil:
		r = s.sinceFirstFigures(ctx, c, *readable)
	case ok && last >= r.Start: // the copy may be of the window of the day before
		r = translate.DateRange{Start: s.firstFigures(ctx, c, max(first, r.Start)), End: last}
	case c.property.AccessProblem() != "" && readable != nil:
		r = s.sinceFirstFigures(ctx, c, *readable)
	case readable != nil:
		r.Start = min(r.Start, readable.Start)
	}
	r.Start = max(r.Start, c.window.Earliest)
	return r
}

// readableHistory returns the first and the last archived day of the property that the plan keeps, nil if there is none. If there are
// earlier ones, the archive decides which is the first; if it cannot be read, every day counts.
func (s *propertyServer) readableHistory(ctx context.Context, c *call) *translate.DateRange {
	h := c.property.History
	if h == nil || translate.Date(h.Last) < c.window.Earliest {
		return nil
	}
	r := translate.DateRange{Start: translate.Date(h.First), End: translate.Date(h.Last)}
	if r.Start < c.window.Earliest {
		r.Start = c.window.Earliest
		if kept, ok, err := s.history.Bounds(ctx, c.property.ID, translate.ByDate, r.Start); err == nil && ok {
			r.Start = kept.Start
		}
	}
	return &r
}

// firstFigures returns the first day with figures: that of the live ones, or an archived day before it. If the archive cannot be
// read, every archived day counts.
func (s *propertyServer) firstFigures(ctx context.Context, c *call, live translate.Date) translate.Date {
	begins, archived, err := s.history.Begins(ctx, c.property.ID, c.window.Earliest)
	if err != nil && c.property.History != nil {
		begins, archived = translate.Date(c.property.History.First), true
	}
	if archived {
		return min(live, begins)
	}
	return live
}

// sinceFirstFigures returns archived days from the first one with figures on, or all of them if none has any or the archive cannot be read.
func (s *propertyServer) sinceFirstFigures(ctx context.Context, c *call, days translate.DateRange) translate.DateRange {
	if begins, ok, err := s.history.Begins(ctx, c.property.ID, days.Start); err == nil && ok {
		days.Start = begins
	}
	return days
}

// list returns the reply of a list that is configured for a property.
func list[From, To any](c *call, configured []From, convert func(From) To) reply {
	meta := listMeta{propertyMeta: propertyMeta{PropertyID: c.property.ID, Notes: []string{}}, RowCount: len(configured)}
	return envelope(rows[To]{convertAll(configured, convert)}, meta)
}

// serveBrandTerms answers /v1/properties/{id}/brand-terms.
func (s *propertyServer) serveBrandTerms(ctx context.Context, c *call) (reply, error) {
	terms, err := s.store.BrandTerms(ctx, c.property.ID)
	if err != nil {
		return reply{}, storeError{err}
	}
	return list(c, terms, rowOfBrandTerm), nil
}

// servePageGroups answers /v1/properties/{id}/page-groups.
func (s *propertyServer) servePageGroups(ctx context.Context, c *call) (reply, error) {
	groups, err := s.store.PageGroups(ctx, c.property.ID)
	if err != nil {
		return reply{}, storeError{err}
	}
	return list(c, groups, rowOfPageGroup), nil
}

// serveAnnotations answers /v1/properties/{id}/annotations.
func (s *propertyServer) serveAnnotations(ctx context.Context, c *call) (reply, error) {
	annotations, err := s.store.Annotations(ctx, c.property.ID, c.params.From, c.params.To)
	if err != nil {
		return reply{}, storeError{err}
	}
	return list(c, annotations, rowOfAnnotation), nil
}

func rowOfProperty(p sqlstore.Property) propertyRow {
	return propertyRow{ID: p.ID, GSCProperty: p.Site, DisplayName: p.DisplayName, Slug: p.Slug, Type: p.Type,
		PermissionLevel: p.PermissionLevel, Starred: p.Starred, Archived: p.Archived, CreatedAt: timestamp(p.CreatedAt)}
}

func rowOfBrandTerm(t translate.BrandTerm) brandTermRow {
	return brandTermRow{ID: t.ID, Term: t.Term, MatchType: t.MatchType, CreatedAt: timestamp(t.CreatedAt)}
}

func rowOfPageGroup(g translate.PageGroup) pageGroupRow {
	return pageGroupRow{ID: g.ID, Name: g.Name, Rules: g.Rules, CreatedAt: timestamp(g.CreatedAt)}
}

func rowOfAnnotation(a sqlstore.Annotation) annotationRow {
	return annotationRow{ID: a.ID, Date: a.Date.String(), Title: a.Title, Note: a.Note, Color: a.Color}
}

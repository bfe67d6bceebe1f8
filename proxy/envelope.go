package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"sara/archive/sqlstore"
	"sara/policy"
	"sara/proxy/cache"
	"sara/translate"
)

// The payloads of the endpoints that serve no figures. The figures' own envelopes are written by package translate.

// rows is the data of every list.
type rows[T any] struct {
	Rows []T `json:"rows"`
}

type account struct {
	Key struct {
		ID             string     `json:"id"`
		Scopes         []string   `json:"scopes"`
		WorkspaceScope *workspace `json:"workspace_scope"`
	} `json:"key"`
	Account struct {
		PlanTier string `json:"plan_tier"`
	} `json:"account"`
	Limits struct {
		RequestsPerMinutePerKey  int `json:"requests_per_minute_per_key"`
		RequestsPerHour          int `json:"requests_per_hour"`
		RequestsPerDay           int `json:"requests_per_day"`
		SearchConsoleCallsPerDay int `json:"search_console_calls_per_day"`
	} `json:"limits"`
	Usage struct {
		RequestsThisHour                 int `json:"requests_this_hour"`
		RequestsToday                    int `json:"requests_today"`
		SearchConsoleCallsToday          int `json:"search_console_calls_today"`
		SearchConsoleCallsRemainingToday int `json:"search_console_calls_remaining_today"`
	} `json:"usage"`
}

type workspace struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type propertyRow struct {
	ID              string `json:"id"`
	GSCProperty     string `json:"gsc_property"`
	DisplayName     string `json:"display_name"`
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

// The metas of these payloads, but for the request's id, which every one of them ends with.

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

// envelope makes the reply of an endpoint that has no response cache. A client may keep it if it asks each time whether it
// still holds.
func envelope(data, meta any) reply {
	head := appendJSON([]byte(`{"success":true,"data":`), data)
	head = append(head, `,"meta":`...)
	head = bytes.TrimSuffix(appendJSON(head, meta), []byte("}"))
	if head[len(head)-1] != '{' {
		head = append(head, ',')
	}
	return reply{answer: cache.NewAnswer(append(head, `"request_id":"`...), time.Time{}), word: wordBypass, tail: appendRequestID}
}

func appendRequestID(dst []byte, _, requestID string) []byte {
	return append(append(dst, requestID...), `"}}`...)
}

func appendJSON(dst []byte, value any) []byte {
	buffer := bytes.NewBuffer(dst)
	encoder := json.NewEncoder(buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(fmt.Sprintf("BUG: the payload %T does not marshal: %v", value, err))
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n"))
}

// each maps a list; an empty one stays a list, not null.
func each[From, To any](list []From, convert func(From) To) []To {
	converted := make([]To, len(list))
	for i := range list {
		converted[i] = convert(list[i])
	}
	return converted
}

// timestamp is how instants are written (spec: ISO 8601, UTC).
func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// optional is a string that is null when it is empty.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func rowOfProperty(p sqlstore.Property) propertyRow {
	return propertyRow{ID: p.ID, GSCProperty: p.Site, DisplayName: p.DisplayName, Type: p.Type,
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

func workspaceOf(w *policy.Workspace) *workspace {
	if w == nil {
		return nil
	}
	return &workspace{ID: w.ID, Name: w.Name}
}

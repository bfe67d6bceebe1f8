package proxy

import (
	"context"

	"sara/policy"
)

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
		RequestsPerMinutePerKey       int `json:"requests_per_minute_per_key"`
		RequestsPerHour               int `json:"requests_per_hour"`
		RequestsPerDay                int `json:"requests_per_day"`
		SearchConsoleCallsPerDay      int `json:"search_console_calls_per_day"`
		LiveCallsPerMinutePerProperty int `json:"live_calls_per_minute_per_property"`
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

// serveAccount answers /v1/me. The usage includes this request.
func serveAccount(_ *Server, _ context.Context, x *exchange) (reply, error) {
	key, plan := x.grant.Key, x.grant.Plan
	var me account
	me.Key.ID = key.ID
	me.Key.Scopes = key.Scopes.Names()
	me.Key.WorkspaceScope = workspaceOf(key.Workspace)
	me.Account.PlanTier = key.PlanName
	me.Limits.RequestsPerMinutePerKey = plan.RequestsPerMinutePerKey
	me.Limits.RequestsPerHour = plan.RequestsPerHour
	me.Limits.RequestsPerDay = plan.RequestsPerDay
	me.Limits.SearchConsoleCallsPerDay = plan.SearchConsoleCallsPerDay
	me.Limits.LiveCallsPerMinutePerProperty = plan.LiveCallsPerMinutePerProperty
	me.Usage.RequestsThisHour = x.grant.Usage.RequestsThisHour
	me.Usage.RequestsToday = x.grant.Usage.RequestsToday
	me.Usage.SearchConsoleCallsToday = x.grant.Usage.CallsToday
	me.Usage.SearchConsoleCallsRemainingToday = max(0, plan.SearchConsoleCallsPerDay-x.grant.Usage.CallsToday)
	r := envelope(me, struct{}{})
	r.maxAge = noStore // the usage changes with each request
	return r, nil
}

func workspaceOf(w *policy.Workspace) *workspace {
	if w == nil {
		return nil
	}
	return &workspace{ID: w.ID, Name: w.Name}
}

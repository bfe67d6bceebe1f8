package status

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/console"
	"sara/policy"
)

// nearPercent is the share of a budget from which it counts as nearly used up.
const nearPercent = 80

// Budgets lists the budgets that are nearly used up. They need no attention: using up a budget is normal.
type Budgets struct {
	Source   string          `json:"source"` // redis; or database, where a process without Redis persists its counts
	Counts   BudgetCounts    `json:"counts"`
	Accounts []AccountBudget `json:"accounts"` // each list has the 20 that are fullest, the fullest first
	Live     []LiveBudget    `json:"live_calls_per_minute"`
	Sites    []SiteQuota     `json:"inspections"`
	Unknown  []string        `json:"unknown"` // what cannot be read from here
	Problem  *string         `json:"problem"`

	full     int // accounts that have used up fullPercent or more
	accounts int // all
}

// BudgetCounts are the numbers of budgets that are nearly used up.
type BudgetCounts struct {
	Accounts int `json:"accounts"`
	Live     int `json:"live_calls_per_minute"`
	Sites    int `json:"inspections"`
}

// pageRows is how many accounts or properties one query reads, which bounds the memory of a look.
const pageRows = 500

// AccountBudget is an account that has nearly used up its hour or its day.
type AccountBudget struct {
	ID                       string `json:"id"`
	Account                  string `json:"account"`
	Plan                     string `json:"plan"`
	RequestsThisHour         int    `json:"requests_this_hour"`
	RequestsPerHour          int    `json:"requests_per_hour"`
	RequestsToday            int    `json:"requests_today"`
	RequestsPerDay           int    `json:"requests_per_day"`
	SearchConsoleCallsToday  int    `json:"search_console_calls_today"`
	SearchConsoleCallsPerDay int    `json:"search_console_calls_per_day"`
	UsedPercent              int    `json:"used_percent"`
	Ceiling                  string `json:"ceiling"` // the fullest: requests_per_hour, requests_per_day or search_console_calls_per_day
}

// accountCeiling is one of an account's budgets.
type accountCeiling struct {
	name, shown string // in JSON and for people
	used, limit int
}

// ceilings returns the budgets of the account.
func (a AccountBudget) ceilings() []accountCeiling {
	return []accountCeiling{
		{"requests_per_hour", "requests this hour", a.RequestsThisHour, a.RequestsPerHour},
		{"requests_per_day", "requests today", a.RequestsToday, a.RequestsPerDay},
		{"search_console_calls_per_day", "Search Console calls today", a.SearchConsoleCallsToday, a.SearchConsoleCallsPerDay},
	}
}

// LiveBudget is a property that has nearly used up its minute.
type LiveBudget struct {
	ID          string `json:"id"`
	GSCProperty string `json:"gsc_property"`
	UsedPercent int    `json:"used_percent"`
}

// SiteQuota is a site that has nearly used up its inspections of today.
type SiteQuota struct {
	GSCProperty string `json:"gsc_property"`
	Taken       int    `json:"taken"`
	PerDay      int    `json:"per_day"`
	UsedPercent int    `json:"used_percent"`
}

// budgets finds the budgets near their end.
func (v view) budgets(ctx context.Context) Budgets {
	s := Budgets{Source: "redis", Accounts: []AccountBudget{}, Live: []LiveBudget{}, Sites: []SiteQuota{}, Unknown: []string{}}
	if v.counted.none {
		s.Source = "database"
		s.Unknown = append(s.Unknown, "the live calls a minute of each property: without Redis they are in the memory of the serving process")
	}
	switch {
	case v.store == nil:
		s.Problem = problem(errNoDatabase)
		return s
	case !v.counted.none && v.counted.client == nil:
		s.Problem = problem(errors.New("Redis does not answer, so each replica grants its own share and counts it in memory"))
		return s
	}
	s.Problem = problem(errors.Join(v.accountBudgets(ctx, &s), v.siteBudgets(ctx, &s)))
	return s
}

// accountBudgets reads the accounts page by page.
func (v view) accountBudgets(ctx context.Context, s *Budgets) error {
	after := ""
	for {
		accounts, err := v.store.AccountsAfter(ctx, after, pageRows)
		if err != nil || len(accounts) == 0 {
			return err
		}
		after = accounts[len(accounts)-1].ID
		s.accounts += len(accounts)
		counts, err := v.usage(ctx, accounts)
		if err != nil {
			return err
		}
		byID := make(map[string]sqlstore.Account, len(accounts))
		for _, a := range accounts {
			byID[a.ID] = a
		}
		for _, c := range counts {
			s.add(v.accountBudget(byID[c.AccountID], c))
		}
		s.Accounts = fullest(s.Accounts, func(a AccountBudget) int { return a.UsedPercent })
		if len(accounts) < pageRows {
			return nil
		}
	}
}

// accountBudget returns what an account has used of its plan. UsedPercent is 0 for a plan without access.
func (v view) accountBudget(a sqlstore.Account, c policy.UsageCount) AccountBudget {
	plan := v.plans[a.Plan]
	if c.Hour != v.now.Unix()/int64(time.Hour/time.Second) {
		c.InHour = 0 // persisted in an earlier hour
	}
	budget := AccountBudget{ID: a.ID, Account: a.Name, Plan: a.Plan, RequestsThisHour: c.InHour, RequestsPerHour: plan.RequestsPerHour,
		RequestsToday: c.InDay, RequestsPerDay: plan.RequestsPerDay, SearchConsoleCallsToday: c.Calls,
		SearchConsoleCallsPerDay: plan.SearchConsoleCallsPerDay}
	if !plan.APIAccess {
		return budget
	}
	for _, ceiling := range budget.ceilings() {
		if used := percent(ceiling.used, ceiling.limit); used > budget.UsedPercent {
			budget.UsedPercent, budget.Ceiling = used, ceiling.name
		}
	}
	return budget
}

// add counts and lists an account if its budget is nearly used up.
func (s *Budgets) add(a AccountBudget) {
	if a.UsedPercent < nearPercent {
		return
	}
	s.Counts.Accounts++
	if a.UsedPercent >= fullPercent {
		s.full++
	}
	s.Accounts = append(s.Accounts, a)
}

// fullest returns the first shownRows of a list by their used part.
func fullest[B any](list []B, used func(B) int) []B {
	slices.SortStableFunc(list, func(a, b B) int { return cmp.Compare(used(b), used(a)) })
	return list[:min(len(list), shownRows)]
}

// usage returns what a page of accounts has used today, from Redis or the database.
func (v view) usage(ctx context.Context, accounts []sqlstore.Account) ([]policy.UsageCount, error) {
	if v.counted.none {
		return v.store.UsageOf(ctx, v.now.Unix()/int64(24*time.Hour/time.Second), accounts[0].ID, accounts[len(accounts)-1].ID)
	}
	return policy.UsageOfAccounts(ctx, v.counted.client, console.Each(accounts, func(a sqlstore.Account) string { return a.ID }), v.now)
}

// siteBudgets finds the live calls of properties and the inspections of sites that are nearly used up. Redis has a counter for each,
// so it is queried page by page.
func (v view) siteBudgets(ctx context.Context, s *Budgets) error {
	if v.counted.none {
		return v.persistedInspections(ctx, s)
	}
	var after sqlstore.SiteOfProperty
	for {
		page, err := v.store.SitesAfter(ctx, after, pageRows)
		if err != nil || len(page) == 0 {
			return err
		}
		if err := errors.Join(v.liveBudgets(ctx, s, page), v.inspections(ctx, s, after.Site, page)); err != nil {
			return err
		}
		if after = page[len(page)-1]; len(page) < pageRows {
			return nil
		}
	}
}

func (v view) liveBudgets(ctx context.Context, s *Budgets, page []sqlstore.SiteOfProperty) error {
	used, err := policy.UsageOfLiveCalls(ctx, v.counted.client, console.Each(page, func(p sqlstore.SiteOfProperty) string { return p.ID }))
	for _, p := range page {
		if part := int(used[p.ID] * 100); part >= nearPercent {
			s.Counts.Live++
			s.Live = append(s.Live, LiveBudget{ID: p.ID, GSCProperty: p.Site, UsedPercent: min(part, 100)})
		}
	}
	s.Live = fullest(s.Live, func(b LiveBudget) int { return b.UsedPercent })
	return err
}

// inspections reads the inspections of the sites of a page but the one that the page before has ended with.
func (v view) inspections(ctx context.Context, s *Budgets, last string, page []sqlstore.SiteOfProperty) error {
	sites := slices.Compact(console.Each(page, func(p sqlstore.SiteOfProperty) string { return p.Site }))
	if sites[0] == last {
		sites = sites[1:]
	}
	taken, err := policy.UsageOfInspections(ctx, v.counted.client, sites, int32(v.calendar.Day(v.now)))
	for _, site := range sites {
		if percent(taken[site], policy.InspectionsPerDay) >= nearPercent {
			s.Counts.Sites++
			s.Sites = append(s.Sites, siteQuota(site, taken[site]))
		}
	}
	s.Sites = fullest(s.Sites, func(q SiteQuota) int { return q.UsedPercent })
	return err
}

func (v view) persistedInspections(ctx context.Context, s *Budgets) error {
	const near = (policy.InspectionsPerDay*nearPercent + 99) / 100
	first, total, err := v.store.TakenInspections(ctx, v.calendar.Day(v.now), near, shownRows)
	s.Counts.Sites = total
	for _, i := range first {
		s.Sites = append(s.Sites, siteQuota(i.Site, i.Taken))
	}
	return err
}

func siteQuota(site string, taken int) SiteQuota {
	return SiteQuota{GSCProperty: site, Taken: taken, PerDay: policy.InspectionsPerDay, UsedPercent: percent(taken, policy.InspectionsPerDay)}
}

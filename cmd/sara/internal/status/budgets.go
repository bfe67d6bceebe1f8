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
	Source   string          `json:"source"`   // redis; or database, where a process without Redis persists its counts
	Accounts []AccountBudget `json:"accounts"` // each list the fullest first
	Live     []LiveBudget    `json:"live_calls_per_minute"`
	Sites    []SiteQuota     `json:"inspections"`
	Unknown  []string        `json:"unknown"` // what cannot be read from here
	Problem  *string         `json:"problem"`
}

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

// budgets finds the budgets near their end, with the properties that could be read.
func (v view) budgets(ctx context.Context, properties []sqlstore.ArchivableProperty) Budgets {
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
	s.Problem = problem(errors.Join(v.accountBudgets(ctx, &s), v.liveBudgets(ctx, &s, properties), v.siteQuotas(ctx, &s, properties)))
	slices.SortStableFunc(s.Accounts, func(a, b AccountBudget) int { return cmp.Compare(b.UsedPercent, a.UsedPercent) })
	slices.SortStableFunc(s.Live, func(a, b LiveBudget) int { return cmp.Compare(b.UsedPercent, a.UsedPercent) })
	slices.SortStableFunc(s.Sites, func(a, b SiteQuota) int { return cmp.Compare(b.UsedPercent, a.UsedPercent) })
	return s
}

func (v view) accountBudgets(ctx context.Context, s *Budgets) error {
	accounts, err := v.store.Accounts(ctx)
	if err != nil {
		return err
	}
	ids := make([]string, len(accounts))
	byID := make(map[string]sqlstore.Account, len(accounts))
	for i, a := range accounts {
		ids[i], byID[a.ID] = a.ID, a
	}
	counts, err := v.usage(ctx, ids)
	for _, c := range counts {
		a := byID[c.AccountID]
		plan := v.plans[a.Plan]
		if c.Hour != v.now.Unix()/int64(time.Hour/time.Second) {
			c.InHour = 0 // persisted in an earlier hour
		}
		budget := AccountBudget{ID: a.ID, Account: a.Name, Plan: a.Plan, RequestsThisHour: c.InHour, RequestsPerHour: plan.RequestsPerHour,
			RequestsToday: c.InDay, RequestsPerDay: plan.RequestsPerDay, SearchConsoleCallsToday: c.Calls, SearchConsoleCallsPerDay: plan.SearchConsoleCallsPerDay}
		for _, ceiling := range budget.ceilings() {
			if used := percent(ceiling.used, ceiling.limit); used > budget.UsedPercent {
				budget.UsedPercent, budget.Ceiling = used, ceiling.name
			}
		}
		if plan.APIAccess && budget.UsedPercent >= nearPercent {
			s.Accounts = append(s.Accounts, budget)
		}
	}
	return err
}

// usage returns what accounts have used today, from Redis or the database.
func (v view) usage(ctx context.Context, accounts []string) ([]policy.UsageCount, error) {
	if v.counted.none {
		return v.store.Usage(ctx, v.now.Unix()/int64(24*time.Hour/time.Second))
	}
	return policy.UsageOfAccounts(ctx, v.counted.client, accounts, v.now)
}

func (v view) liveBudgets(ctx context.Context, s *Budgets, properties []sqlstore.ArchivableProperty) error {
	if v.counted.none {
		return nil
	}
	used, err := policy.UsageOfLiveCalls(ctx, v.counted.client, console.Each(properties, func(p sqlstore.ArchivableProperty) string { return p.ID }))
	for _, p := range properties {
		if part := int(used[p.ID] * 100); part >= nearPercent {
			s.Live = append(s.Live, LiveBudget{ID: p.ID, GSCProperty: p.Site, UsedPercent: min(part, 100)})
		}
	}
	return err
}

func (v view) siteQuotas(ctx context.Context, s *Budgets, properties []sqlstore.ArchivableProperty) error {
	sites := console.Each(properties, func(p sqlstore.ArchivableProperty) string { return p.Site })
	slices.Sort(sites)
	sites = slices.Compact(sites)
	day := v.calendar.Day(v.now)
	var taken map[string]int
	var err error
	if v.counted.none {
		taken, err = v.store.TakenInspections(ctx, day)
	} else {
		taken, err = policy.UsageOfInspections(ctx, v.counted.client, sites, int32(day))
	}
	for _, site := range sites {
		if used := percent(taken[site], policy.InspectionsPerDay); used >= nearPercent {
			s.Sites = append(s.Sites, SiteQuota{GSCProperty: site, Taken: taken[site], PerDay: policy.InspectionsPerDay, UsedPercent: used})
		}
	}
	return err
}

package testbed

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"

	"sara/policy"
	"sara/proxy/upstream/gscsim"
)

// Config describes a testbed.
type Config struct {
	// Binary is a built sara. If it is empty, one is built; then the working directory must be inside the module.
	Binary   string
	Accounts []Account
	// Site has the size of every simulated site. Its URL and Brand are ignored.
	Site gscsim.Site
	// Upstream, if set, gets the simulator and stands in front of it as Search Console.
	Upstream   func(simulator http.Handler) http.Handler
	Plans      policy.Plans // that accounts name
	Postgres   bool         // a private PostgreSQL instead of SQLite; see HasPostgres
	S3         bool         // the archive is in a versitygw instead of a folder; see HasS3
	Group      Group        // of Redis servers
	Pooler     bool         // PgBouncer in front of PostgreSQL; see HasPooler
	RedisArgs  []string     // additional arguments of the replicas' Redis
	Usual      bool         // scheduling policy for all servers; see subprocess.Config
	Replicas   int          // started at once; more than one needs redis-server
	Redis      bool         // start a Redis even for one replica
	CacheBytes string       // SARA_CACHE_BYTES, such as 64MiB; empty for the default
	// Log is a file for the replicas' logs, at the default level. If it is empty, replicas log only warnings, and the last of
	// them are in the error of a replica that fails.
	Log string
}

// An Account has one workspace, one connection, and people with one key each.
type Account struct {
	People     int // at most 10, by the plans used here
	Properties []Property
	PerMinute  int    // requests a minute for one key; 0 for Raised
	Plan       string // one of Config.Plans; empty for a plan with no limit but PerMinute
}

// Raised is a limit that no measurement reaches. sara counts requests against it as against any other limit.
const Raised = 100_000_000

// plan returns the name of the account's plan.
func (a Account) plan() string {
	switch {
	case a.Plan != "":
		return a.Plan
	case a.PerMinute == 0:
		return "raised"
	}
	return fmt.Sprintf("minute-%d", a.PerMinute)
}

// A Property is a domain property that all people of its account can read.
type Property struct {
	Domain     string
	Queries    int // of its simulated site; 0 for the number in Config.Site
	BrandTerms []string
	PageGroups []string // each has the pages below /name/, in lower case
}

// plans returns the plans file for the accounts.
func (c Config) plans() []byte {
	plans := maps.Clone(c.Plans)
	if plans == nil {
		plans = policy.Plans{}
	}
	for _, account := range c.Accounts {
		if account.Plan != "" {
			continue
		}
		plans[account.plan()] = policy.Plan{APIAccess: true, Keys: 10, RequestsPerMinutePerKey: cmp.Or(account.PerMinute, Raised),
			RequestsPerHour: Raised, RequestsPerDay: Raised, SearchConsoleCallsPerDay: Raised, LiveCallsPerMinutePerProperty: Raised,
			RetentionMonths: 84, InspectedURLsPerProperty: 1000}
	}
	text := []byte("plans:\n")
	for name, p := range plans {
		text = fmt.Appendf(text, "  %s: {api_access: %t, keys: %d, requests_per_minute_per_key: %d, requests_per_hour: %d, "+
			"requests_per_day: %d, search_console_calls_per_day: %d, live_calls_per_minute_per_property: %d, "+
			"retention_months: %d, inspected_urls_per_property: %d}\n", name, p.APIAccess, p.Keys, p.RequestsPerMinutePerKey,
			p.RequestsPerHour, p.RequestsPerDay, p.SearchConsoleCallsPerDay, p.LiveCallsPerMinutePerProperty,
			p.RetentionMonths, p.InspectedURLsPerProperty)
	}
	return text
}

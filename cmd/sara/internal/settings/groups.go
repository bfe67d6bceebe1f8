// Package settings holds the settings of all commands: their names, defaults and help, and their values, parsed once.
//
// A setting is a flag tagged type:"setting". The flag --database-url is also the variable SARA_DATABASE_URL of the
// environment and the entry database_url of the settings file; the flag wins over the environment, and that over the file.
// Commands embed the groups that they need. Loader reads them through kong and reports all wrong settings at once, each with
// its name, where its value comes from, what is wrong with it and how to fix it.
//
// Nothing outside this package parses a setting again. No error and no String method shows a secret.
package settings

// File names the settings file.
type File struct {
	Config string `type:"setting" placeholder:"FILE" help:"YAML file with settings, by names such as database_url."`
}

// Store is what every command that opens the database needs.
type Store struct {
	Clock
	DatabaseURL         Database   `type:"setting" secret:"" default:"sqlite:sara-data/sara.db" placeholder:"URL" help:"sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE; default: ${default}."`
	DatabaseConnections Count      `type:"setting" min:"8" max:"1000" example:"12; seven processes then fit into the 100 connections of PostgreSQL's default" placeholder:"N" unset:"pool_max_conns of the URL, else 12" help:"Maximum number of connections that a process opens to the database, all pools together; default: pool_max_conns of the URL, else 12."`
	AuditDays           Count      `type:"setting" min:"30" max:"3650" default:"400" example:"400" placeholder:"DAYS" help:"How long the audit log keeps an administrative change that is made now, 30 to 3650 days; default: ${default}."`
	SecretKey           SecretKey  `type:"setting" secret:"" placeholder:"BASE64" unset:"not set: no connection can be used" help:"32 bytes in base64 that encrypt the stored credentials; sara connection reseal --help explains how to change it."`
	SecretKeyPrevious   SecretKeys `type:"setting" secret:"" placeholder:"BASE64,…" unset:"none" help:"Former secret keys, separated by commas, that still open what they encrypted."`
	RedisURL            Redis      `type:"setting" secret:"" setting:"SARA_REDIS_URL" placeholder:"URL" unset:"none: counted in memory, for one process" help:"redis://USER:PASSWORD@HOST:PORT, or redis://SENTINEL:PORT?master_name=NAME&username=USER&password=PASSWORD, or with addr for a cluster; required to serve with several processes."`
}

// Clock is the clock of a process, which tests move, so that a midnight can be tried on the real program. Redis counts by its own
// clock, and Google's tokens expire by the real one.
type Clock struct {
	ClockOffset Offset `type:"setting" hidden:"" placeholder:"TIME" unset:"none" help:"For tests only: how much the clock is ahead of the real one."`
}

// SharedRows is where the processes share cached rows.
type SharedRows struct {
	RedisCacheURL Redis `type:"setting" secret:"" setting:"SARA_REDIS_CACHE_URL" placeholder:"URL" unset:"the same as SARA_REDIS_URL" help:"Redis for cached rows, in the forms of --redis-url, so that rows and counters do not share memory; default: that of --redis-url."`
}

// Check returns an error for a Redis of rows without one of counters.
func (r *SharedRows) Check(counters Redis) error {
	if !r.RedisCacheURL.IsSet() || counters.IsSet() {
		return nil
	}
	return Errorf("SARA_REDIS_CACHE_URL", "it needs SARA_REDIS_URL too, since one process alone has no other to share rows with: set "+
		"SARA_REDIS_URL to the Redis that counts requests, or leave SARA_REDIS_CACHE_URL out")
}

// Location returns the Redis of the rows, and whether it is separate from that of the counters.
func (r *SharedRows) Location(counters Redis) (rows Redis, separate bool) {
	if !r.RedisCacheURL.IsSet() || r.RedisCacheURL.text == counters.text {
		return counters, false
	}
	return r.RedisCacheURL, true
}

// Archive is the location of the history.
type Archive struct {
	ArchiveURL Bucket `type:"setting" default:"sara-data/archive" placeholder:"URL" help:"Where the history is stored: a folder, file:///FOLDER, or s3://BUCKET/PREFIX?endpoint=https://HOST:PORT&region=NAME with credentials where the AWS tools find them; default: ${default}."`
}

// Upstream is the location of Search Console.
type Upstream struct {
	UpstreamURL   URL `type:"setting" default:"https://searchconsole.googleapis.com" placeholder:"URL" help:"Base URL of the Search Console API; default: Google's."`
	OAuthTokenURL URL `type:"setting" name:"oauth-token-url" default:"https://oauth2.googleapis.com/token" placeholder:"URL" help:"Token endpoint for authorized_user credentials, and the only one that key files may name beside Google's; default: Google's."`
}

// Plans are the plans of accounts.
type Plans struct {
	PlansFile PlanTable `type:"setting" placeholder:"FILE" unset:"built in" help:"YAML file with plans over the built-in ones: plans: {own: {requests_per_day: 5000}} changes one limit of one plan."`
}

// Anomalies are the known events at Google.
type Anomalies struct {
	AnomaliesFile AnomalyList `type:"setting" placeholder:"FILE" unset:"built in" help:"YAML or JSON file that replaces the built-in list of known anomalies, with the members of /v1/anomalies."`
}

// Keys is the format of API keys.
type Keys struct {
	KeyPrefix KeyPrefix `type:"setting" default:"sara" placeholder:"WORD" help:"Keys are WORD_live_SECRET; default: ${default}."`
}

// NewKeys are the rules for keys that are created.
type NewKeys struct {
	KeyMaxDays Count `type:"setting" max:"3650" example:"90" placeholder:"DAYS" unset:"none: keys need not expire" help:"Every new key, a rotated one too, expires after so many days, 1 to 3650, or earlier; default: keys need not expire."`
}

// Public is the address of the API.
type Public struct {
	Listen  HostPort `type:"setting" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Address of the public API, port 0 for any free port; default: ${default}."`
	BaseURL BaseURL  `type:"setting" placeholder:"URL" example:"https://api.example.com" unset:"from the listener" help:"URL at which clients reach the API; default: that of the listener."`
}

// Client is the key of commands that are clients of a server.
type Client struct {
	APIKey APIKey `type:"setting" secret:"" placeholder:"KEY" unset:"none" help:"API key of commands that ask a server; never on the command line."`
}

// Admin is the address of the admin endpoints.
type Admin struct {
	AdminListen HostPort `type:"setting" default:"127.0.0.1:9090" placeholder:"HOST:PORT" help:"Address of /metrics, /livez, /readyz and, with --pprof=on, profiles; never expose it to the internet; default: ${default}."`
	Pprof       Switch   `type:"setting" default:"off" placeholder:"on|off" help:"Whether the admin address serves profiles of the process at /debug/pprof/; default: ${default}."`
}

// Edge configures the public API towards clients and proxies.
type Edge struct {
	DocsURL            URL        `type:"setting" placeholder:"URL" example:"https://example.com/docs" unset:"the reference at /docs" help:"Documentation that errors link to; default: the reference at /docs."`
	TrustedProxyHeader HeaderName `type:"setting" placeholder:"NAME" unset:"none: the peer is the client" help:"Header in which the proxy in front puts the client's address; default: none, the peer's address counts."`
	CORSOrigins        Origins    `type:"setting" name:"cors-origins" placeholder:"ORIGINS" example:"https://app.example.com,http://localhost:5173" unset:"none" help:"Origins whose web pages may call the API from a browser, scheme://host[:port] separated by commas, or * for all; default: none."`
}

// Capacity is the size of a deployment.
type Capacity struct {
	Replicas        Count `type:"setting" default:"1" max:"10000" example:"2: how many processes serve together" placeholder:"N" help:"Maximum number of processes that serve together. While Redis is down, each grants its share of what is left of every limit, divided by the processes that were alive or, right after a start, by this number; default: ${default}."`
	CacheBytes      Size  `type:"setting" default:"256MiB" placeholder:"SIZE" help:"Memory limit of the response cache, such as 64MiB or 2GiB; default: ${default}."`
	RedisCacheBytes Size  `type:"setting" default:"256MiB" placeholder:"SIZE" help:"Memory limit of the cached rows in Redis, of which an account may fill a quarter; at most half of the maxmemory of a Redis that has the counters too; default: ${default}."`
}

// Pace is the speed of the collector.
type Pace struct {
	CollectRate Count `type:"setting" default:"300" max:"100000" example:"300; Search Console allows 1200" placeholder:"N" help:"Limit of the collector's calls a minute for one site; one connection may make twice as many; default: ${default}."`
}

// Collector is the daily collection beside a server.
type Collector struct {
	Collect Switch `type:"setting" default:"on" placeholder:"on|off" help:"Whether to collect the history of all properties once a day, on one of the processes; default: ${default}."`
	Pace
}

// Sitemaps restricts which sitemaps may be fetched.
type Sitemaps struct {
	SitemapAllowLoopback Flag `type:"setting" default:"false" placeholder:"true|false" help:"For tests only: whether sitemaps may be fetched from this machine; default: ${default}."`
}

// Inspector is the daily inspection beside a server.
type Inspector struct {
	Inspect Switch `type:"setting" default:"on" placeholder:"on|off" help:"Whether to inspect the URLs of all properties once a day, on one of the processes; default: ${default}."`
	Sitemaps
}

// Shutdown configures how a server stops.
type Shutdown struct {
	ShutdownDelay Delay `type:"setting" default:"0s" placeholder:"TIME" help:"How long to keep serving, reported as not ready, after SIGTERM; default: ${default}."`
}

// Log configures the log.
type Log struct {
	LogLevel        Level     `type:"setting" default:"info" placeholder:"LEVEL" help:"debug, info, warn or error; default: ${default}."`
	LogFormat       LogFormat `type:"setting" default:"text" placeholder:"FORMAT" help:"text or json; default: ${default}."`
	AccessLogSample Fraction  `type:"setting" default:"1" placeholder:"FRACTION" help:"Fraction (0–1) of successful requests to log; errors are always logged; default: ${default}."`
}

// Package policy decides whether a request may proceed. It knows neither HTTP nor SQL.
//
// # The gate
//
// A Gate checks a request in this order, and the first check that fails decides: the form of the Authorization header; that
// the key exists, is not revoked and has not expired (authentication); that the key may be used from the client's address; that the
// account's plan has access and has not ended; that the key holds the scopes that the endpoint requires; and that the request fits the
// budgets, to which it is then charged. Resolving a property and charging live upstream calls come later, when a handler needs them. A
// refusal is a *Denial, with a code and a message for the client; any other error means that the Directory did not answer.
//
// Unknown keys are limited per client network: an IPv4 address or an IPv6 /64 (minuteLimiter). Concurrent look-ups of keys share queries
// (keyFinder), so that guesses cost the database little and do not slow down valid keys. After many unknown keys, the gate reads the
// hashes of all keys (census), and refuses any other key without a look-up. RefuseAtOnce makes only the checks that need no waiting, of
// the key's form and in the census, so that a caller can make them before anything else.
//
// # Consistency
//
// The gate caches the Directory's answers, each with the version of the directory that it came from. A change by this process
// changes the version at once; a change by another process changes it when the edition, a counter in the database, is read
// again, at most a second later, or earlier when PublishInvalidation reaches ListenInvalidations over Redis pub/sub. So a
// revoked key stops working everywhere within a second. A new key works as soon as it is shown: the process that creates it waits for
// NewKeyDelay before it shows the key, because gates use a census for that long without reading the edition.
//
// While the Directory fails, cached keys and properties keep working for five minutes after their last refresh (stale if error). For
// them, a Directory that hangs counts as failing after a quarter of a second. Expiry times and plan ends are compared with the clock on
// every request, so they hold even then.
//
// Snapshots keep what the gates of all replicas know, sealed in Redis, for a replica that starts while the Directory fails. The replica
// uses a snapshot for the rest of these five minutes, and only if no change has been published since it was taken.
//
// A caller may memoize an admitted request: StillValid reports whether its Grant still belongs to the current version. Readmit then makes
// all checks of the key that need no look-up, and charges the budgets.
//
// # Budgets
//
// A Budget counts requests per key and minute, per account and hour, and per account and day, and live upstream calls per
// account and day, and per property and minute. Minutes are token buckets in the form of GCRA, so a client regains its rate
// gradually; hours and days are fixed calendar windows in UTC. A request is charged to all of its ceilings or to none.
//
// MemoryBudget counts in this process, and writes its counts to a UsageStore in the background (write-behind). RedisBudget counts in
// Redis, for any number of replicas, with one script per batch of concurrent requests. The scripts accept only numbers within their
// range: a damaged hash counts as lost, and replicas restore it; a damaged bucket counts as drained (script/number.lua,
// script/account.lua). While Redis is down, a circuit breaker is open: each replica admits from memory its share of what was left
// of the limits, and adds what it admitted to Redis afterwards. If Redis has lost counts, each replica restores what it had
// admitted (ledger.go). A ReplicaStore keeps the used part of the shares across restarts.
//
// A key that several clients use at once has a lease while its limits are far away: RedisBudget reserves some of its requests in Redis in
// advance, and admits them without waiting (lease.go). Reserved requests count against every limit, so limits stay exact.
//
// Inspections shares the upstream's own quota of URL inspections among replicas.
package policy

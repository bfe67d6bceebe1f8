// Package policy decides: whose key a request carries, what its plan and scopes allow, what is left of its budgets, and
// which property it means. It knows neither HTTP nor SQL; what it needs to know of the world it asks of a Directory.
//
// A Gate is safe for concurrent use. It remembers what the Directory said until something changes, for which it looks once
// a second, whatever the number of keys: so a key that was revoked elsewhere stops working within that. What the Directory's
// own process has changed it forgets at once. While the Directory fails, keys and properties that it has seen keep working
// for five minutes past their last refresh; a key's expiry and a plan's end are compared with the clock on every request, so
// those hold even then.
//
// A Budget counts what is used. Local counts in this process; Shared counts in Redis, for any number of replicas, with a
// Local to fall back on: its doc says what happens while Redis is away. Announce and Listen tell replicas of each other's
// changes through the same Redis, so that they need not wait for the second to pass. Inspections shares the upstream's own
// quota of URL inspections among them.
//
// A refusal is a *Denial, whose code and message are meant for the client. Any other error means that the Directory
// could not be asked.
package policy

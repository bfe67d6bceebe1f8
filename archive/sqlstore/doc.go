// Package sqlstore stores what administrators configure, in SQLite or PostgreSQL: accounts and their plans, people,
// workspaces and their members, API keys, upstream connections, properties, and the context of a property (brand terms, page
// groups, annotations). It also keeps the state of each property's archive, its URLs with their inspections, the usage of accounts and
// replicas, and the audit log. Search figures are not kept here.
//
// The Store implements policy.Directory, policy.UsageStore and policy.ReplicaStore, and returns policy's types. Package policy
// decides what a plan or a scope permits.
//
// Inspections are staged one by one and published together with their counts, in one transaction: readers see all of it or
// nothing. A page of URLs is read from a covering index, one for each order. Totals come from precomputed counts; only a
// substring search walks an index.
//
// A lease lets only one process at a time do a job: it is a row, which its holder keeps until it releases the lease or lets it expire.
//
// A migration keeps everything that the previous version reads and writes, because both versions run during a rolling update; a later
// migration removes it.
//
// The same queries and migrations serve both databases. Placeholders are numbered in order of appearance, times
// are stored as Unix milliseconds, and whatever must sort the same in both databases is stored as bytes.
//
// A server has separate bounded pools of connections (bulkheads): for look-ups of keys and properties, for lists, for writes and leases,
// and one connection for Ping. Within a pool, each group of tables has a lane that is narrower than the pool, so a lock on a table
// delays only the queries of that group. No query depends on the session, so a pooler in transaction mode may sit in front of PostgreSQL.
// SQLite would parse a query on every call, so its look-ups are prepared statements.
//
// Methods for administration take a reference, which is an ID or a name, and change the database in one transaction. Methods
// that serve requests take IDs, run few queries, all of which use indexes, and never lock. Every call except Migrate has its own
// timeout, regardless of its context. A restart of PostgreSQL that is over fails no read, and no transaction that has not begun: they are
// tried again, once, on a connection that has been checked.
//
// A Store is safe for concurrent use, also by several processes on one database. Caches in this process compare Generation, which increases
// with each of its administrative writes; caches in other processes poll Edition.
//
// Errors of the database are wrapped with the operation, and a failed write leaves no trace. Errors that a user can act on are
// typed: InputError, ConflictError, NotFoundError, AmbiguousError, ExistsError, KeyLimitError, SchemaError, ErrNoSecretKey, WrongKeyError,
// ErrNotOpen. No error contains a password, a key or a credential.
package sqlstore

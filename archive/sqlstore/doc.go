// Package sqlstore stores what administrators configure, in SQLite or PostgreSQL: accounts and their plans, people,
// workspaces and their members, API keys, upstream connections, properties, and the context of a property (brand terms, page
// groups, annotations). It also keeps the state of each property's archive, its URLs with their inspections, what accounts and
// replicas have used, and the audit log. Search figures are not kept here.
//
// The Store implements policy.Directory, policy.UsageStore and policy.ReplicaStore, and returns policy's types. Package policy
// decides what a plan or a scope permits.
//
// Inspections are staged one by one and published together with their counts, in one transaction: readers see all of it or
// nothing. A page of URLs is read from a covering index, one for each order. Totals come from precomputed counts; only a
// substring search walks an index.
//
// A lease lets one process at a time do a job: one row, which a holder keeps until it releases the lease or lets it expire.
//
// A migration leaves what the version before reads and writes, because both run while an update rolls out; a later one removes it.
//
// One set of queries and one set of migrations serves both databases. Placeholders are numbered in order of appearance, times
// are stored as Unix milliseconds, and whatever must sort alike in both databases is stored as bytes.
//
// Connections are in separate bounded pools: look-ups of keys and properties, what requests list, and writes. Within a pool, the
// queries of one group of tables leave a connection to the others, so that a lock on a table holds up only what reads that table.
// Nothing belongs to a database session, so that a pooler in transaction mode may be in front. SQLite is in this process: there, the
// look-ups are prepared statements.
//
// Methods for administration take a reference, which is an id or a name, and change the database in one transaction. Methods
// that serve requests take ids, run few queries that use indexes, and never lock. Every call except Migrate has a timeout of
// its own, regardless of its context.
//
// A Store is safe for concurrent use, also by several processes on one database. Generation invalidates the caches of this
// process after a write; other processes poll Edition.
//
// Errors of the database are wrapped with the operation, and a failed write leaves no trace. Errors that a user can act on are
// typed: InputError, ConflictError, NotFoundError, AmbiguousError, ExistsError, KeyLimitError, SchemaError, ErrNoSecretKey, WrongKeyError,
// ErrNotOpen. No error contains a password, a key or a credential.
package sqlstore

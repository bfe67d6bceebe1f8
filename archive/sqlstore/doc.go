// Package sqlstore keeps what administrators decide, in SQLite or PostgreSQL: accounts and their plans, people,
// workspaces and who belongs to them, API keys, upstream connections, properties, and what is known about a property
// (brand terms, page groups, annotations), how the archive of each property stands, and which of its URLs the upstream has
// in its index. It knows plans and scopes only by name; what they allow is decided elsewhere. Search data is not kept here.
//
// It also keeps the URLs of each property and what the upstream said of them when they were inspected. Results are staged
// one by one and published together, with their counts: readers see nothing in between. Pages of URLs are cut in an index, one
// for each order; the counts tell how many there are, and a search for a part of a URL walks through an index.
//
// A lease is what processes take turns by: one row, which one of them holds until it gives it back or it runs out.
//
// One set of queries and one set of migrations serves both databases. Placeholders are numbered in order of appearance,
// times are stored as Unix milliseconds, and whatever has to sort alike everywhere is stored as bytes.
//
// Methods for administration take a reference, which is an id or a name, and change the database in one transaction.
// Methods that serve requests take ids, answer with few queries that use indexes, and never lock. Every call but
// Migrate is bounded in time, however long its context lives.
//
// A Store is safe for concurrent use, also by several processes on one database. Generation tells the caches of this
// process that something changed; other processes learn of it by reading again.
//
// Failure mode: an error of the database is returned as it is, wrapped with the attempt, and nothing of a failed write
// remains. Errors that a person can act on are typed: InputError, NotFoundError, AmbiguousError, ExistsError,
// KeyLimitError, SchemaError, ErrNoSecretKey, ErrWrongSecretKey. No error holds a password, a key or a credential.
package sqlstore

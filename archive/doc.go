// Package archive keeps what the upstream forgets. Search Console holds 16 months; the History holds the top 100 queries
// and the top 100 pages of every day, and the day's total, countries and devices, for as long as a plan says, and answers
// from them in the upstream's own terms.
//
// The history is one Parquet object for each property and month in a bucket, in the layout that FORMAT.md describes, which
// DuckDB, Spark and BigQuery read as it is. An object carries what it is of, which of its days are archived, and a checksum
// over all of its bytes. One that is torn, altered, of another property or month, or of an unknown version is an
// *ObjectError and is never served. The bytes of an object depend on its days alone, not on how they came in.
//
// Writers in any number of processes may add days to the same month at once: each puts its month back only if nobody else
// has meanwhile, and reads it again otherwise. A reader sees the writes of its own process at once and those of others
// after a few seconds.
package archive

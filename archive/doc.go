// Package archive keeps search figures for longer than the upstream, which keeps them for 16 months. For every day, a History holds the
// total, the countries, the devices, and the top 100 queries and pages, for as long as a plan retains them. It answers reports from them
// in the upstream's own terms. It alone decides what a missing, partial or truncated day means.
//
// The history is one Parquet object for each property and month, in a bucket. FORMAT.md describes the layout, which DuckDB,
// Spark and BigQuery read directly. An object names its property and month, lists its archived days, and carries a checksum
// over all of its bytes. An object that is truncated, altered, of another property or month, or of an unknown version is an
// *ObjectError and is never served. Encoding is deterministic: the bytes of an object depend on its days alone.
//
// Merging is idempotent, and uses optimistic concurrency: any number of processes may add days to one month at once. Each
// replaces the object with a conditional write. If the object has changed since it was read, the write fails, and the process reads it
// again and retries. A reader sees the writes of its own process at once, and those of other processes after a few seconds.
package archive

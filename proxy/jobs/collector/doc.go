// Package collector fills the archive: for every property it queries the upstream, day by day, before the upstream drops the
// days.
//
// # What it queries
//
// One query for each day and dimension, because a query over many days loses most of the rows with little traffic. Only the
// totals of the days come from one query over the whole range. The archive alone decides which days are queried: those that
// it lacks, and those that are not final. This makes a run idempotent: if it is interrupted, killed or
// repeated, the next run queries what is missing, and the archive ends with the same bytes as after a single run.
//
// The oldest day comes first, because the upstream drops it next; a month is written when it is complete. The upstream still changes
// recently published days. So the last two days with figures, and all later ones, are provisional for up to ten days: later runs query
// them again. A day without figures is provisional for ten days even if later ones have some, because it may be a gap that the upstream fills:
// later runs query it only if the series has figures of it. Some days are left out:
//
//   - A day that may not be published yet is left for a later run: one of the last translate.LongestLag days if neither it nor a later one
//     has figures, and a provisional day that the upstream does not show. Live answers count the former as days without traffic if the
//     site had such days before (translate.KnownDays), and the next answer knows better. The archive would show zeros for as long as the
//     upstream fails, and for good once the connection ends.
//   - A day that the upstream has lost at the start of its window is not archived (translate.LostUntil).
//   - A day about which the upstream contradicts itself, or which it refuses, is not archived, and the result reports it.
//
// What is final depends on the clock. If that is days ahead, the gateway fails the queries of jobs (upstream.Gateway.Query), so that no day to
// come is archived as one without traffic.
//
// Rows with the same key are added up, and rows without a key are left out.
//
// # How it behaves
//
// Its rate stays well below the upstream's limits per site and per user, and it yields to customers' requests for a limited
// time. Several properties are collected at once. If one fails, it stops or backs off alone, and the others continue. A few days of
// each property are buffered in memory; a kill loses only those. Before each attempt, and before it deletes what a plan no longer
// keeps, the collector reads the property again, because it may have changed since the run began (Config.Current).
//
// # The daily job
//
// Daily collects every property once a day on one of any number of replicas; package schedule describes the lease. A replica
// that takes over continues with what is missing.
//
// # What it is not
//
// It does not depend on HTTP, credentials or SQL: Gateway and Store hide those. It does not log: Progress and the results
// report what happened.
//
// A Collector is safe for concurrent use, and so are several on one archive. Pauses use real time, regardless of Config.Now.
package collector

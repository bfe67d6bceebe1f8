// Package collector fills the archive: it asks the upstream, day by day and before it forgets them, for what the archive
// keeps of every property.
//
// # What it asks
//
// One question a day and dimension, because a question over many days loses most of the rows with little traffic; only the
// days' totals come from one question over the whole stretch. Which days it asks for is told by the archive alone: days
// that are missing there, and days that are not final. So a run that was interrupted, killed or done twice changes nothing
// in the end: the next one asks for what is missing, and the bytes of the archive are the same as if it had been one run.
//
// The oldest day comes first. The upstream forgets that one next, and month after month is written once it is whole.
// The last two days up to the anchor count as provisional, because the upstream calls days final late; they are asked for
// again until they are not among the last two any more. A day that the upstream does not show yet is left for later, and a
// past day without traffic is archived as such. When the upstream contradicts itself about a day, the day is left and told.
//
// # How it behaves
//
// It keeps well below the upstream's limits for a site and for a user, and it gives way to customers while the service is
// busy, up to a bound. Several properties are collected at once; one that fails ends by itself, or waits for its next try
// while the others go on. It holds a few days of each in memory, which is also what a kill costs.
//
// # The daily run
//
// Daily collects every property once a day on one of any number of replicas; package daily tells how they take turns. Whoever
// takes over goes on with what is missing.
//
// # What it is not
//
// It knows nothing of HTTP, credentials or SQL: Source, Ledger and Rests are what others do for it. It does not log:
// Progress and the results tell what happened.
//
// A Collector is safe for concurrent use, and so are several on one archive. Pauses are real time, whatever Config.Now says.
package collector

// Package cache answers a question to the upstream from a copy where there is one, and otherwise asks once for everybody
// who wants to know.
//
// # The walk
//
// Do takes a Question and looks in the memory of this process, then in Redis, which the replicas share, and then has the
// question asked. What it keeps are the upstream's rows under the canonical question, never answers under URLs, so that
// every request that the same rows answer finds them; the two samples of the same rows answer for each other where they
// can. Answers that are built from rows may be kept, too (Keep): in memory only, and no longer than their rows are the
// newest.
//
// A copy is fresh for the Life of the Question. Past that and up to a day it is stale: it is returned while one refill runs
// in the background, until that refill fails; from then on the question is asked again before the copy is returned, beside
// the error.
//
// # One fill
//
// Questions that miss at the same time are filled once. In a process they share a flight, which runs on a context of its
// own: whoever asked may leave. Between processes a flight needs a lease in Redis, which is renewed while it fills, and
// tells its outcome on a channel that every replica listens to, so that nobody polls; a replica that dies leaves a lease
// that lapses after two seconds. An error of a fill is everybody's who waited for it, unless it concerns only the one who
// ran into it, such as a spent budget: then the next one tries.
//
// # What it is not
//
// It does not decide who may see what, whether a budget allows a fill, or how rows become an answer: its callers do, before
// they ask and in Fill. It does not keep errors.
//
// # Concurrency and failure
//
// A Cache is safe for concurrent use. Copies and Answers are immutable and may be read as long as one likes. Redis only
// ever helps: no error of Redis fails a request or adds more than a tenth of a second to it, and after one it is let alone
// for a second. Values in Redis that are not understood, whoever wrote them, are misses. Losing notices costs waiting out a
// lease.
package cache

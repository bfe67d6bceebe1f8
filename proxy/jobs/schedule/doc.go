// Package schedule is what the background jobs share: the collector of the archive and the inspector of URLs. A Job runs once
// a day on one of any number of replicas. RunConfig paces the calls of a run, KindOf and Backoff decide what is retried, and
// Progress reports how it goes.
//
// # Leases
//
// Replicas elect the one that works with a lease, which is a row of the SQL store. The store is there anyway; a job queue
// would be one more service to run, watch and upgrade. The lease of a replica that dies expires within LeaseTTL, and the next
// replica continues with what is missing.
//
// A lease cannot stop a process that has not yet noticed that it lost it, so work is at-least-once: for a moment two replicas
// may do it. What a Job runs must therefore be idempotent.
//
// # What it is not
//
// It does not call the upstream and does not log. Job.Now decides only what is due and which properties are in backoff;
// pauses, limiters and leases use real time.
package schedule

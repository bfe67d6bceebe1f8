// Package schedule is the common part of the background jobs: the collector of the archive and the inspector of URLs. A Job runs once
// a day on one of any number of replicas. RunConfig paces the calls of a run, KindOf and Backoff decide what is retried, and
// a Progress receives its events.
//
// # Leases
//
// A lease elects the replica that works. It is a row in the SQL store, which is needed anyway; a job queue would be one more service
// to run, monitor and upgrade. The lease of a replica that dies expires within LeaseTTL, and the next replica continues with what is
// missing.
//
// A process may not notice at once that it has lost its lease, so for a moment two replicas may do the same work (at-least-once).
// The work of a Job must therefore be idempotent.
//
// # What it is not
//
// It does not call the upstream and does not log. Job.Now decides only what is due and which properties are in backoff;
// pauses, limiters and leases use real time.
package schedule

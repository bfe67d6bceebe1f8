// Package schedule is what the jobs have in common that go over all properties once a day: the collector of the archive and the
// inspector of URLs. It finds what is due, lets one of any number of replicas do it, and says what a refusal of the upstream
// means for the rest.
//
// # Taking turns
//
// Replicas take turns by a lease, a row of the SQL store: the store is there anyway, and a job service would be one more
// thing to run, watch and upgrade for jobs that may be repeated, stopped and taken over at any time. A replica that dies
// loses its lease within twenty seconds, and the next one goes on with what is missing. That holds only if the work itself can be
// done twice without harm: a lease says whose turn it is, and cannot stop a process that has not noticed yet that it is over.
//
// # What it is not
//
// It knows neither properties nor the upstream, and it does not log. It decides nothing by the clock on the wall but whether
// something is left alone still; pauses and leases are real time, whatever Job.Now says.
package schedule

// Package inspector keeps the stored results of URL inspection up to date: it finds the URLs of every property, and asks the
// upstream what its index holds of each.
//
// # A run
//
// Discovery comes first: the sitemaps that the upstream knows of are read, the pages that had traffic in the last four weeks
// are added, and of all these the ones with the most clicks are kept, as many as the plan inspects. A sitemap that could not
// be read keeps the URLs that it had, and when the upstream does not even tell which sitemaps there are, everything stays.
//
// Then the URLs are inspected that were not inspected today, which is a day of the upstream: those that never were, and then
// by how stale they are and how much traffic they have. No URL waits for ever, because its age grows without bound.
//
// Every answer is put aside in the store at once, and all are published together at the end of the run. So readers see one
// consistent state for as long as a run takes, and a run that is killed loses no answer: the next one publishes what was put
// aside and asks for the rest. Only calls that were under way are made again.
//
// # How it behaves
//
// The upstream allows a site 2,000 inspections a day and 600 a minute, which Quota counts for everybody who shares them. When
// the day is used up, the rest has its turn tomorrow; that is no failure. Besides, a run keeps below the limit of a minute by
// itself, and gives way to customers while the service is busy, up to a bound.
//
// A URL that the upstream refuses is skipped. If it seems to refuse all of them, one more is asked for that was inspected
// before, if there is one; when that is refused too, the property is given up: who may see a property may not inspect it,
// unless they are its owner or a full user.
//
// # What it is not
//
// It knows nothing of HTTP, credentials or SQL: Source, Sitemaps, Quota and Store are what others do for it. It does not log:
// Progress and the results tell what happened.
//
// An Inspector is safe for concurrent use, and so are several on one store: they take turns at each property by a lease.
// Pauses are real time, whatever Config.Now says.
package inspector

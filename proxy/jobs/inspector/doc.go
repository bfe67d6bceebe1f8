// Package inspector keeps the stored results of URL inspection up to date: it discovers the URLs of every property, and asks
// the upstream for the index status of each.
//
// # A run
//
// Discovery comes first. It reads the sitemaps that the upstream lists, adds the archived pages that had traffic in the last four
// weeks, and keeps the ones with the most clicks, as many as the plan inspects. One query asks for the clicks of pages that
// are not among the top ones of any day, which the archive does not have. A sitemap that could not be read keeps the
// URLs that it had. When the upstream does not even list the sitemaps, all tracked URLs stay.
//
// Then the run inspects the URLs that were not inspected on this day of the upstream: first the new ones, then by staleness
// and traffic. The priority of a URL grows with its age without bound, so none starves.
//
// Every result is staged in the store at once, and all are published together at the end of the run. So readers see one
// consistent snapshot for as long as a run takes, and a run that is killed loses no result: the next one publishes what is
// staged and continues. Only calls that were in flight are repeated (at-least-once).
//
// # How it behaves
//
// The upstream allows 2,000 inspections of a site a day and 600 a minute. Quota counts them for all processes. When the day's
// quota is used up, the remaining URLs are left for the next day; that is no failure. A run also limits its own rate to what a
// minute allows, and yields to customers' requests, up to a limit.
//
// A URL that the upstream rejects is skipped. After several rejections in a row, the run probes with the URL that was
// inspected most recently. If that is rejected, too, the run stops inspecting the property: probably the account has only read
// access, and inspections require an owner or a full user.
//
// # What it is not
//
// It does not depend on HTTP, credentials or SQL: Gateway, Sitemaps, Quota and Store hide those. It does not log: Progress and
// the results report what happened.
//
// An Inspector is safe for concurrent use, and so are several on one store: a lease per property keeps them apart. Pauses use
// real time, regardless of Config.Now.
package inspector

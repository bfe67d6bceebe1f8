// Package inspector keeps the stored results of URL inspection up to date: it discovers the URLs of every property, and asks
// the upstream for the index status of each.
//
// # A run
//
// Discovery comes first. It reads the sitemaps that the upstream lists, adds the archived pages that had traffic in the last four
// weeks, and keeps the ones with the most clicks, as many as the plan inspects. One query asks for the clicks of pages that the
// archive does not have because they are not among the top ones of any day. A sitemap that could not be read keeps its previous
// URLs. If the upstream does not even list the sitemaps, all tracked URLs stay.
//
// Then the run inspects the URLs that have not been inspected on this upstream day: first the new ones, then by staleness
// and traffic. The priority of a URL grows with its age without bound, so none starves.
//
// Every result is staged in the store at once, and all are published together at the end of the run. So readers see one
// consistent snapshot throughout a run, and a killed run loses no results: the next one publishes what is
// staged and continues. Only calls that were in flight are repeated (at-least-once).
//
// Before a property's turn, it is read again (Config.Current), because it may have changed since the run began.
//
// # How it behaves
//
// The upstream allows 2,000 inspections of a site a day and 600 a minute. Quota counts them across all processes. When the daily
// quota is used up, the remaining URLs are left for the next day; that is not a failure. A run also limits its own rate to the
// limit per minute, and yields to customers' requests for a limited time.
//
// A URL that the upstream rejects is skipped. After several consecutive rejections, the run probes with the URL that was
// inspected most recently. If that is rejected too, the run stops inspecting the property: probably the account has only read
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

// Package gscsim simulates Google Search Console over HTTP: search analytics, sites, sitemaps, URL inspection, the OAuth
// consent page and token endpoint, and also the sitemap files on the sites' own web servers. It is the upstream of the demo, the tests
// and the benchmarks. It imports nothing of the project, so it is an independent oracle.
//
// # What it promises
//
// Within what it simulates, Google's generated Go client cannot distinguish it from the real service. Paths, request fields, enum
// spellings, defaults, error envelopes, documented messages, number formats and the order of rows follow the real service. The
// figures are a pure function of (Seed, Site, day): no figures are stored, and two servers with the same Config give the same
// answers. Every answer is computed from the same cells (query, page, country, device and hour of one day), so all dimensions
// agree with each other:
//
//   - country rows and device rows are complete and add up to the totals; the days of a range add up to its totals;
//   - about a fifth of the traffic is anonymised: it is in totals, days, countries, devices and pages, but in no row grouped by
//     query, and a filter on query excludes it;
//   - byPage counts one impression for each URL, so page rows may add up to more impressions than byProperty totals;
//   - days are Pacific days. Final data ends with the last published day of the site, which is two days before today unless its
//     Publication is later; "all" reaches into today; hourly data spans the last ten days; a range beyond the retention is clamped
//     silently;
//   - rows are ordered by clicks descending, then by key ascending. Rows grouped by date or hour, alone or with others, are
//     ordered by day or hour first;
//   - when grouped by date alone, every day of the clamped range has a row, with zeros where nothing matched, unless the site's
//     Publication omits such rows. Hours without data have no row;
//   - a grouping yields at most 50,000 rows for one day, truncated by clicks;
//   - the index state of a page is a function of (Seed, Site, page, Pacific day). A plainly indexed page drops out for a week or
//     two every few months, so a few pages in a hundred are out at any time and some change every day. Other pages,
//     and the home page, never change. No page was crawled in the future.
//
// # The sites' own servers
//
// A GET whose host and path are those of a sitemap returns the file. The index names the other files, each of which lists about
// half of the pages. Web returns the same files without a network, so the sites need no DNS names. Pages that are "Indexed, not
// submitted in sitemap" are in no file. One in twenty addresses in the files is not a page yet, so its state is "URL is unknown to
// Google". The API's submitted counts match the files. The files of a site with more than about 90,000 pages are longer than the
// protocol allows. These requests are not Search Console calls: they are not counted, and faults do not apply to them.
//
// # Consent
//
// A GET of /o/oauth2/v2/auth is the consent page for the Clients of the Config: a form with the accounts and the scopes, whose
// answer sends the browser to the loopback address of the request, with a code or with access_denied. The token endpoint exchanges
// a code once, within ten minutes, if the PKCE verifier matches the code's challenge. Codes and tokens carry their content, so only
// exchanged codes are stored. A request that Google's page would refuse gets the page with the error code, and no redirect.
// GET /_sim/client.json returns the file of the first client.
//
// # What it does not simulate
//
// Search types other than web, the calls that write (its tokens are read-only), and News Showcase panels. Partial responses (the
// parameter fields) exist only for search analytics queries, without wildcards; other calls ignore the parameter. Properties do not
// nest: the data of a URL-prefix property is not part of the data of the domain property around it. Coverage labels are localised only
// for German and Japanese. Of the published quotas it enforces the search analytics minute of each site and user, and the
// inspection minute and day of each site; the load quota exists only as a fault. A range of many days has all the rows of its days,
// while the real service returns less of the long tail for one long range than for its days one by one.
//
// No public source records the messages for a missing or inverted date, a row limit or start row out of range, an invalid regular
// expression, hourly data that is not grouped by hour, or an unknown sitemap, nor this API's message for an invalid field selection:
// callers must not depend on their text.
//
// # Control
//
// GET /_sim/calls returns the number of requests received; PUT /_sim/faults replaces the faults in force; PUT /_sim/published sets
// the last published day of a site. All are also methods of Server. To drop a connection, the handler panics with http.ErrAbortHandler,
// and net/http closes the connection.
//
// A Server is safe for concurrent use. It builds the world of a site and the totals of a day on first use, and keeps them; Servers
// can share them (Worlds). An answer holds its groups in memory, and at most GOMAXPROCS answers are computed at a time.
package gscsim

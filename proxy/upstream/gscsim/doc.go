// Package gscsim simulates Google Search Console on the wire: search analytics, sites, sitemaps, URL inspection and the
// OAuth token endpoint; and next to it the sitemap files on the web servers of the sites. It is the upstream of the demo, the tests and the bench, and an oracle independent of the rest of
// the project: it imports nothing of it.
//
// # What it promises
//
// Google's generated Go client cannot tell it from the real service. Paths, request fields, enum spellings, defaults,
// error envelopes, messages that are on public record, number text and the order of rows follow the real wire. The
// numbers are a pure function of (Seed, Site, day): there is no stored state, two servers with the same Config answer the
// same, and every answer is computed from the same cells (query, page, country, device, hour of one day), so all
// dimensions agree with each other:
//
//   - country rows and device rows are complete and sum to the totals; the days of a range sum to its totals;
//   - about a fifth of the traffic is anonymised: it is in totals, days, countries, devices and pages, in no row grouped
//     by query, and a filter on query drops it;
//   - byPage counts one impression for each URL, so page rows may sum to more impressions than byProperty totals;
//   - days are Pacific days. Final data ends two days before today; "all" reaches into today; hourly data spans the last
//     ten days; a range beyond what is kept is clamped without a word;
//   - rows come by clicks descending, ties by ascending keys. Grouped by date or hour (alone or with others), the days or
//     hours ascend first;
//   - grouped by date alone, every day of the clamped range has a row, of zeros where nothing matched. Hours without
//     data have none;
//   - a grouping yields at most 50,000 rows for one day, cut by clicks;
//   - the state of a page in the index is a function of (Seed, Site, page, Pacific day). A plainly indexed page drops out
//     once in some months for a week or two, so that a few pages of a hundred are out at any time and some change every
//     day; the others stay as they are, and so does the home page. No page was crawled after now.
//
// # The sites' own servers
//
// A GET whose host and path are those of a sitemap is answered with the file, the index naming the other files and each of
// these listing about a half of the pages; Web does so without a network, for the names of the sites need no DNS then.
// Pages that are "Indexed, not submitted in sitemap" are in no file, and one of twenty addresses in the files is no page
// yet, which makes it "URL is unknown to Google". What the API counts as submitted is what the files list. A site of more
// than some 90,000 pages has files longer than the protocol allows. These requests are no calls of Search Console: they are
// not counted, and faults leave them alone.
//
// # Where it decides for itself
//
// Nothing public records these, so callers must not depend on their text: the messages for a missing or inverted date, a
// row limit or start row out of range, an invalid regular expression, grouping by query in Discover and Google News, and
// a sitemap that is not there. The access granted is always webmasters.readonly, whatever was asked, so the writing
// calls (sites add and delete, sitemaps submit and delete) answer the 403 of a missing scope. The simulated sites have no
// News Showcase panels, so that aggregation is refused. Properties do not nest: the data of a URL-prefix property is not
// a part of the data of the domain property around it. Coverage labels are localised for German and Japanese only. Of the
// published quotas it keeps the per-site and per-user search analytics minute and the per-site inspection minute and day;
// the load quota exists only as a fault. The mobile-friendly test, which Google has retired, still answers as documented.
//
// # Control
//
// GET /_sim/calls counts the requests received; PUT /_sim/faults replaces the faults in force. Both are also methods of
// Server. A dropped connection is http.ErrAbortHandler, which net/http turns into a closed connection.
//
// A Server is safe for concurrent use. Worlds are built on the first use of a site and kept; an answer holds the groups
// it counts in memory and at most GOMAXPROCS answers are computed at a time.
package gscsim

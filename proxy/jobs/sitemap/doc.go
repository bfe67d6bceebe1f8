// Package sitemap reads the sitemaps of a property: it fetches the files, follows index files, and returns the URLs they list,
// in the form in which they are stored, with the files that list each of them.
//
// Attackers may choose every URL that it fetches and every byte that it receives, so it defends against SSRF and resource
// exhaustion:
//
//   - It fetches only http and https URLs on hosts of the property, on the default port or the property's own, without user
//     information. This also applies to every redirect and every file that an index names.
//   - It connects only to public addresses. The address is checked when the connection is made, after the name was resolved,
//     so DNS rebinding cannot change it between check and use. Proxy settings of the environment are ignored: a proxy would
//     connect to any address.
//   - Bytes on the wire and at each layer of decompression, of a file and of all files of a property, time, redirects, headers,
//     files, the depth of indexes and of elements, the length of one token, and what is found are all bounded. Files are read as
//     streams, one at a time and over one connection at a time; memory holds only what was found.
//
// A file that cannot be read does not affect the others. Its File has the reason as its Problem, a text for people that reveals
// nothing about the local network. Entries that the file listed before it broke off count.
//
// Files are XML (urlset and sitemapindex, in any namespace) or plain text with one URL per line, of at most 50,000 entries each. They may
// be gzipped up to twice, and be in UTF-8, UTF-16 with a byte order mark, or the character set that the XML names.
//
// Not here: which sitemaps a property has, what is done with the URLs, retries (the next Read is the retry), feeds and HTML, and
// robots.txt, which does not apply to files that their owner has submitted.
//
// A Reader and a Scope are safe for concurrent use.
package sitemap

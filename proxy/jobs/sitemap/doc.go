// Package sitemap reads the sitemaps of a property: it fetches the files, follows index files, and returns the addresses
// they list, in the form in which they are stored, with the files that list each of them.
//
// Every address it asks is chosen by strangers, and so is every byte it gets, so it is built as a border:
//
//   - It asks only http and https addresses on hosts of the property, on the scheme's port or the property's own, without
//     user information. That holds for each redirect and for each file that an index names.
//   - It connects only to public addresses. What a name resolves to is judged when the connection is made, so a name
//     cannot lead one way when it is checked and another way when it is used. No proxy of the environment is asked, for
//     it would connect wherever it likes.
//   - Bytes as sent, bytes at each layer of compression, time, redirects, headers, files, the depth of indexes and of
//     elements, and the length of one token are all bounded. Files are read as streams, one at a time and over one
//     connection at a time; what is kept is what was found.
//
// A file that cannot be read never ends the reading of the others: why it was not read is the Problem of its File, a text
// for people that tells nothing of the network this runs in. What stood in a file before it broke counts.
//
// Files are XML (urlset and sitemapindex, in any namespace) or plain text with an address a line, at most 50,000 entries
// each, gzipped up to twice, in UTF-8, UTF-16 with a byte order mark, or the character set that the XML names.
//
// What is not here: which sitemaps a property has, what becomes of the addresses, retries (a Read of another day is the
// retry), feeds and HTML, and robots.txt, which does not speak of files that their owner has submitted.
//
// A Reader and a Scope are safe for concurrent use.
package sitemap

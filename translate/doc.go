// Package translate turns API parameters into upstream queries, and upstream rows into the bytes of a response. It is pure:
// it reads no clock, its only state is memory for reuse (RowsReader, Merger, Sums, Decoder) and the seed of a KeyIndex, and its
// only I/O is on readers and writers that the caller passes. Days are arguments, and equal input gives equal bytes.
//
// Parse reads a query string into Params. Conditions expands their filters, with the brand terms and page groups that are
// configured for the property. Report.Plan returns the rows that the response needs, as upstream queries in a canonical form:
// requests that need the same rows have equal queries, so that a cache can share the rows. A RowsReader reads the
// upstream's response, and Report.AppendHead writes the API's. Rows.Encode and a Decoder turn rows into bytes and back.
//
// An error about a request is an *InputError: its text names the parameter and the reason, and may be shown to the client.
// An error about an upstream response is of another type, and must not be shown.
//
// All functions are safe for concurrent use on separate values, and on the same one where its type says so.
package translate

// Package translate turns API parameters into upstream queries, and upstream rows into the bytes of a response. It is pure:
// it reads no clock, holds no state but memory that is used again (RowsReader, Merger, Decoder), and its only I/O is to read and write what
// it is given. Days come in as arguments, and equal input gives equal bytes.
//
// Parse reads a query string into Params. Conditions expands their filters, with the brand terms and page groups that are
// configured for the property. Report.Plan returns which rows the response needs, each with the canonical form of the
// upstream query: requests that the same rows answer have equal queries, so that a cache can share them. A RowsReader reads the
// upstream's response, and Report.AppendHead writes the API's. Rows.Encode and a Decoder keep rows as bytes.
//
// An error about a request is an *InputError: its text names the parameter and the reason, and may be shown to the client.
// An error about an upstream response is of another type, and must not be shown.
//
// All functions are safe for concurrent use on separate values, and on the same one where its type says so.
package translate

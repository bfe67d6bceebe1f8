// Package translate turns API parameters into upstream queries, and upstream rows into the bytes of a response. It is pure:
// it does no I/O, reads no clock and holds no state. Days come in as arguments, and equal input gives equal bytes.
//
// Parse reads a query string into Params. Conditions expands their filters, with the brand terms and page groups that are
// configured for the property. Report.Fetches returns which rows the response needs, each with the canonical form of the
// upstream query: requests that the same rows answer have equal queries, so that a cache can share them. ReadRows reads the
// upstream's response, and Report.Head writes the API's.
//
// An error about a request is an *InputError: its text names the parameter and the reason, and may be shown to the client.
// An error about an upstream response is of another type, and must not be shown.
//
// All functions are safe for concurrent use on separate values.
package translate

// Package translate is sara's language: what a request's parameters mean, which upstream question answers them, and how
// the upstream's rows become the bytes of an answer. It is pure: no I/O, no clock, no state. Days come in as arguments,
// and the same input gives the same bytes.
//
// The way through it is: Parse reads a query string against the parameters of one endpoint into an Ask; Conditions expands
// the Ask's filters, with what the property's owner configured as brand and page groups; SeriesQuery and SampleQuery make
// the canonical upstream question, a Query; ReadRows reads what came back, and Report.Head writes the answer.
//
// Every error about a request is an *InputError, whose text names the parameter and the reason and may be shown to the
// client. An error about an upstream body is any other error, and never is.
//
// All functions are safe for concurrent use on separate values.
package translate

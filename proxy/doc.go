// Package proxy is sara's edge: it takes requests from the http, and answers them. A request passes the route table, the
// policy gate, its parameters, the property that it names, and a handler, in this order. Every answer, errors included, is
// in the API's envelope.
//
// Figures come from an answer that is ready, else from the rows that package translate says it needs: of the cache, which
// asks Search Console when it has no copy (fromupstream.go), and of the archive for the days that Search Console has forgotten
// (stored.go). When Search Console fails, unfiltered questions are answered from old copies or the archive, with the reason.
//
// What is indexed comes from the store alone, as the last inspections left it (indexing.go).
//
// One table (routes.go) drives the routing, the scopes and the served OpenAPI document, another (errorCodes) the codes that
// an error may have. Package docs makes the pages for people from both, which pages.go serves.
//
// A request has an id, which is in its answer, in its line of the access log, and in its span. Spans are made if Config.Traces
// is set (trace.go), and below a request's span package spans makes those of what it waits for; a fill of the cache has one of its
// own, in the trace of the request that started it, and whoever else waits for it is linked to it. Neither lines nor spans quote
// what a client wrote.
//
// Nothing outside this package sees a fasthttp request: whatever outlives a handler's turn is copied first. A handler runs
// on a context with a deadline of its own, which does not end when the client hangs up, because an upstream call that was
// begun has been paid for.
package proxy

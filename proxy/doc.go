// Package proxy is sara's edge: it takes requests from the wire, and answers them. A request passes the route table, the
// policy gate, its parameters, the property that it names, and a handler, in this order; a handler asks the store or
// Search Console and has package translate write the answer. Every answer, errors included, is in the API's envelope.
//
// One table (routes.go) drives the routing, the scopes and the served OpenAPI document.
//
// Nothing outside this package sees a fasthttp request: whatever outlives a handler's turn is copied first. A handler runs
// on a context with a deadline of its own, which does not end when the client hangs up, because an upstream call that was
// begun has been paid for.
package proxy

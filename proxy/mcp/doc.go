// Package mcp is the Model Context Protocol endpoint, through which agents use the API: tools that stand for REST requests, and prompts.
//
// It speaks Streamable HTTP without sessions, with JSON answers, in both forms that clients use: from 2026-07-28 on, each request says
// its version; before, a client began with initialize. Any replica answers any call. There is nothing to subscribe to, so that the
// server offers no streams.
//
// A tool call is one or several REST requests, made in process (API): they pass the same gate, budgets, cache, log, metrics and traces
// as requests over the network, and are charged alike. Listing tools is charged to nothing.
//
// The structured content of a result is the REST answer's data and meta. Its text is a short form for models that read only text: what
// matters first, then a table, then the notes. A result has at most maxResult characters. If it would have more, its lists are cut: lists
// of days keep their newest rows, all others their first ones. Both forms say how to get the rest. Errors are results too (isError), because
// models see those: with the code and the message of the REST error, and what to do next.
// What is no request that the protocol allows is refused with a JSON-RPC error under the id of the request, also where the SDK refuses in
// plain text.
package mcp

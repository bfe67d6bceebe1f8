// Package mcp is the Model Context Protocol endpoint, through which agents use the API: tools that stand for REST requests, and prompts.
//
// It uses Streamable HTTP without sessions, with JSON answers, for both kinds of clients: from protocol version 2026-07-28 on, each request
// states its version; older clients begin with initialize. Any replica answers any call. There is nothing to subscribe to, so the server
// offers no streams.
//
// A tool call makes one or several REST requests in process (API). They pass the same gate, budgets, cache, log, metrics and traces as
// requests over the network, and are charged alike. Listing tools is free.
//
// The structured content of a result is the REST answer's data and meta. Its text is a short form for models that read only text: what
// matters first, then a table, then the notes. A result has at most maxResult characters. A longer one loses rows of its lists: of days, the
// oldest; of others, those at the end. Both forms state how to get the rest. Errors are results, too (isError), because models see only
// results: with the code and the message of the REST error, which is cut at maxMessage, and what to do next.
//
// A request that violates the protocol gets a JSON-RPC error with its id, also where the SDK would refuse it in plain text.
package mcp

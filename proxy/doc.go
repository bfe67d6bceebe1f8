// Package proxy is sara's edge: the HTTP server of the public API. Every answer, errors included, is in the API's envelope.
//
// # The path of a request
//
// A test (doc_test.go) checks that the files and functions in this list exist.
//
//  1. A connection is accepted (listener.go, listener.Accept) if memory has room for it, in total and for its address; the one
//     that has waited longest makes room, one without a valid key first (connections.go, connections.admit). Those of a flood are
//     refused beside the accept loop (refusal.go, listener.refuse). Read and write deadlines bound slow clients (slowloris).
//  2. The HTTP server (server.go, Server.newEdge) calls the middleware: it refuses unknown versions of HTTP (call.go, Server.withHTTP1), adds
//     the headers of CORS (cors.go, Server.withCORS), and reads the header fields that sara uses (requestheader.go, Server.readHeader). Then
//     it looks the request up in the memo of admitted requests (memo.go, Server.memoized): for an entry that is still valid, steps 3, 5 and 6
//     are skipped. A key that the gate refuses without waiting ends the path here (endpoints.go, Server.refuseAtOnce;
//     policy/authenticate.go, Gate.RefuseAtOnce). The API reference is served here, too (pages.go, Server.withPages).
//  3. The router finds the row of the route table (routes.go, table).
//  4. The stages run (call.go, Server.answer) on a context with a deadline. First the gate checks key, plan and scope, and
//     charges the request budgets (policy/gate.go, Gate.Admit). A memoized request only charges them (policy/gate.go,
//     Gate.Readmit). The budgets are counters in Redis, which concurrent requests share round trips to
//     (policy/redisbudget.go, RedisBudget.Admit).
//  5. The parameters are parsed (translate/params.go, Parse), and the property that the path names is resolved
//     (policy/property.go, Gate.Property).
//  6. The handler runs. For a report it builds the canonical form and the cache key of the request (performance.go, serve).
//  7. A hit: the answer is in memory and fresh (proxy/cache/answer.go, Cache.Answer).
//  8. A miss: which of the property's days are known is looked up in a copy of its daily series (days.go, Server.lookUpDays;
//     proxy/cache/copy.go, Cache.AtHand), and package translate plans what to fetch (translate/report.go, Report.Plan). Days that Search
//     Console no longer has come from the archive (fromarchive.go, Server.readArchive; archive/read.go, History.Read), all others through
//     the cache (upstreamread.go, Server.readUpstream; proxy/cache/look.go, Cache.Look). The goroutine of the request reads Redis, and
//     waits for a fill, unless stored figures may answer meanwhile (step 10): then another goroutine waits (upstreamread.go,
//     upstreamRead.begin). The cache coalesces concurrent requests for the same rows into one fill, on this replica and
//     on others (proxy/cache/fill.go, Cache.fill).
//  9. A fill asks for all rows of a table that is small, as far as is known (tablesizes.go, tableSizes.enlarged). It waits for its share of
//     the memory (fills.go, fill.reserve; proxy/fillbudget/fillbudget.go, Budget.Acquire), and is refused if there is none in time. If a
//     copy of the daily series has come meanwhile that shows days of the query to be unpublished, the request is planned again (days.go,
//     Server.checkPlan). The fill goes through the gateway (fills.go, fill.ask; proxy/upstream/gateway.go, Gateway.Query), which refuses at
//     once while a circuit breaker of the property, its connection or the whole upstream is open (proxy/upstream/circuits.go,
//     circuits.allow), charges the live call (fromupstream.go, liveCallReservation.Take), and calls Search Console
//     (proxy/upstream/client.go, client.query). The rows are parsed while the body arrives (proxy/upstream/replybody.go, replyBody.Read;
//     translate/reader.go, RowsReader.Read). What works on megabytes takes turns on half of the cores (proxy/cpubound/cpubound.go,
//     Slots.Acquire).
//  10. The answer is built from the rows, or from those of a grid of days (translate/grid.go, Fetch.Read; translate/report.go,
//     Report.AppendHead), and kept in memory (performance.go, Server.buildAnswer). If the upstream failed, stale copies or the archive answer
//     instead, with the reason (stale.go, Server.fallBack). So they do while it takes longer than usual (hedge.go, hedge.delay;
//     upstreamread.go, Server.hedgedAnswer).
//  11. A client that prefers CSV or NDJSON gets the rows of the answer in that format, which is kept with the answer (accept.go,
//     acceptance.format; rendition.go, Server.render; package tabular). The answer is sent (response.go, Server.send), or the error
//     (erroranswer.go, Server.sendError). Metrics, trace and access log record it (metrics.go, Server.record).
//
// # Other answers
//
// A portfolio is the summaries of all properties of a key, each by steps 7 to 10 (portfolio.go, Server.servePortfolio).
//
// Accounts, properties and what is configured for them come from the store (account.go and properties.go), as do the results of
// the last URL inspections (indexing.go). The route table also drives the scopes and the OpenAPI document (openapi.go); one more
// table drives the error codes (errors.go). Package docs builds the API reference for people from both.
//
// # Messages of agents
//
// POST /mcp (mcp.go, mcpEndpoint.handle) takes messages of the Model Context Protocol. It refuses other hosts and origins (mcp.go,
// mcpEndpoint.checkOrigin), identifies the key without a charge (policy/gate.go, Gate.Authenticate), and hands the message to package mcp
// through the HTTP library's adaptor. Each request of a tool comes back (mcp.go, mcpEndpoint.Get) as a request of its own with the key, the
// address, the deadline and the trace of the message, and takes the path above from the memo on. It has its own line in the access log, which names the
// message, and its own charge.
//
// # Lifetimes
//
// Only this package sees a fasthttp request, and nothing of one may be used after its handler returns: what lives longer is
// copied first. The context of a request does not end when the client disconnects, because an upstream call that has begun
// is paid for. A cache fill runs on a context of its own.
//
// # Tracing
//
// The id of a request is in its answer, its access log line and its span. Spans exist if Config.Traces is set (trace.go);
// package spans makes their children. A fill has a span of its own, in the trace of the request that started it, and the spans
// of the requests that wait for it link to it. Neither logs nor spans quote text of a client.
package proxy

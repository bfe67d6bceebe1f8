// Package proxy is sara's edge: the HTTP server of the public API. Every answer, errors included, is in the API's envelope.
//
// # The path of a request
//
// A test (doc_test.go) checks that the files and functions in this list exist.
//
//  1. A connection is accepted (connection.go, listener.Accept; proxy/connections/listener.go, Listener.Accept). The number of open
//     connections is bounded: in total, by the memory, and for each client network. At a bound, the connection that has been idle longest
//     is closed to make room, preferably one without a valid key (proxy/connections/connections.go, Set.admit). If none is idle, the new
//     connection is refused outside the accept loop (proxy/connections/refusal.go, Listener.refuse). Read and write deadlines bound slow
//     clients (slowloris).
//  2. The HTTP server (network.go, Server.newEdge) calls the middleware: it refuses unknown versions of HTTP (exchange.go, Server.withHTTP1),
//     adds the headers of CORS (cors.go, Server.withCORS), and reads the header fields that sara uses (requestheader.go, headerReader.read). Then
//     it looks the request up in the memo of admitted requests (memo.go, memo.find). If there is a valid entry, steps 3, 5 and 6
//     are skipped. A request whose key the gate can refuse without waiting is answered here (endpoints.go, Server.refuseAtOnce;
//     policy/authenticate.go, Gate.RefuseAtOnce). So are requests for the API reference (pages.go, Server.withPages).
//  3. The router finds the row of the route table: an operation of the API with its handler (routes.go, table).
//  4. The stages run (stages.go, Server.answer) on a context with a deadline. First the gate checks key, plan and scope, and
//     charges the request budgets (policy/gate.go, Gate.Admit). For a memoized request, it does not look up the key
//     (policy/gate.go, Gate.Readmit). The budgets are counters in Redis, to which concurrent requests share round trips
//     (policy/redisbudget.go, RedisBudget.Admit), or in memory if there is no Redis.
//  5. The parameters are parsed (translate/params.go, Parse), and the property that the path names is resolved
//     (policy/property.go, Gate.Property).
//  6. The handler runs. For a report it builds the canonical form and the cache key of the request (performance.go, serve).
//  7. A hit: the answer is in memory and fresh (proxy/cache/answer.go, Cache.Answer).
//  8. A miss: a cached copy of the property's daily series shows which days are known (days.go, reportServer.lookUpDays;
//     proxy/cache/copy.go, Cache.AtHand), and a plan says what to fetch (plan.go, reportServer.newPlan; translate/report.go,
//     Report.Plan). Days that Search Console no longer has come from the archive (fromarchive.go, reportServer.readArchive;
//     archive/read.go, History.Read), all others through the cache (upstreamread.go, reportServer.readUpstream; proxy/cache/look.go,
//     Cache.Look). The goroutine of the request reads Redis and waits for the fill. If stored figures may answer first (step 10), another
//     goroutine waits for the fill (upstreamread.go, upstreamRead.begin). The cache coalesces concurrent requests for the
//     same rows into one fill, on this replica and on others (proxy/cache/fill.go, Cache.fill).
//  9. If the table is expected to be small, the fill asks for all of its rows (tablesizes.go, tableSizes.enlarged). It waits for its share
//     of the memory, and fails if that does not become free in time (fills.go, fill.reserve; proxy/fillbudget/fillbudget.go,
//     Budget.Acquire). If a newer copy of the daily series shows other days as published, the request is planned again
//     (plan.go, reportServer.checkPlan). The fill goes through the gateway (fills.go, fill.ask; proxy/upstream/gateway.go,
//     Gateway.ChargedQuery), which refuses at once while a circuit breaker of the property, its connection or the whole upstream is open
//     (proxy/upstream/circuits.go, circuits.allow), charges the live call (livecalls.go, liveCallReservation.Take), and calls Search
//     Console (proxy/upstream/client.go, client.query). The rows are parsed while the body arrives (proxy/upstream/replybody.go,
//     replyBody.Read; translate/reader.go, RowsReader.Read). Work on megabytes uses at most half of the cores
//     (proxy/cpubound/cpubound.go, Slots.Acquire).
//  10. The answer is built from its material (material.go): the rows, or those of a grid of days (translate/grid.go, Fetch.Read;
//     translate/report.go, Report.AppendHead). It is kept in memory (buildanswer.go, reportServer.buildAnswer). If the upstream failed,
//     stale copies or the archive answer instead, with the reason (stale.go, reportServer.fallBack). They also answer if the upstream takes
//     longer than usual (hedge.go, hedge.delay; hedge.go, reportServer.hedgedAnswer).
//  11. A client that prefers CSV or NDJSON gets the rows in that format; the converted answer is kept, too
//     (proxy/media/accept.go, Acceptance.Format; rendition.go, forms.render; package tabular). The answer is sent (response.go,
//     Server.send), or the error (erroranswer.go, errorAnswers.send). Metrics, trace and access log record it (telemetry.go, telemetry.record).
//
// # Other answers
//
// A portfolio has the summaries of all properties of a key; each takes steps 7 to 10 (portfolio.go, portfolioServer.serve).
//
// Accounts, properties and what is configured for them come from the store (account.go and properties.go), as do the results of
// the last URL inspections (indexing.go). Package openapi defines the operations, with their scopes and parameters, and the error codes. It
// generates the OpenAPI document from them, and package docs the API reference (pages.go).
//
// # Messages of agents
//
// POST /mcp (mcp.go, mcpEndpoint.handle) takes messages of the Model Context Protocol. It refuses other hosts and origins (mcp.go,
// mcpEndpoint.checkOrigin), authenticates the key without a charge (policy/gate.go, Gate.AdmitMessages), and passes the message to package
// mcp through the HTTP library's adaptor. Each API request of a tool (mcp.go, mcpEndpoint.Get) has the key, the address, the deadline and
// the trace of the message. It takes the path above, beginning with the memo, is charged by itself, and has its own line in the access
// log, which names the message.
//
// # Lifetimes
//
// Only this package sees a fasthttp request, and nothing of one may be used after its handler returns: what lives longer is
// copied first. An exchange (exchange.go) has the request; the call in it (call.go), from which reports, portfolios and the answers about
// properties are made, has none. The context of a request does not end when the client disconnects, because an upstream call that has begun
// is paid for. A cache fill runs on a context of its own.
//
// # Tracing
//
// The id of a request is in its answer, its access log line and its span. Spans exist if Config.Tracing has a provider (trace.go);
// package spans makes their children. A fill has a span of its own, in the trace of the request that started it, and the spans
// of the requests that wait for it link to it. Neither logs nor spans quote text of a client.
package proxy

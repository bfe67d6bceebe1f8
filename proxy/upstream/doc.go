// Package upstream is the gateway to Search Console: requests and background jobs reach it only through this package.
//
// A [Gateway] holds what all calls share: the HTTP clients, the access tokens, the circuit breakers, the cooldowns of sites,
// the negative cache, and the record of which connections and properties work. A [Target] names the property that a call is
// about. The package reads no proxy settings from the environment and follows no redirects.
//
// # The path of a query
//
// [Gateway.ChargedQuery] takes these steps in this order, and [Gateway.Query] all but 4 and 5. Each of the first five can refuse the
// call, and a refusal costs nothing.
//
//  1. Cooldown: a site whose quota was exhausted is not queried until its cooldown ends. Replicas share cooldowns, sealed, over Redis.
//  2. Negative cache: a property that was Forbidden within the last minute stays Forbidden, except with new credentials.
//  3. Circuit breakers: the call passes only if those of the property, its connection and the upstream all admit it.
//  4. Token: dead credentials refuse the call here rather than in step 6, after the charge.
//  5. Charge: the caller's hook. The queries of jobs are free.
//  6. Call: a token is taken from memory or refreshed, and the request is sent, with retries. It asks for a partial response: for
//     each row the keys, clicks, impressions and position, from which ctr follows. A complete response is accepted too. The rows are
//     parsed strictly while the body arrives, because they are cached and served to many.
//  7. Record: success and failure are turned into cooldowns, negative cache entries, and the health of the connection and of
//     the property. A change is written to the store and logged once.
//
// A query of a job fails if this machine's clock is more than a day ahead of Search Console's, by the Date of the answer.
//
// [Gateway.Inspect] takes steps 3 to 7, and [Gateway.Sitemaps] steps 3, 6 and 7. They have quotas of their own, so they neither
// start a cooldown nor respect one. A Forbidden inspection records nothing, because inspecting requires a full user and reading figures
// does not.
//
// # Failures
//
// A failure of the upstream is an [*Error]; its [Kind] tells the caller what to do:
//
//	Unavailable    no usable answer, retries included              try again later
//	Quota          the upstream's limit for the site               try again after RetryAfter
//	Forbidden      no access to this property                      other properties of the connection may work
//	Revoked        the credentials are dead                        connect again; nothing of the connection works
//	Misconfigured  the credentials cannot work as set up           follow Message; nothing of the connection works
//	Rejected       the upstream refuses the request itself         do not repeat it
//	Interrupted    the caller's context ended first                nothing is known about the upstream
//
// The reason and the message in the answer decide, not the status: Search Console sends 403 for an exhausted quota, a missing
// permission, a missing scope and a disabled API alike. [KindOf] returns the kind of any error. There are two other errors: that
// of the charge hook, unchanged, and [*CredentialsError] if the store could not be read.
//
// # Retries
//
// Only failures that may be transient are retried: at most three attempts, with exponential backoff and jitter, and none
// that could not begin before the caller's deadline. Queries only read, so a retry is harmless. An access token that is
// refused with 401 is replaced once within an attempt; if the new token is refused too, the connection counts as revoked.
// Refreshes of one connection's token are coalesced (singleflight).
//
// A connection for queries is reused only if nothing has arrived on it since its last answer, and that answer was not a 5xx: otherwise, a proxy
// in between that answers twice or late could give one property the figures of another. An HTTP/2 connection, used only for tokens, sites,
// sitemaps and inspections, is pinged after ten seconds of silence, and closed if no answer comes within five. After an attempt without an
// answer, no connection that is idle then is reused: the network may have lost them all.
//
// # Circuit breakers
//
// Circuit breakers stop the calls to what fails, and no others. An open one refuses calls for ten seconds as Unavailable, with the
// remaining time as RetryAfter. Then it is half-open: it admits one call as a probe, which closes it or opens it for another ten seconds.
// A call fails if it gets no answer, even with retries; a refusal by the upstream is an answer. There are three levels:
//
//	property    opens after five failures in a row
//	connection  opens after five failures in a row at three or more of its properties
//	upstream    opens when half of the last calls have failed, at properties of three or more connections; these are at most
//	            100 calls and at least 10, all within 20 seconds
//
// A call passes if all three levels admit it, and is the probe of every level that is half-open. A success closes all three, except that
// a call admitted before the property's circuit opened does not close that one. A failure counts on a level only if the circuits below it
// are closed. So until it succeeds, a property causes at most five failures on the upper levels, and its failing probes keep no upper
// level open for others. A level waits five seconds for its probe, or one second if a circuit below is open; then the next call is the
// probe. So a recovered upstream is in use again after at most 15 seconds. Circuits that are not used for five minutes close.
//
// The list of sites concerns only the upper two levels. Sitemaps and URL inspections have their own circuits on all levels, because
// jobs inspect thousands of URLs in the background: their failures must not block customers, and vice versa. Each token endpoint has a
// circuit breaker of package breaker, which counts attempts, and while it is open admits one every ten seconds; a refusal is an
// answer there too. Each process has its own circuits, and keeps only those of failing properties (at most 20,000) and connections (at most
// 5,000).
//
// # Secrets
//
// Credentials are read from the store for each token refresh, about once an hour, and dropped afterwards. Only access tokens stay
// in memory. No error contains a token, a credential or a request header: texts from servers are truncated, and every secret of the
// request is removed from them.
//
// All methods are safe for concurrent use.
package upstream

// Package upstream is the gateway to Search Console: the only way by which requests and background jobs reach it.
//
// A [Gateway] holds what all calls share: the HTTP clients, the access tokens, the circuit breakers, the cooldowns of sites,
// the negative cache and the record of which connections and properties work. A [Target] names the property that a call is
// about. The package reads no proxy settings from the environment and follows no redirects.
//
// # The path of a query
//
// [Gateway.Query] takes these steps, in this order. Each of the first five can refuse the call, and a refusal costs nothing.
//
//  1. Cooldown: a site whose quota was exhausted is not queried until its cooldown ends. Replicas share cooldowns, sealed, over Redis.
//  2. Negative cache: a property that was Forbidden within the last minute stays Forbidden.
//  3. Circuit breakers: those of the property, its connection and the upstream admit the call, or it is refused.
//  4. Token, if the call is charged for: a dead one refuses now rather than in step 6, because by then the charge is made.
//  5. Charge: the hook of the caller. Jobs pass nil; their calls are free.
//  6. Call: a token is taken from memory or refreshed, and the request is sent, with retries. It asks for a partial response: of
//     each row the keys, clicks, impressions and position, from which ctr follows. A whole response is read as well. The rows are
//     read while the body arrives, strictly, because they are cached and served to many.
//  7. Record: success and failure are turned into cooldowns, negative cache entries and the health of the connection and of
//     the property. A change is written to the store and logged once.
//
// [Gateway.Inspect] takes steps 3 to 7, and [Gateway.Sitemaps] steps 3, 6 and 7. They have quotas of their own, so they neither
// start a cooldown nor respect one. A Forbidden inspection records nothing: inspecting requires a full user, reading figures does not.
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
// permission, a missing scope and a disabled API alike. [KindOf] reads the kind of any error. There are two other errors: that
// of the charge hook, as it is, and [*CredentialsError], when the store could not be read.
//
// # Retries
//
// Only failures that may be transient are retried: three attempts in all, with exponential backoff and jitter, and no attempt
// that could not begin before the caller's deadline. Queries only read, so a retry is harmless. An access token that is
// refused with 401 is replaced once inside an attempt; if the fresh one is refused as well, the connection counts as revoked.
// Refreshes of one connection's token are coalesced (singleflight).
//
// A network connection is used again only if nothing has arrived on it since its last answer, and that was no 5xx: a proxy in between
// that answers twice, or late, must not give one property the figures of another.
//
// # Circuit breakers
//
// A circuit breaker leaves alone what fails, and nothing else. For ten seconds it refuses calls as Unavailable, with the remaining
// time as RetryAfter. Then it is half-open: it admits one call as a probe, which closes it or opens it for another ten seconds.
// Only calls without an answer are failures, retries included; a refusal is an answer. There are three levels:
//
//	property    opens after five failures in a row
//	connection  opens after five failures in a row at three or more of its properties
//	upstream    opens when half of the last calls have failed, at properties of three or more connections; these are at most
//	            100 calls and at least 10, all within 20 seconds
//
// A call passes if all three levels admit it, and is the probe of every one that is half-open. A success closes all three. A
// failure counts on a level only if the circuits below it are closed. So a property counts at most five failures on the upper
// levels until it succeeds, its failing probe keeps no upper level open, and others go on. A probe that does not end is waited
// for during five seconds, one second on the levels above an open circuit. Then the next call is the probe. So a recovered
// upstream is in use again after at most 15 seconds. Circuits that are not used for five minutes close.
//
// The list of sites concerns no property, only the upper levels. Sitemaps and URL inspections have circuits of their own on all
// levels, because jobs inspect thousands of URLs in the background: their failures must not block customers, nor the other way
// round. So has each token endpoint, one level, which counts attempts. Each process has its own circuits: at most 20,000 of
// properties and 5,000 of connections, for those that fail.
//
// # Secrets
//
// Credentials are read from the store for each token refresh, about once an hour, and dropped after it. Only access tokens stay
// in memory. No error holds a token, a credential or a request header: texts of servers are truncated and cleaned of every
// secret that the request carried.
//
// All methods are safe for concurrent use.
package upstream

// Package upstream is the Search Console client: one question in, the whole JSON answer or a typed error out.
//
// A [Client] holds what calls share: a connection pool, the access tokens, the retry rules and the metrics. Whose eyes a
// call uses comes with every call as an [Account]. The hot path, [Client.SearchAnalytics], moves bytes and decodes
// nothing; the cold path, [Client.Sites], [Client.Sitemaps] and [Client.Inspect], goes through Google's generated client.
// Both share tokens, retries and error classification.
//
// Proxy settings in the environment are not read, and redirects are not followed.
//
// It is not a cache or a rate limiter: those belong to the caller, who learns from [Error] what to do. It knows nothing of
// properties, plans or HTTP handlers, and it does not log.
//
// # Failure
//
// Every failure of the upstream is an [*Error] with a [Kind] decided by the reason and the message in the answer, because
// Search Console uses 403 for an exhausted quota, a missing permission, a missing scope and a disabled API alike. The only
// other error is the one that [Account.Credentials] itself returned, wrapped.
//
// Only trouble that a moment may cure ([Unavailable]) is tried again, three attempts in all, with a jittered pause that
// never ends after the caller's deadline. A query only reads, so sending it twice is harmless. An access token that the
// upstream refuses (401) is replaced once inside an attempt; when the fresh one is refused too, the connection counts as
// revoked.
//
// A host that fails five calls in a row, retries and all, is left alone for ten seconds: calls fail at once as Unavailable
// with the rest of that time as RetryAfter. Then one call is let through, and its success ends it. This goes for Search
// Console and for each token endpoint by itself. Sitemaps and inspections, which run by the thousand in the background,
// are left alone by themselves: however they fail, customers' questions go out, and the other way round. Only a host that
// does not answer has failed; a refusal is an answer.
//
// # Secrets
//
// Credentials are asked for at each token refresh (about once an hour) and dropped after it; only access tokens stay in
// memory. No error text holds a token, a credential or a request header: texts that come from a server are cleaned of
// every secret the request carried and shortened.
//
// All methods are safe for concurrent use.
package upstream

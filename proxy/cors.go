package proxy

import (
	"bytes"
	"slices"

	"github.com/valyala/fasthttp"
)

// AnyOrigin lets the pages of every origin read the API.
const AnyOrigin = "*"

// A sharing decides which origins' pages may read the API in a browser (CORS, in the Fetch standard). It says nothing about
// credentials: a page sends its key in the Authorization header, which the browser does not add by itself.
type sharing struct {
	any     bool
	origins []string
}

func newSharing(origins []string) sharing {
	return sharing{any: slices.Contains(origins, AnyOrigin), origins: origins}
}

// isOff reports whether no origin is configured.
func (s sharing) isOff() bool { return len(s.origins) == 0 }

// allowed returns the value of Access-Control-Allow-Origin for an origin; empty: it may not read answers.
func (s sharing) allowed(origin []byte) string {
	if s.any {
		return AnyOrigin
	}
	for _, known := range s.origins {
		if string(origin) == known {
			return known
		}
	}
	return ""
}

const headerAllowOrigin = "Access-Control-Allow-Origin"

// Lists of CORS headers. All but the last one answer a preflight, of the REST API or of the endpoint of agents; the last one is what a script
// may read besides the usual fields.
const (
	sharedFields  = "Authorization, Accept, Cache-Control, If-None-Match"
	agentMethods  = "POST"
	agentFields   = "Authorization, Accept, Content-Type, MCP-Protocol-Version, Mcp-Method, Mcp-Name"
	exposedFields = "X-Request-Id, X-Cache, ETag, Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, " +
		"X-Source, X-Stale-Reason, X-Truncated-By, X-Has-More, X-Date-Range, X-Note"
	// preflightAge is how many seconds a browser may keep the answer to a preflight. Browsers keep it for two hours at most.
	preflightAge = "7200"
)

// withCORS is the middleware that answers preflights, and lets pages of the configured origins read all other answers of the API, errors
// too. There is none if no origin is configured.
func (s *Server) withCORS(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	if s.sharing.isOff() {
		return next
	}
	preflights := &route{Path: "preflight", Open: true}
	return func(http *fasthttp.RequestCtx) {
		origin := s.sharing.originOf(http)
		if origin == "" || !isPreflight(http) {
			next(http)
			s.sharing.share(http)
			return
		}
		x := s.newExchange(preflights, http)
		http.SetStatusCode(fasthttp.StatusNoContent)
		header := x.commonHeader()
		setHeader(header, "X-Cache", cacheBypass)
		x.allowance().set(header)
		setHeader(header, fasthttp.HeaderVary, fasthttp.HeaderOrigin)
		setHeader(header, headerAllowOrigin, origin)
		methods, fields := sharedAt(http.RequestURI())
		setHeader(header, "Access-Control-Allow-Methods", methods)
		setHeader(header, "Access-Control-Allow-Headers", fields)
		setHeader(header, "Access-Control-Max-Age", preflightAge)
		s.telemetry.record(x, nil)
	}
}

func isPreflight(http *fasthttp.RequestCtx) bool {
	return http.IsOptions() && len(http.Request.Header.Peek(fasthttp.HeaderAccessControlRequestMethod)) > 0
}

// sharedAt returns which methods and fields pages of other origins may use at a URI: those of the API, none for its reference.
func sharedAt(uri []byte) (methods, fields string) {
	if bytes.HasPrefix(uri, []byte("/v1/")) {
		return readMethods, sharedFields
	}
	if path, _, _ := bytes.Cut(uri, []byte("?")); string(path) == pathMCP {
		return agentMethods, agentFields
	}
	return "", ""
}

// isShared reports whether pages of other origins may read what is at a URI.
func isShared(uri []byte) bool {
	methods, _ := sharedAt(uri)
	return methods != ""
}

// originOf returns the origin that may read the answer to a request, as Access-Control-Allow-Origin has it; empty: none.
func (s sharing) originOf(http *fasthttp.RequestCtx) string {
	origin := http.Request.Header.Peek(fasthttp.HeaderOrigin)
	if len(origin) == 0 || !isShared(http.RequestURI()) {
		return ""
	}
	return s.allowed(origin)
}

// share lets the page that has sent a request read its answer. An answer without an origin differs from one with it, so it varies by it.
func (s sharing) share(http *fasthttp.RequestCtx) {
	if s.isOff() || !isShared(http.RequestURI()) {
		return
	}
	header := &http.Response.Header
	var buffer [128]byte
	vary := append(buffer[:0], header.Peek(fasthttp.HeaderVary)...)
	if len(vary) > 0 {
		vary = append(vary, ", "...)
	}
	header.SetCanonical([]byte(fasthttp.HeaderVary), append(vary, fasthttp.HeaderOrigin...))
	if origin := s.originOf(http); origin != "" {
		setHeader(header, headerAllowOrigin, origin)
		setHeader(header, "Access-Control-Expose-Headers", exposedFields)
	}
}

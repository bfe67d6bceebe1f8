package proxy

import (
	"bytes"
	"log/slog"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/valyala/fasthttp"

	"sara/policy"
	"sara/proxy/media"
)

// requestHeader holds the header fields that sara uses. They are collected in one pass, because each lookup through the HTTP
// library walks the whole header. The bytes belong to the request.
type requestHeader struct {
	at time.Time // when the header was read: the start of the request

	authorizations int          // how many Authorization fields there are
	authorization  []byte       // the last one
	keyHash        policy.Hash  // of the key in it; zero: there is none, or several fields
	forwarded      []byte       // the last line of the trusted proxy's field; nil: none
	conditional    bool         // there is an If-None-Match
	noCache        bool         // Cache-Control: no-cache (RFC 9111)
	gzip           bool         // the client accepts gzip (RFC 9110, Accept-Encoding)
	gzipNamed      bool         // gzip was named, so a wildcard no longer counts
	format         media.Format // that the client prefers, if the answer has rows
}

// A headerReader reads the header of requests.
type headerReader struct {
	now func() time.Time
	log *slog.Logger

	// forwardedBy is the normalized name of the trusted proxy's header; empty: there is no such proxy.
	forwardedBy  string
	noticedProxy atomic.Bool // X-Forwarded-For arrived although there is no such proxy
}

func newHeaderReader(trustedProxyHeader string, now func() time.Time, log *slog.Logger) *headerReader {
	return &headerReader{now: now, log: log, forwardedBy: string(fasthttp.AppendNormalizedHeaderKey(nil, trustedProxyHeader))}
}

func (r *headerReader) read(http *fasthttp.RequestCtx) requestHeader {
	h := requestHeader{at: r.now()}
	var accepted media.Acceptance
	for name, line := range http.Request.Header.All() {
		switch string(name) {
		case fasthttp.HeaderAuthorization:
			h.authorization = line
			h.authorizations++
		case fasthttp.HeaderIfNoneMatch:
			h.conditional = true
		case fasthttp.HeaderCacheControl:
			h.readCacheControl(line)
		case fasthttp.HeaderAcceptEncoding:
			h.readAcceptEncoding(line)
		case fasthttp.HeaderAccept:
			accepted.Read(line)
		case fasthttp.HeaderXForwardedFor:
			r.noticeProxy()
		}
		if r.forwardedBy != "" && string(name) == r.forwardedBy {
			h.forwarded = line
		}
	}
	h.format = accepted.Format()
	h.keyHash = connectionOf(http).hashKey(h.credentials())
	return h
}

// noticeProxy warns once of a proxy in front that is not configured: all of its clients share one address.
func (r *headerReader) noticeProxy() {
	if r.forwardedBy == "" && !r.noticedProxy.Load() && r.noticedProxy.CompareAndSwap(false, true) {
		r.log.Warn("a request came through a proxy: set SARA_TRUSTED_PROXY_HEADER to the header in which it sends the client's address, " +
			"or all clients behind it share the limits of one address")
	}
}

func (h *requestHeader) readCacheControl(line []byte) {
	for directive := range bytes.SplitSeq(line, []byte(",")) {
		if bytes.EqualFold(bytes.TrimSpace(directive), []byte("no-cache")) {
			h.noCache = true
		}
	}
}

func (h *requestHeader) readAcceptEncoding(line []byte) {
	for member := range bytes.SplitSeq(line, []byte(",")) {
		coding, weight, _ := bytes.Cut(member, []byte(";"))
		name := bytes.TrimSpace(coding)
		named := bytes.EqualFold(name, []byte("gzip")) || bytes.EqualFold(name, []byte("x-gzip"))
		if h.gzipNamed || !named && string(name) != "*" {
			continue
		}
		h.gzip, h.gzipNamed = !isZero(weight), named
	}
}

// isZero reports whether a weight such as q=0.0 means "not acceptable".
func isZero(weight []byte) bool {
	_, number, found := bytes.Cut(weight, []byte("="))
	return found && len(bytes.Trim(bytes.TrimSpace(number), "0.")) == 0
}

// credentials returns the value of the Authorization field, empty unless there is exactly one: two would be ambiguous. The
// string shares the request's bytes.
func (h *requestHeader) credentials() string {
	if h.authorizations != 1 {
		return ""
	}
	return unsafe.String(unsafe.SliceData(h.authorization), len(h.authorization))
}

// client returns the client's address: as the trusted proxy reports it, else that of the connection. Of a list of addresses
// only the last was added by the proxy itself; the client can forge all others.
func (h *requestHeader) client(http *fasthttp.RequestCtx) string {
	if last := bytes.TrimSpace(h.forwarded[bytes.LastIndexByte(h.forwarded, ',')+1:]); len(last) > 0 {
		return string(last)
	}
	return connectionOf(http).Address
}

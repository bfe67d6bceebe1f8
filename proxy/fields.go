package proxy

import (
	"bytes"
	"time"
	"unsafe"

	"github.com/valyala/fasthttp"
)

// fields are what sara reads of a request's header, found in one walk through it: the HTTP library takes one for each field
// that it is asked for. Their bytes are the request's.
type fields struct {
	at time.Time // when they were read, which a request counts as begun

	authorizations int
	authorization  []byte // the last one
	forwarded      []byte // the last line of the field that the trusted proxy writes; nil: there is none
	conditional    bool   // there is an If-None-Match
	live           bool   // the client will have no copy (RFC 9111, no-cache)
	gzip           bool   // the client accepts it (RFC 9110, Accept-Encoding)
	gzipNamed      bool   // which was said of gzip itself
}

// fieldsOf reads the fields of a request.
func (s *Server) fieldsOf(wire *fasthttp.RequestCtx) fields {
	f := fields{at: s.config.Now()}
	for name, line := range wire.Request.Header.All() {
		switch string(name) {
		case fasthttp.HeaderAuthorization:
			f.authorization = line
			f.authorizations++
		case fasthttp.HeaderIfNoneMatch:
			f.conditional = true
		case fasthttp.HeaderCacheControl:
			f.readCacheControl(line)
		case fasthttp.HeaderAcceptEncoding:
			f.readAcceptEncoding(line)
		}
		if s.forwardedBy != "" && string(name) == s.forwardedBy {
			f.forwarded = line
		}
	}
	return f
}

func (f *fields) readCacheControl(line []byte) {
	for directive := range bytes.SplitSeq(line, []byte(",")) {
		if bytes.EqualFold(bytes.TrimSpace(directive), []byte("no-cache")) {
			f.live = true
		}
	}
}

func (f *fields) readAcceptEncoding(line []byte) {
	for member := range bytes.SplitSeq(line, []byte(",")) {
		coding, weight, _ := bytes.Cut(member, []byte(";"))
		name := bytes.TrimSpace(coding)
		named := bytes.EqualFold(name, []byte("gzip")) || bytes.EqualFold(name, []byte("x-gzip"))
		if f.gzipNamed || !named && string(name) != "*" {
			continue
		}
		f.gzip, f.gzipNamed = !isZero(weight), named
	}
}

// isZero reports whether a weight such as q=0.0 refuses.
func isZero(weight []byte) bool {
	_, number, found := bytes.Cut(weight, []byte("="))
	return found && len(bytes.Trim(bytes.TrimSpace(number), "0.")) == 0
}

// key returns the Authorization field, for as long as the request's bytes live; of two there is no telling which one is
// meant, so they are none.
func (f *fields) key() string {
	if f.authorizations != 1 {
		return ""
	}
	return unsafe.String(unsafe.SliceData(f.authorization), len(f.authorization))
}

// client is the address that the trusted proxy in front saw, or the connection's own peer without one. Of a list of
// addresses, on one line or on several, the last is the one that the proxy itself has added; the others are the client's
// word.
func (f *fields) client(wire *fasthttp.RequestCtx) string {
	if last := bytes.TrimSpace(f.forwarded[bytes.LastIndexByte(f.forwarded, ',')+1:]); len(last) > 0 {
		return string(last)
	}
	return wire.Conn().(*connection).address // as the listener makes them all
}

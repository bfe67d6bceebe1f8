package proxy

import (
	"bytes"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"sara/policy/lru"
)

// An errorForm is what the answer with an error depends on, except for the id of the request.
type errorForm struct {
	route         *route
	status        int
	code, message string
	retryAfter    int64 // seconds; 0: there is no such header
	allowance     allowance
}

// formOf returns the form of the answer with an error to a request.
func (x *exchange) formOf(e *apiError) errorForm {
	f := errorForm{route: x.route, status: e.httpStatus(), code: e.code, message: e.message,
		retryAfter: int64((e.retryAfter + time.Second - 1) / time.Second), allowance: x.allowance()}
	if e.limit > 0 {
		f.allowance = allowance{limit: e.limit, reset: x.allowanceTime().Add(e.retryAfter + time.Second - 1).Unix()}
	}
	return f
}

// isRepeated reports whether many requests get the answer of a form within a second: those of refused clients that do not stop, or guesses
// from many addresses.
func (f *errorForm) isRepeated() bool {
	return f.status == fasthttp.StatusUnauthorized || f.status == fasthttp.StatusTooManyRequests
}

// maxRepeatedErrors bounds the answers that are kept, of about a kilobyte each. Those that wait for a limit have a new form each second.
const maxRepeatedErrors = 1 << 10

// A repeatedError is the answer of a form, kept for further requests: copying it costs a fraction of writing it piece by piece.
type repeatedError struct {
	header        fasthttp.ResponseHeader
	before, after []byte // the body around the id of the request
}

// errorAnswers answer requests with errors. They are safe for concurrent use.
type errorAnswers struct {
	docsURL  string
	repeated *lru.Cache[errorForm, *repeatedError]
}

func newErrorAnswers(docsURL string) *errorAnswers {
	return &errorAnswers{docsURL, lru.New[errorForm](lru.Config[*repeatedError]{Weight: maxRepeatedErrors})}
}

// repeatable returns the answer that was just written, for further requests.
func (x *exchange) repeatable() *repeatedError {
	r := new(repeatedError)
	x.http.Response.Header.CopyTo(&r.header)
	before, after, _ := bytes.Cut(x.http.Response.Body(), []byte(x.id))
	r.before, r.after = bytes.Clone(before), bytes.Clone(after)
	return r
}

// repeat writes a kept answer to another request.
func (x *exchange) repeat(r *repeatedError) {
	response := &x.http.Response
	r.header.CopyTo(&response.Header)
	setHeader(&response.Header, "X-Request-Id", x.id)
	body := append(append(x.scratch[:0], r.before...), x.id...)
	response.SetBodyRaw(append(body, r.after...))
}

// send answers a request with an error.
func (a *errorAnswers) send(x *exchange, e *apiError) {
	form := x.formOf(e)
	if !form.isRepeated() {
		a.write(x, e, &form)
		return
	}
	if kept, ok := a.repeated.Get(form); ok {
		x.repeat(kept)
		return
	}
	a.write(x, e, &form)
	a.repeated.Put(form, x.repeatable())
}

// write writes the answer with an error piece by piece.
func (a *errorAnswers) write(x *exchange, e *apiError, form *errorForm) {
	header := &x.http.Response.Header
	x.setHeaders(cacheBypass, noStore, form.allowance)
	x.http.SetStatusCode(form.status)
	switch form.status {
	case fasthttp.StatusUnauthorized:
		header.Set(fasthttp.HeaderWWWAuthenticate, "Bearer")
	case fasthttp.StatusMethodNotAllowed:
		header.Set(fasthttp.HeaderAllow, e.allow)
	}
	if form.retryAfter > 0 {
		header.Set(fasthttp.HeaderRetryAfter, strconv.FormatInt(form.retryAfter, 10))
	}
	x.http.Response.SetBodyRaw(appendError(x.scratch[:0], e, x.id, a.docsURL)) // most fit
}

// appendError appends the error envelope.
func appendError(dst []byte, e *apiError, requestID, docsURL string) []byte {
	body := append(dst, `{"success":false,"error":{"code":`...)
	body = appendText(body, e.code)
	body = appendText(append(body, `,"message":`...), e.message)
	body = appendText(append(body, `,"request_id":`...), requestID)
	body = appendText(append(body, `,"docs_url":`...), docsURL)
	return append(body, "}}"...)
}

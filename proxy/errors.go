package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"sara/policy"
	"sara/proxy/cache"
	"sara/proxy/fillbudget"
	"sara/proxy/mcp"
	"sara/proxy/upstream"
	"sara/translate"
)

// The codes of the edge; packages policy and translate define the others (spec: Errors).
const (
	codeMethodNotAllowed    = "METHOD_NOT_ALLOWED"
	codeTooLarge            = "REQUEST_TOO_LARGE"
	codeInternal            = "INTERNAL_ERROR"
	codeFilteredUnavailable = "FILTERED_DATA_UNAVAILABLE"
	codeUpstreamUnavailable = "UPSTREAM_UNAVAILABLE"
	codeServiceUnavailable  = "SERVICE_UNAVAILABLE"
)

// An apiError is an error as the client sees it. Only the log shows its cause.
type apiError struct {
	code       string
	status     int // 0: that of the code
	message    string
	retryAfter time.Duration // zero: retrying will not help
	limit      int           // the limit that was exceeded; zero: none
	allow      string        // the methods that a 405 names
	cause      error
}

func (e *apiError) Error() string {
	if e.cause == nil {
		return e.message
	}
	return e.message + ": " + e.cause.Error()
}

func (e *apiError) Unwrap() error { return e.cause }

// httpStatus returns the status of the answer.
func (e *apiError) httpStatus() int { return cmp.Or(e.status, statusOf(e.code)) }

// A storeError is a failure of our own store.
type storeError struct{ error }

func (e storeError) Unwrap() error { return e.error }

// asGateError marks an error of the gate, which may be nil, as a failure of the store, unless it is a denial.
func asGateError(err error) error {
	if err == nil || isDenied(err) {
		return err
	}
	return storeError{err}
}

// storeRetry is the Retry-After of a store failure, whose end is unknown.
const storeRetry = 5 * time.Second

// apiErrorOf is the one table from errors to client errors. An unknown error is internal: the client sees only the request id.
// No error is none.
func apiErrorOf(err error) *apiError {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*apiError](err); ok {
		return known
	}
	if denial, ok := errors.AsType[*policy.Denial](err); ok {
		denied := apiErrorOfDenial(denial)
		return &denied
	}
	if input, ok := errors.AsType[*translate.InputError](err); ok {
		return &apiError{code: input.Code, message: input.Message}
	}
	if refused, ok := errors.AsType[*fillbudget.RefusedError](err); ok {
		return &apiError{code: codeServiceUnavailable, retryAfter: refused.RetryAfter, message: reasonBusy, cause: err}
	}
	if _, ofStore := errors.AsType[storeError](err); ofStore || errors.Is(err, context.DeadlineExceeded) {
		return &apiError{code: codeServiceUnavailable, retryAfter: storeRetry, message: "the service cannot look up what it needs right now", cause: err}
	}
	return &apiError{code: codeInternal, message: "something went wrong on our side; quote the request id when you report it", cause: err}
}

func apiErrorOfDenial(d *policy.Denial) apiError {
	return apiError{code: d.Code, message: d.Message, retryAfter: d.RetryAfter, limit: d.Limit}
}

// errorCodes lists every code that an error may have (spec: Errors), in the order of the documentation.
func errorCodes() []string {
	return []string{
		translate.CodeValidation, translate.CodeDateRangeTooOld, translate.CodeUnsupportedParameter, policy.CodePropertyAmbiguous,
		policy.CodeInvalidKey, policy.CodeRevokedKey, policy.CodeExpiredKey, policy.CodeAddress, codeOrigin, policy.CodeNoAccess, policy.CodeScope,
		policy.CodeNotFound, codeMethodNotAllowed, codeTooLarge,
		policy.CodeRateLimited, policy.CodeQuotaExceeded, policy.CodeUpstreamQuota,
		codeInternal, codeFilteredUnavailable, codeUpstreamUnavailable, codeServiceUnavailable,
	}
}

// statusOf is the one table from codes to statuses. Only malformed HTTP is answered with others: they are in apiError.status
// (sendMalformed).
func statusOf(code string) int {
	switch code {
	case translate.CodeValidation, translate.CodeUnsupportedParameter, translate.CodeDateRangeTooOld, policy.CodePropertyAmbiguous:
		return fasthttp.StatusBadRequest
	case policy.CodeInvalidKey, policy.CodeRevokedKey, policy.CodeExpiredKey:
		return fasthttp.StatusUnauthorized
	case policy.CodeAddress, codeOrigin, policy.CodeNoAccess, policy.CodeScope:
		return fasthttp.StatusForbidden
	case policy.CodeNotFound:
		return fasthttp.StatusNotFound
	case codeMethodNotAllowed:
		return fasthttp.StatusMethodNotAllowed
	case codeTooLarge:
		return fasthttp.StatusRequestURITooLong
	case policy.CodeRateLimited, policy.CodeQuotaExceeded, policy.CodeUpstreamQuota:
		return fasthttp.StatusTooManyRequests
	case codeFilteredUnavailable, codeUpstreamUnavailable, codeServiceUnavailable:
		return fasthttp.StatusServiceUnavailable
	}
	return fasthttp.StatusInternalServerError
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

// frontDoor serves the root, which people try first: it points to the API reference.
func frontDoor(s *Server, _ context.Context, _ *call) (reply, error) {
	return s.root, nil
}

// unknownPath serves requests for which the router finds no endpoint.
func unknownPath(*Server, context.Context, *call) (reply, error) {
	return reply{}, &apiError{code: policy.CodeNotFound,
		message: "there is nothing at this path; a property's own URL has to be percent-encoded as one path segment"}
}

// readMethods are the methods of all paths but pathMCP.
const readMethods = "GET, HEAD"

// wrongMethod returns a handler of requests with another method than those allowed. The message ends with how requests are sent.
func wrongMethod(allowed, how string) handler {
	return func(_ *Server, _ context.Context, c *call) (reply, error) {
		return reply{}, &apiError{code: codeMethodNotAllowed, allow: allowed,
			message: "the method " + string(c.http.Method()) + " is not allowed: " + how}
	}
}

// pathMalformed is the path in logs of what cannot be parsed.
const pathMalformed = "malformed"

var errVersion = errors.New("a version of HTTP other than 1.0 and 1.1")

// sendMalformed answers input that cannot be parsed as a request. The HTTP library calls it instead of the handler.
func (s *Server) sendMalformed(http *fasthttp.RequestCtx, err error) {
	e := &apiError{code: translate.CodeValidation, message: "this is not an HTTP request that can be read"}
	var interrupted interface{ Timeout() bool }
	switch {
	case errors.As(err, new(*fasthttp.ErrSmallBuffer)):
		e = &apiError{code: codeTooLarge, status: fasthttp.StatusRequestHeaderFieldsTooLarge,
			message: fmt.Sprintf("the URL and the headers are longer than %d bytes together", maxHeader)}
	case errors.Is(err, errVersion):
		e.message = "the request has " + errVersion.Error()
	case errors.Is(err, fasthttp.ErrBodyTooLarge), connectionOf(http).IsOverrun():
		e = &apiError{code: codeTooLarge, status: fasthttp.StatusRequestEntityTooLarge,
			message: fmt.Sprintf("no request takes a body, except messages to %s of at most %d bytes", pathMCP, mcp.MaxBody)}
	case errors.As(err, &interrupted) && interrupted.Timeout():
		e.status, e.message = fasthttp.StatusRequestTimeout, "the request took too long to arrive"
	}
	c := s.newCall(&route{Path: pathMalformed}, http)
	s.errors.send(c, e)
	s.sharing.share(http)
	s.telemetry.record(c, e)
}

// errorCodec shares the upstream's errors between the replicas whose requests wait for the same fill. An error that concerns
// one request only, such as a spent budget, is not shared.
type errorCodec struct{}

var _ cache.ErrorCodec = errorCodec{}

// Encode implements cache.ErrorCodec.
func (errorCodec) Encode(err error) ([]byte, bool) {
	failed, ok := errors.AsType[*upstream.Error](err)
	if !ok || !failed.IsShareable() {
		return nil, false
	}
	text, err := json.Marshal(failed)
	return text, err == nil
}

// Decode implements cache.ErrorCodec.
func (errorCodec) Decode(data []byte) error {
	failed := new(upstream.Error)
	if err := json.Unmarshal(data, failed); err != nil {
		return &upstream.Error{Kind: upstream.Unavailable, Message: "the call of another replica failed"}
	}
	return failed
}

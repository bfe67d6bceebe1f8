package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"sara/policy"
	"sara/proxy/cache"
	"sara/proxy/upstream"
	"sara/translate"
)

// The codes that only the edge gives; the others are those of policy and translate (spec: Errors).
const (
	codeMethodNotAllowed    = "METHOD_NOT_ALLOWED"
	codeTooLarge            = "REQUEST_TOO_LARGE"
	codeInternal            = "INTERNAL_ERROR"
	codeFilteredUnavailable = "FILTERED_DATA_UNAVAILABLE"
	codeUpstreamUnavailable = "UPSTREAM_UNAVAILABLE"
	codeServiceUnavailable  = "SERVICE_UNAVAILABLE"
)

// A failure is an error as the client sees it. What it hides, cause, is for the log.
type apiError struct {
	code       string
	status     int
	message    string
	retryAfter time.Duration // zero: there is no use in trying again
	limit      int           // of the ceiling that was reached; zero when it was none
	cause      error
}

func (f *apiError) Error() string {
	if f.cause == nil {
		return f.message
	}
	return f.message + ": " + f.cause.Error()
}

func (f *apiError) Unwrap() error { return f.cause }

// A panicError is a bug of ours that a request ran into.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.value, e.stack) }

// A storeError is that our own store could not be asked.
type storeError struct{ error }

func (e storeError) Unwrap() error { return e.error }

// asStoreError marks what the gate or the store returned as trouble of the store, unless it is a decision.
func asStoreError(err error) error {
	if _, decided := errors.AsType[*policy.Denial](err); err == nil || decided {
		return err
	}
	return storeError{err}
}

// storeRetry and the durations below are what Retry-After says of troubles whose end is not known.
const storeRetry = 5 * time.Second

// apiErrorOf is the one table from errors to what the client sees. An error that it does not know is ours, and shows nothing.
func apiErrorOf(err error) *apiError {
	var (
		known   *apiError
		denial  *policy.Denial
		input   *translate.InputError
		ofStore storeError
	)
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &denial):
		return &apiError{code: denial.Code, status: statusOf(denial.Code), message: denial.Message,
			retryAfter: denial.RetryAfter, limit: denial.Limit}
	case errors.As(err, &input):
		return &apiError{code: input.Code, status: statusOf(input.Code), message: input.Message}
	case errors.As(err, &ofStore), errors.Is(err, context.DeadlineExceeded):
		return &apiError{code: codeServiceUnavailable, status: fasthttp.StatusServiceUnavailable, retryAfter: storeRetry,
			message: "the service cannot look up what it needs right now", cause: err}
	}
	return &apiError{code: codeInternal, status: fasthttp.StatusInternalServerError,
		message: "something went wrong on our side; quote the request id when you report it", cause: err}
}

// errorCodes lists every code that an error may have (spec: Errors), in the order in which the documents show them.
func errorCodes() []string {
	return []string{
		translate.CodeValidation, translate.CodeDateRangeTooOld, translate.CodeUnsupportedParameter, policy.CodePropertyAmbiguous,
		policy.CodeInvalidKey, policy.CodeRevokedKey, policy.CodeExpiredKey, policy.CodeNoAccess, policy.CodeScope,
		policy.CodeNotFound, codeMethodNotAllowed, codeTooLarge,
		policy.CodeRateLimited, policy.CodeQuotaExceeded, policy.CodeUpstreamQuota,
		codeInternal, codeFilteredUnavailable, codeUpstreamUnavailable, codeServiceUnavailable,
	}
}

// statusOf is the one table from the codes to their statuses. Some requests that cannot be read have others (malformed).
func statusOf(code string) int {
	switch code {
	case translate.CodeValidation, translate.CodeUnsupportedParameter, translate.CodeDateRangeTooOld, policy.CodePropertyAmbiguous:
		return fasthttp.StatusBadRequest
	case policy.CodeInvalidKey, policy.CodeRevokedKey, policy.CodeExpiredKey:
		return fasthttp.StatusUnauthorized
	case policy.CodeNoAccess, policy.CodeScope:
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

// refuse answers with an error.
func (s *Server) sendError(c *call, err error) {
	f := apiErrorOf(err)
	header := &c.http.Response.Header
	s.setHeaders(c, cacheBypass, noStore)
	c.http.SetStatusCode(f.status)
	switch f.status {
	case fasthttp.StatusUnauthorized:
		header.Set(fasthttp.HeaderWWWAuthenticate, "Bearer")
	case fasthttp.StatusMethodNotAllowed:
		header.Set(fasthttp.HeaderAllow, fasthttp.MethodGet)
	}
	if f.retryAfter > 0 {
		seconds := (f.retryAfter + time.Second - 1) / time.Second
		header.Set(fasthttp.HeaderRetryAfter, strconv.FormatInt(int64(seconds), 10))
	}
	if f.limit > 0 {
		now := c.started
		if c.grant != nil && !c.grant.Usage.At.IsZero() {
			now = c.grant.Usage.At
		}
		setRateLimit(c, f.limit, 0, now.Add(f.retryAfter+time.Second-1))
	}
	c.http.Response.SetBodyRaw(errorBody(f, c.id, s.config.DocsURL))
}

func errorBody(f *apiError, requestID, docsURL string) []byte {
	var body struct {
		Success bool `json:"success"`
		Error   struct {
			Code      string `json:"code"`
			Message   string `json:"message"`
			RequestID string `json:"request_id"`
			DocsURL   string `json:"docs_url"`
		} `json:"error"`
	}
	body.Error.Code, body.Error.Message, body.Error.RequestID, body.Error.DocsURL = f.code, f.message, requestID, docsURL
	text, err := json.Marshal(body)
	if err != nil {
		panic("BUG: an error envelope of strings does not marshal: " + err.Error())
	}
	return text
}

// malformed answers what is not a request that can be read: the HTTP library calls it instead of the handler.
func (s *Server) malformed(http *fasthttp.RequestCtx, err error) {
	f := &apiError{code: translate.CodeValidation, status: fasthttp.StatusBadRequest, message: "this is not an HTTP request that can be read"}
	var small *fasthttp.ErrSmallBuffer
	var network interface{ Timeout() bool }
	switch {
	case errors.As(err, &small):
		f = &apiError{code: codeTooLarge, status: fasthttp.StatusRequestHeaderFieldsTooLarge,
			message: fmt.Sprintf("the URL and the headers are longer than %d bytes together", maxHeader)}
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		f = &apiError{code: codeTooLarge, status: fasthttp.StatusRequestEntityTooLarge, message: "no request takes a body"}
	case errors.As(err, &network) && network.Timeout():
		f.status, f.message = fasthttp.StatusRequestTimeout, "the request took too long to arrive"
	}
	c := s.newCall(&route{Path: "malformed"}, http, s.readHeader(http))
	s.sendError(c, f)
	s.record(c, f)
}

// failures has the upstream's refusals shared between the requests that wait for the same answer, on any replica. What is
// wrong with one request only, such as its budget, stays with it.
type errorCodec struct{}

var _ cache.ErrorCodec = errorCodec{}

// Encode implements cache.ErrorCodec.
func (errorCodec) Encode(err error) ([]byte, bool) {
	var trouble *upstream.Error
	if !errors.As(err, &trouble) || !trouble.IsShareable() {
		return nil, false
	}
	text, err := json.Marshal(trouble)
	return text, err == nil
}

// Decode implements cache.ErrorCodec.
func (errorCodec) Decode(data []byte) error {
	trouble := new(upstream.Error)
	if err := json.Unmarshal(data, trouble); err != nil {
		return &upstream.Error{Kind: upstream.Unavailable, Message: "another replica failed to ask it"}
	}
	return trouble
}

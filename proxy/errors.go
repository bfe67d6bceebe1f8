package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"sara/policy"
	"sara/proxy/cache"
	"sara/proxy/fillbudget"
	"sara/proxy/openapi"
	"sara/proxy/upstream"
	"sara/translate"
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
func (e *apiError) httpStatus() int { return cmp.Or(e.status, openapi.StatusOf(e.code)) }

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
		return &apiError{code: openapi.CodeServiceUnavailable, retryAfter: refused.RetryAfter, message: reasonBusy, cause: err}
	}
	if _, ofStore := errors.AsType[storeError](err); ofStore || errors.Is(err, context.DeadlineExceeded) {
		return &apiError{code: openapi.CodeServiceUnavailable, retryAfter: storeRetry, cause: err,
			message: "the service cannot look up what it needs right now"}
	}
	return &apiError{code: openapi.CodeInternal, message: "something went wrong on our side; quote the request id when you report it", cause: err}
}

func apiErrorOfDenial(d *policy.Denial) apiError {
	return apiError{code: d.Code, message: d.Message, retryAfter: d.RetryAfter, limit: d.Limit}
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

package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/valyala/fasthttp"

	"sara/archive/sqlstore"
	"sara/policy"
	"sara/proxy/openapi"
	"sara/proxy/upstream"
	"sara/translate"
)

// credentialsFailure is the error of a call whose credentials could not be read. If the secret key does not open them, it concerns
// their connection only, and stored data answer. It is not recorded as the connection's health: replicas with the right key work.
func credentialsFailure(err error) error {
	if errors.Is(err, sqlstore.ErrWrongSecretKey) || errors.Is(err, sqlstore.ErrNoSecretKey) {
		return &upstream.Error{Kind: upstream.Misconfigured, Message: err.Error()}
	}
	return storeError{err}
}

// The Retry-After of failures of the upstream.
const (
	outageRetry     = 15 * time.Second // the upstream is down or slow
	connectionRetry = time.Minute      // the account must be connected again
)

// explain turns a failure of the upstream into the client's error; other errors stay as they are.
func (c *call) explain(err error) error {
	failure := upstreamFailure(err)
	if failure == nil {
		return err
	}
	switch failure.Kind {
	case upstream.Quota:
		wait := max(failure.RetryAfter, time.Second)
		return &apiError{code: policy.CodeUpstreamQuota, retryAfter: wait, cause: failure,
			limit:   c.grant.Plan.LiveCallsPerMinutePerProperty, // the upstream's own limit is unknown
			message: reasonOf(failure) + "; " + policy.TryAgainIn(wait)}
	case upstream.Forbidden, upstream.Revoked, upstream.Misconfigured:
		return c.unavailable(connectionRetry, reasonOf(failure), failure)
	case upstream.Rejected:
		if isMalformed(failure) {
			return &translate.InputError{Code: translate.CodeValidation, Message: reasonOf(failure)}
		}
	}
	return c.unavailable(max(failure.RetryAfter, outageRetry), reasonOf(failure), failure)
}

// isMalformed reports whether the upstream refuses the question as malformed. Its other refusals, such as a 404, are about something else
// than the parameters, which sara has checked: they are failures of the upstream.
func isMalformed(failure *upstream.Error) bool {
	return failure.Kind == upstream.Rejected && failure.Status == fasthttp.StatusBadRequest
}

// unavailable is the error of a request that cannot be answered now (spec: Endpoint rules 3). A retryAfter of 0 means never.
func (c *call) unavailable(retryAfter time.Duration, message string, cause error) *apiError {
	e := &apiError{code: openapi.CodeUpstreamUnavailable, message: message, retryAfter: retryAfter, cause: cause}
	if len(c.params.Filters) > 0 {
		e.code = openapi.CodeFilteredUnavailable
		e.message = "filtered figures are only available live: " + message
	}
	return e
}

// reasonSpent returns the text in an answer from the archive that explains why no live call was made.
func reasonSpent(denial *policy.Denial) string {
	if denial.Code == policy.CodeQuotaExceeded {
		return "the account's live Search Console calls of the day are used up"
	}
	return "the property's live Search Console calls of the minute are used up"
}

// upstreamFailure returns the failure of the upstream in err, nil if err is something else. A request whose deadline passed
// while it waited for the upstream counts as interrupted.
func upstreamFailure(err error) *upstream.Error {
	failure, ok := errors.AsType[*upstream.Error](err)
	if !ok && errors.Is(err, context.DeadlineExceeded) {
		return &upstream.Error{Kind: upstream.Interrupted, Message: "no answer within the time of the request"}
	}
	return failure
}

// reasonOf returns the text in the answer that explains why there are no live figures.
func reasonOf(failure *upstream.Error) string {
	switch failure.Kind {
	case upstream.Quota:
		return "Search Console's own quota for this property is used up"
	case upstream.Forbidden:
		return "the connected account has no access to the property"
	case upstream.Revoked:
		return "the property's connection to Search Console was revoked or has expired"
	case upstream.Misconfigured:
		return "the property's connection to Search Console does not work"
	case upstream.Rejected:
		return "Search Console refuses the question: " + failure.Message
	}
	return "Search Console does not answer right now"
}

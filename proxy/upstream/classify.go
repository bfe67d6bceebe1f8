package upstream

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"sara/translate"
)

const (
	// loadCooldown is how long to wait once Google's load quota is exhausted: it is counted in ten-minute chunks,
	// and the page on usage limits says to wait fifteen.
	loadCooldown = 15 * time.Minute
	// rateCooldown outlasts the window of the per-minute quotas.
	rateCooldown = time.Minute
	// maxRetryAfter bounds a Retry-After header: the longest quota window is a day.
	maxRetryAfter = 24 * time.Hour
)

// An errorReply is an HTTP response other than 200.
type errorReply struct {
	status     int
	retryAfter string // the header, empty when absent
	body       []byte // decompressed
}

// refusal is a parsed error body. Search Console has two envelopes, {"error":{code, message, errors:[{reason}]}} and
// {"error":{code, message, status, details:[{reason}]}}; OAuth has {"error":"word","error_description"}.
type refusal struct {
	reasons []string // most specific first
	message string
}

func parseRefusal(body []byte) refusal {
	if !translate.ValidJSON(body) {
		return refusal{}
	}
	failure := gjson.GetBytes(body, "error")
	if failure.Type == gjson.String {
		return refusal{
			reasons: []string{failure.Str},
			message: gjson.GetBytes(body, "error_description").String(),
		}
	}
	r := refusal{message: failure.Get("message").String()}
	for _, path := range []string{"details.#.reason", "errors.#.reason"} {
		for _, reason := range failure.Get(path).Array() {
			r.reasons = append(r.reasons, reason.String())
		}
	}
	if status := failure.Get("status").String(); status != "" {
		r.reasons = append(r.reasons, status)
	}
	return r
}

// reason is the most specific one; empty if there is none or it is too long to be one.
func (r refusal) reason() string {
	if len(r.reasons) == 0 || len(r.reasons[0]) > 64 {
		return ""
	}
	return r.reasons[0]
}

func (r refusal) has(reasons ...string) bool {
	return slices.ContainsFunc(r.reasons, func(reason string) bool { return slices.Contains(reasons, reason) })
}

// says reports whether the message contains one of the phrases, which must be in lower case.
func (r refusal) says(phrases ...string) bool {
	message := strings.ToLower(r.message)
	return slices.ContainsFunc(phrases, func(phrase string) bool { return strings.Contains(message, phrase) })
}

// classify turns an error of the Search Console API into an Error. The reason and the message decide; the status is used only
// if they are missing. The cases of a wrong setup come before those of a quota, because Google files a disabled API
// (accessNotConfigured) under the domain of usage limits.
func classify(reply errorReply, now time.Time, secrets ...string) *Error {
	r := parseRefusal(reply.body)
	e := &Error{
		Status:     reply.status,
		Reason:     clean(r.reason(), secrets...),
		Message:    clean(r.message, secrets...),
		RetryAfter: parseRetryAfter(reply.retryAfter, now),
	}
	switch {
	case r.has("insufficientPermissions", "ACCESS_TOKEN_SCOPE_INSUFFICIENT") || r.says("insufficient authentication scope"):
		e.Kind = Misconfigured
		e.Message = "the credentials lack the scope " + scope + ": connect again and grant it"
	case r.has("accessNotConfigured", "SERVICE_DISABLED") || r.says("api has not been used in project"):
		e.Kind = Misconfigured
		e.Message = "the Search Console API is not enabled in the Google Cloud project of the credentials: " +
			"enable searchconsole.googleapis.com there, then wait a few minutes"
	case isQuota(r) || reply.status == http.StatusTooManyRequests:
		e.Kind, e.Daily = Quota, isDaily(r)
		if e.RetryAfter == 0 {
			e.RetryAfter = quotaCooldown(r)
		}
	case reply.status == http.StatusUnauthorized:
		e.Kind = Revoked
	case reply.status == http.StatusForbidden && (len(r.reasons) > 0 || r.message != ""):
		e.Kind = Forbidden
	case reply.status >= 400 && reply.status < 500 && reply.status != http.StatusForbidden && reply.status != http.StatusRequestTimeout:
		e.Kind = Rejected
	default:
		// 5xx and 408, or an answer that is not Search Console's: a redirect, or a bare 403 from a proxy in between.
		e.Kind = Unavailable
		e.transient = reply.status >= 500 || reply.status == http.StatusRequestTimeout
	}
	if e.Message == "" {
		e.Message = "answered " + strconv.Itoa(reply.status) + " without a message"
	}
	return e
}

func isQuota(r refusal) bool {
	return r.has("quotaExceeded", "rateLimitExceeded", "userRateLimitExceeded", "dailyLimitExceeded",
		"RATE_LIMIT_EXCEEDED", "RESOURCE_EXHAUSTED") || r.says("quota exceeded")
}

func isDaily(r refusal) bool { return r.says("per day") || r.has("dailyLimitExceeded") }

func quotaCooldown(r refusal) time.Duration {
	if isDaily(r) || r.says("load quota") {
		return loadCooldown
	}
	return rateCooldown
}

// classifyToken turns an error of a token endpoint into an Error. Secrets are those that the refresh sent. An answer without an
// OAuth error code did not come from a token endpoint, so it shows nothing about the credentials. An error code that is not known here
// may pass, but is an answer: the credentials of one connection do not open the circuit breaker for all. The endpoint's own text is
// only for the log.
func classifyToken(reply errorReply, now time.Time, secrets ...string) *Error {
	r := parseRefusal(reply.body)
	e := &Error{
		Status:     reply.status,
		Reason:     clean(r.reason(), secrets...),
		RetryAfter: parseRetryAfter(reply.retryAfter, now),
	}
	e.detail = describe(e, clean(r.message, secrets...))
	switch {
	case r.has("invalid_grant") && r.says("reasonable timeframe", "short-lived token"):
		e.Kind = Misconfigured
		e.Message = "the token endpoint rejects the time of the signed request: set this machine's clock"
	case r.has("invalid_grant", "invalid_client", "deleted_client", "disabled_client", "account_deleted"):
		e.Kind = Revoked
		e.Message = "the token endpoint refuses the credentials: connect again"
	case reply.status < 500 && r.has("invalid_scope", "unauthorized_client", "access_denied", "admin_policy_enforced",
		"org_internal", "invalid_request", "unsupported_grant_type"):
		e.Kind = Misconfigured
		e.Message = "the token endpoint does not serve these credentials"
	default:
		e.Kind = Unavailable
		e.transient = reply.status >= 500 || reply.status == http.StatusTooManyRequests || reply.status == http.StatusRequestTimeout
		e.refused = e.Reason != "" && !e.transient
		e.Message = "the token endpoint issued no token"
	}
	return e
}

func describe(e *Error, message string) string {
	switch {
	case message != "":
		return message
	case e.Reason != "":
		return e.Reason
	default:
		return "status " + strconv.Itoa(e.Status) + " without an OAuth error"
	}
}

// parseRetryAfter reads a Retry-After header, in seconds or as an HTTP date: at most maxRetryAfter, and 0 if it is absent, malformed
// or in the past.
func parseRetryAfter(header string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	if seconds, err := strconv.ParseUint(header, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(header); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}

package gscsim

import (
	"fmt"
	"net/http"
)

// apiError is an error answer of the API, in either of Google's envelopes: the older one of webmasters/v3 carries a list
// of reasons, the newer one of v1 only a status.
type apiError struct {
	code     int
	message  string
	reason   string // of the older envelope; none leaves the list out
	domain   string // of the reason; empty means global
	detail   string // the message next to the reason, if it differs
	location string // the request field at fault
	status   string // the canonical name
	inOld    bool   // the older envelope shows the status too
	info     *errorInfo
}

// errorInfo is the google.rpc.ErrorInfo among the details of an error.
type errorInfo struct {
	Type     string            `json:"@type"`
	Reason   string            `json:"reason"`
	Domain   string            `json:"domain"`
	Metadata map[string]string `json:"metadata"`
}

func newErrorInfo(reason string) *errorInfo {
	return &errorInfo{
		Type: "type.googleapis.com/google.rpc.ErrorInfo", Reason: reason, Domain: "googleapis.com",
		Metadata: map[string]string{"service": "searchconsole.googleapis.com"},
	}
}

type errorItem struct {
	Message      string `json:"message"`
	Domain       string `json:"domain"`
	Reason       string `json:"reason"`
	Location     string `json:"location,omitempty"`
	LocationType string `json:"locationType,omitempty"`
}

type errorBody struct {
	Error struct {
		Code    int          `json:"code"`
		Message string       `json:"message"`
		Errors  []errorItem  `json:"errors,omitempty"`
		Status  string       `json:"status,omitempty"`
		Details []*errorInfo `json:"details,omitempty"`
	} `json:"error"`
}

func writeError(w http.ResponseWriter, r *http.Request, e *apiError, modern bool) {
	var body errorBody
	body.Error.Code, body.Error.Message = e.code, e.message
	if modern || e.inOld || e.reason == "" {
		body.Error.Status = e.status
	}
	if !modern && e.reason != "" {
		item := errorItem{Message: e.message, Domain: "global", Reason: e.reason}
		if e.detail != "" {
			item.Message = e.detail
		}
		if e.domain != "" {
			item.Domain = e.domain
		}
		if e.location != "" {
			item.Location, item.LocationType = e.location, "parameter"
		}
		body.Error.Errors = []errorItem{item}
	}
	if e.info != nil {
		body.Error.Details = []*errorInfo{e.info}
	}
	writeJSON(w, r, e.code, body)
}

// invalid is the 400 for a request field.
func invalid(location, format string, args ...any) *apiError {
	return &apiError{
		code: http.StatusBadRequest, message: fmt.Sprintf(format, args...),
		reason: "invalidParameter", location: location, status: "INVALID_ARGUMENT",
	}
}

func invalidEnum(location, typeName, value string) *apiError {
	return invalid(location, "Invalid value at '%s' (%s), %s", location, typeName, quoted(value))
}

func quoted(value string) string { return string(encode(value)) }

func unauthenticated() *apiError {
	return &apiError{
		code: http.StatusUnauthorized, status: "UNAUTHENTICATED",
		message: "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid " +
			"authentication credential. See https://developers.google.com/identity/sign-in/web/devconsole-project.",
	}
}

// forbidden is the reason for a call about a site that the user has no access to.
const forbidden = "forbidden"

func forbiddenSite(siteURL string) *apiError {
	text := fmt.Sprintf("User does not have sufficient permission for site '%s'.", siteURL)
	return &apiError{
		code: http.StatusForbidden, status: "PERMISSION_DENIED", reason: forbidden, detail: text,
		message: text + " See also: https://support.google.com/webmasters/answer/2451999.",
	}
}

func forbiddenInspection() *apiError {
	return &apiError{
		code: http.StatusForbidden, status: "PERMISSION_DENIED", reason: forbidden,
		message: "You do not own this site, or the inspected URL is not part of this property.",
	}
}

func insufficientScope() *apiError {
	return &apiError{
		code: http.StatusForbidden, status: "PERMISSION_DENIED", inOld: true,
		reason: "insufficientPermissions", detail: "Insufficient Permission",
		message: "Request had insufficient authentication scopes.",
		info:    newErrorInfo("ACCESS_TOKEN_SCOPE_INSUFFICIENT"),
	}
}

func accessNotConfigured() *apiError {
	return &apiError{
		code: http.StatusForbidden, status: "PERMISSION_DENIED", inOld: true, domain: "usageLimits", reason: "accessNotConfigured",
		message: "Google Search Console API has not been used in project 100000000000 before or it is disabled. Enable it by " +
			"visiting https://console.developers.google.com/apis/api/searchconsole.googleapis.com/overview then retry.",
		info: newErrorInfo("SERVICE_DISABLED"),
	}
}

const limitsPage = "Learn about usage limits: https://developers.google.com/webmaster-tools/v3/limits."

func loadQuota() *apiError {
	return &apiError{
		code: http.StatusForbidden, status: "RESOURCE_EXHAUSTED", domain: "usageLimits", reason: "quotaExceeded",
		message: "Search Analytics load quota exceeded. " + limitsPage,
	}
}

// rateQuota is the refusal of a queries-per-minute quota. The real service has answered both 403 quotaExceeded and 429
// rateLimitExceeded; the simulator uses the first for a site and the second for a user, so callers meet both.
func rateQuota(code int, reason string) *apiError {
	return &apiError{
		code: code, status: "RESOURCE_EXHAUSTED", domain: "usageLimits", reason: reason,
		message: "Search Analytics QPS quota exceeded. " + limitsPage,
	}
}

func inspectionQuota(per string) *apiError {
	return &apiError{
		code: http.StatusTooManyRequests, status: "RESOURCE_EXHAUSTED", domain: "usageLimits", reason: "rateLimitExceeded",
		message: "Quota exceeded for sc-quota-metric 'URL inspection queries' and limit 'URL inspection queries per " + per + " per site'.",
	}
}

func backendError(code int) *apiError {
	e := &apiError{code: code, status: "UNAVAILABLE", reason: "backendError", inOld: true, message: "The service is currently unavailable."}
	if code == http.StatusInternalServerError {
		e.status, e.message = "INTERNAL", "Internal error encountered."
	}
	return e
}

func notFound(format string, args ...any) *apiError {
	return &apiError{code: http.StatusNotFound, status: "NOT_FOUND", reason: "notFound", message: fmt.Sprintf(format, args...)}
}

func notFoundURL() *apiError { return notFound("Requested entity was not found.") }

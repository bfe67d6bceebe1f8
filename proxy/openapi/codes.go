package openapi

import (
	"net/http"

	"sara/policy"
	"sara/translate"
)

// The codes of the edge; packages policy and translate define the others (spec: Errors).
const (
	CodeMethodNotAllowed    = "METHOD_NOT_ALLOWED"
	CodeTooLarge            = "REQUEST_TOO_LARGE"
	CodeInternal            = "INTERNAL_ERROR"
	CodeFilteredUnavailable = "FILTERED_DATA_UNAVAILABLE"
	CodeUpstreamUnavailable = "UPSTREAM_UNAVAILABLE"
	CodeServiceUnavailable  = "SERVICE_UNAVAILABLE"

	// CodeOrigin is that of a request that a page of another site may have sent through a person's browser.
	CodeOrigin = "ORIGIN_NOT_ALLOWED"
)

// Codes lists every code that an error may have, in the order of the documentation.
func Codes() []string {
	return []string{
		translate.CodeValidation, translate.CodeDateRangeTooOld, translate.CodeUnsupportedParameter, policy.CodePropertyAmbiguous,
		policy.CodeInvalidKey, policy.CodeRevokedKey, policy.CodeExpiredKey, policy.CodeAddress, CodeOrigin, policy.CodeNoAccess, policy.CodeScope,
		policy.CodeNotFound, CodeMethodNotAllowed, CodeTooLarge,
		policy.CodeRateLimited, policy.CodeQuotaExceeded, policy.CodeUpstreamQuota,
		CodeInternal, CodeFilteredUnavailable, CodeUpstreamUnavailable, CodeServiceUnavailable,
	}
}

// StatusOf returns the status of the errors with a code. Only malformed HTTP is answered with other statuses: see codesOf.
func StatusOf(code string) int {
	switch code {
	case translate.CodeValidation, translate.CodeUnsupportedParameter, translate.CodeDateRangeTooOld, policy.CodePropertyAmbiguous:
		return http.StatusBadRequest
	case policy.CodeInvalidKey, policy.CodeRevokedKey, policy.CodeExpiredKey:
		return http.StatusUnauthorized
	case policy.CodeAddress, CodeOrigin, policy.CodeNoAccess, policy.CodeScope:
		return http.StatusForbidden
	case policy.CodeNotFound:
		return http.StatusNotFound
	case CodeMethodNotAllowed:
		return http.StatusMethodNotAllowed
	case CodeTooLarge:
		return http.StatusRequestURITooLong
	case policy.CodeRateLimited, policy.CodeQuotaExceeded, policy.CodeUpstreamQuota:
		return http.StatusTooManyRequests
	case CodeFilteredUnavailable, CodeUpstreamUnavailable, CodeServiceUnavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

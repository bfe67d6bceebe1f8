package openapi

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"sara/policy"
	"sara/translate"
)

func errorCodeSchema() schema {
	codes := Codes()
	return text("What kind of error it is.").with("enum", codes).with("x-enum-varnames", constantNames(codes)).named("ErrorCode")
}

func errorSchema() schema {
	return object(
		member{name: "success", schema: boolean("The request was refused.").with("const", false).named("Failure")},
		member{name: "error", schema: object(
			member{name: "code", schema: errorCodeSchema()},
			member{name: "message", schema: text("The reason, for people.")},
			requestIDMember(),
			member{name: "docs_url", schema: text("The address of the API reference.").with("format", "uri")}).named("ErrorDetail")}).
		named("Error")
}

// constantNames returns the codes in camel case, for generators that would otherwise drop the word boundaries.
func constantNames(codes []string) []string {
	names := make([]string, len(codes))
	for i, code := range codes {
		for word := range strings.SplitSeq(code, "_") {
			names[i] += word[:1] + strings.ToLower(word[1:])
		}
	}
	return names
}

// errorStatuses lists the statuses of the API's errors.
func errorStatuses() []int {
	return []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong, http.StatusTooManyRequests,
		http.StatusRequestHeaderFieldsTooLarge, http.StatusInternalServerError, http.StatusServiceUnavailable}
}

// codesOf lists the codes of a status.
func codesOf(status int) []string {
	switch status {
	case http.StatusRequestTimeout: // like any other request that cannot be read
		return []string{translate.CodeValidation}
	case http.StatusRequestEntityTooLarge, http.StatusRequestHeaderFieldsTooLarge:
		return []string{CodeTooLarge}
	}
	return slices.DeleteFunc(Codes(), func(code string) bool { return StatusOf(code) != status })
}

// codesOf lists the codes of a status that the operation can answer with.
func (o *Operation) codesOf(status int) []string {
	return slices.DeleteFunc(codesOf(status), func(code string) bool {
		switch code {
		case policy.CodeInvalidKey, policy.CodeRevokedKey, policy.CodeExpiredKey, policy.CodeAddress, CodeOrigin, policy.CodeNoAccess,
			policy.CodeRateLimited, policy.CodeQuotaExceeded:
			return o.Open
		case policy.CodePropertyAmbiguous, policy.CodeNotFound:
			return !o.ofProperty()
		case policy.CodeScope:
			return o.Scope == 0
		case translate.CodeDateRangeTooOld, policy.CodeUpstreamQuota, CodeUpstreamUnavailable:
			return !o.takes("date_range")
		case CodeFilteredUnavailable:
			return !o.takes("filters")
		}
		return false
	})
}

func responseName(status int) string { return strings.ReplaceAll(http.StatusText(status), " ", "") }

// allowanceHeaders are the headers of every answer, answerHeaders those of every success.
func allowanceHeaders() []string {
	return []string{"X-Request-Id", "X-Cache", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"}
}

func answerHeaders() []string { return append(allowanceHeaders(), "ETag", "Cache-Control") }

func sharedResponses() map[string]any {
	responses := map[string]any{"NotModified": map[string]any{
		"description": "The answer is still the one whose ETag the request named in If-None-Match. It counts towards the limits as that answer does.",
		"headers":     headerReferences(answerHeaders()...),
	}}
	for _, status := range errorStatuses() {
		names := allowanceHeaders()
		switch status {
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			names = append(names, "Retry-After")
		case http.StatusUnauthorized:
			names = append(names, "WWW-Authenticate")
		case http.StatusMethodNotAllowed:
			names = append(names, "Allow")
		case http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusRequestHeaderFieldsTooLarge:
			names = []string{"X-Request-Id", "X-Cache"} // the request was not read, so its account is not known
		}
		responses[responseName(status)] = map[string]any{
			"description": "Refused with " + strings.Join(codesOf(status), ", ") + ".",
			"headers":     headerReferences(names...),
			"content":     map[string]any{"application/json": map[string]any{"schema": schema{"$ref": "#/components/schemas/Error"}}},
		}
	}
	return responses
}

func headerReferences(names ...string) map[string]any {
	references := make(map[string]any, len(names))
	for _, name := range names {
		references[name] = schema{"$ref": "#/components/headers/" + name}
	}
	return references
}

func headerDescriptions() map[string]map[string]any {
	header := func(kind, description string, example any) map[string]any {
		return map[string]any{"description": description, "required": true, "schema": schema{"type": kind}, "example": example}
	}
	headers := map[string]map[string]any{
		"X-Request-Id":          header("string", "Identifies the request.", "req_6e8b96f243eb5292ac14fe259602aeef"),
		"X-Cache":               header("string", aboutCache, "hit"),
		"X-RateLimit-Limit":     header("integer", "The daily allowance of requests, or on a 429 the limit that was reached.", 1000),
		"X-RateLimit-Remaining": header("integer", "What is left of X-RateLimit-Limit.", 988),
		"X-RateLimit-Reset":     header("integer", "When that limit resets, in Unix seconds.", 1795305600),
		"ETag":                  header("string", "A weak tag of the answer, for If-None-Match.", `W/"21f5080302379665"`),
		"Cache-Control": header("string", "How many seconds the client may keep the answer. In a request, "+
			"no-cache refreshes figures that are older than ten minutes.", "private, max-age=600"),
		"Retry-After": {"description": "Seconds to wait before asking again. A 503 without it will not pass by itself.", "required": false,
			"schema": schema{"type": "integer"}, "example": 30},
		"Allow":            header("string", "The methods that the path has.", "GET, HEAD"),
		"WWW-Authenticate": header("string", "How to authenticate.", "Bearer"),
	}
	maps.Copy(headers, metaHeaderDescriptions())
	return headers
}

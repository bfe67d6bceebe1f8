package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"sara/policy"
	"sara/translate"
)

// serveOpenAPI answers /v1/openapi.json.
func (s *Server) serveOpenAPI(context.Context, *call) (reply, error) {
	return reply{answer: s.document, word: wordBypass, maxAge: documentAge}, nil
}

// documentAge is how many seconds anybody may keep the document.
const documentAge = 300

// OpenAPI returns the description of the API in OpenAPI 3.1, made from the route table, as served at baseURL.
func OpenAPI(baseURL string) ([]byte, error) {
	paths := make(map[string]any)
	for _, r := range table() {
		paths[r.Path] = map[string]any{"get": r.describe()}
	}
	document, err := json.MarshalIndent(map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{
			"title":   "Search Analytics Read API",
			"version": "1",
			"description": "Search performance of the properties that a key can reach. Every answer is in one envelope; every date is a day " +
				"of the upstream's Pacific time, and ranges end two days before today. New members may appear inside /v1.",
		},
		"servers":  []any{map[string]any{"url": baseURL}},
		"security": []any{map[string]any{"key": []string{}}},
		"paths":    paths,
		"components": map[string]any{
			"securitySchemes": map[string]any{"key": map[string]any{
				"type": "http", "scheme": "bearer", "description": "An API key: " + "Authorization: Bearer <API_KEY>."}},
			"schemas":   map[string]any{"Error": errorSchema(), "Filter": filterSchema()},
			"headers":   headerDescriptions(),
			"responses": sharedResponses(),
		},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the OpenAPI document: %w", err)
	}
	return document, nil
}

// describe returns the operation of a route.
func (r *route) describe() map[string]any {
	statuses := []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestURITooLong,
		http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable}
	parameters := make([]any, 0, len(r.Endpoint.Params)+1)
	if strings.Contains(r.Path, "{id}") {
		statuses = append(statuses, http.StatusNotFound)
		parameters = append(parameters, map[string]any{
			"name": "id", "in": "path", "required": true, "schema": schema{"type": "string"},
			"description": "The property: its id, its full upstream string (percent-encoded), its slug, or its bare domain."})
	}
	for _, p := range r.Endpoint.Params {
		parameters = append(parameters, describeParam(p))
	}
	responses := map[string]any{"200": map[string]any{
		"description": "The answer.",
		"headers": headerReferences("X-Request-Id", "X-Cache", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset",
			"ETag", "Cache-Control"),
		"content": map[string]any{"application/json": map[string]any{"schema": object(
			member{name: "success", schema: schema{"type": "boolean", "const": true}},
			member{name: "data", schema: r.Data},
			member{name: "meta", schema: r.Meta})}},
	}}
	responses["304"] = schema{"$ref": "#/components/responses/NotModified"}
	for _, status := range statuses {
		responses[strconv.Itoa(status)] = schema{"$ref": "#/components/responses/" + responseName(status)}
	}
	operation := map[string]any{
		"operationId": r.Operation, "summary": r.Summary, "parameters": parameters, "responses": responses,
	}
	if r.Scope != 0 {
		operation["description"] = "Needs the scope " + strings.Join(r.Scope.Names(), " and ") + "."
	}
	return operation
}

func describeParam(p translate.Param) map[string]any {
	described := map[string]any{"name": p.Name, "in": "query", "description": p.Description}
	if p.Kind == translate.KindFilters {
		described["content"] = map[string]any{"application/json": map[string]any{"schema": schema{
			"type": "array", "maxItems": translate.MaxFilters, "items": schema{"$ref": "#/components/schemas/Filter"}}}}
		return described
	}
	s := schema{"type": string(p.Kind)}
	switch p.Kind {
	case translate.KindInteger:
		if p.Choices != nil {
			s["enum"] = valuesOf(p, p.Choices)
			break
		}
		s["minimum"] = p.Min
		s["maximum"] = cmp.Or(p.Max, translate.MaxInteger)
	case translate.KindDate:
		s = schema{"type": "string", "format": "date"}
	case translate.KindString:
		if p.Choices != nil {
			s["enum"] = p.Choices
		}
		if p.MaxLength > 0 {
			s["minLength"], s["maxLength"] = 1, p.MaxLength
		}
	}
	if p.Default != "" {
		s["default"] = valueOf(p, p.Default)
	}
	described["schema"] = s
	return described
}

// valueOf returns what stands for a parameter in a URL as a value of its type.
func valueOf(p translate.Param, text string) any {
	var value any
	if p.Kind == translate.KindString || json.Unmarshal([]byte(text), &value) != nil {
		return text
	}
	return value
}

func valuesOf(p translate.Param, texts []string) []any {
	values := make([]any, len(texts))
	for i, text := range texts {
		values[i] = valueOf(p, text)
	}
	return values
}

func filterSchema() schema {
	return object(
		member{name: "dimension", schema: text("What to filter by; brand and page_group mean what the property's owner configured.").
			with("enum", translate.FilterDimensions())},
		member{name: "operator", schema: text("How to compare; brand and page_group take equals, not_equals, is and is_not.").
			with("enum", translate.FilterOperators())},
		member{name: "value", schema: text("What to compare with.").with("minLength", 1).with("maxLength", 200)}).
		with("additionalProperties", false)
}

func errorSchema() schema {
	var codes []string
	for _, status := range errorStatuses() {
		codes = append(codes, codesOf(status)...)
	}
	return object(
		member{name: "success", schema: schema{"type": "boolean", "const": false}},
		member{name: "error", schema: object(
			member{name: "code", schema: text("What kind of error it is.").with("enum", codes)},
			member{name: "message", schema: text("The reason, for people.")},
			requestIDMember(),
			member{name: "docs_url", schema: text("The address of the API reference.")})})
}

// errorStatuses lists the statuses of the API's errors.
func errorStatuses() []int {
	return []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusRequestURITooLong, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable}
}

// codesOf lists the codes that come with a status.
func codesOf(status int) []string {
	switch status {
	case http.StatusBadRequest:
		return []string{translate.CodeValidation, translate.CodeDateRangeTooOld, translate.CodeUnsupportedParameter, policy.CodePropertyAmbiguous}
	case http.StatusUnauthorized:
		return []string{policy.CodeInvalidKey, policy.CodeRevokedKey, policy.CodeExpiredKey}
	case http.StatusForbidden:
		return []string{policy.CodeNoAccess, policy.CodeScope}
	case http.StatusNotFound:
		return []string{policy.CodeNotFound}
	case http.StatusMethodNotAllowed:
		return []string{codeMethodNotAllowed}
	case http.StatusRequestURITooLong:
		return []string{codeTooLarge}
	case http.StatusTooManyRequests:
		return []string{policy.CodeRateLimited, policy.CodeQuotaExceeded, policy.CodeUpstreamQuota}
	case http.StatusInternalServerError:
		return []string{codeInternal}
	case http.StatusServiceUnavailable:
		return []string{codeFilteredUnavailable, codeUpstreamUnavailable, codeServiceUnavailable}
	}
	return nil
}

func responseName(status int) string { return strings.ReplaceAll(http.StatusText(status), " ", "") }

func sharedResponses() map[string]any {
	responses := map[string]any{"NotModified": map[string]any{
		"description": "The answer is still the one whose ETag the request named in If-None-Match. It counts as a request.",
		"headers": headerReferences("X-Request-Id", "X-Cache", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset",
			"ETag", "Cache-Control"),
	}}
	for _, status := range errorStatuses() {
		names := []string{"X-Request-Id", "X-Cache", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"}
		if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
			names = append(names, "Retry-After")
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

func headerDescriptions() map[string]any {
	header := func(s schema) map[string]any { return map[string]any{"description": s["description"], "schema": s} }
	return map[string]any{
		"X-Request-Id":          header(text("Identifies the request.")),
		"X-Cache":               header(text("Whether a stored answer was served: hit, miss or bypass.")),
		"X-RateLimit-Limit":     header(whole("The daily allowance of requests, or on a 429 the ceiling that refused.")),
		"X-RateLimit-Remaining": header(whole("What is left of it.")),
		"X-RateLimit-Reset":     header(whole("When it begins anew, in Unix seconds.")),
		"ETag":                  header(text("A weak tag of the answer, for If-None-Match.")),
		"Cache-Control":         header(text("How many seconds the client may keep the answer. In a request, no-cache has the figures read live.")),
		"Retry-After":           header(whole("Seconds to wait before asking again.")),
	}
}

package proxy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"sara/policy"
	"sara/translate"
)

// serveOpenAPI answers /v1/openapi.json.
func (s *Server) serveOpenAPI(context.Context, *call) (reply, error) {
	return reply{answer: s.document, cacheStatus: cacheBypass, maxAge: documentAge}, nil
}

// documentAge is the max-age of the document in seconds.
const documentAge = 300

// OpenAPI returns the OpenAPI 3.1 document of the API at baseURL. It is generated from the route table.
func OpenAPI(baseURL string) ([]byte, error) {
	parts := make(components)
	var paths orderedObject
	for _, r := range table() {
		operation, err := r.describe(parts)
		if err != nil {
			return nil, err
		}
		paths = append(paths, orderedMember{r.Path, map[string]any{"get": operation}})
	}
	parts.place(errorSchema())
	document, err := writeJSON(map[string]any{
		"openapi":  "3.1.0",
		"info":     map[string]any{"title": "Search Analytics Read API", "version": "1", "description": introduction},
		"servers":  []any{map[string]any{"url": baseURL}},
		"tags":     groups(),
		"security": []any{map[string]any{securityScheme: []string{}}},
		"paths":    paths,
		"components": map[string]any{
			"securitySchemes": map[string]any{securityScheme: map[string]any{"type": "http", "scheme": "bearer",
				"description": "An API key, sent as `Authorization: Bearer <API_KEY>`. It reaches what the person who made it can " +
					"reach, within its scopes. The operator of the service creates keys; each is shown once."}},
			"schemas":   parts,
			"headers":   headerDescriptions(),
			"responses": sharedResponses(),
		},
	}, "  ")
	if err != nil {
		return nil, fmt.Errorf("write the OpenAPI document: %w", err)
	}
	return document, nil
}

const introduction = `Search performance and index coverage of the properties that a key can reach.

- Every endpoint is a GET. A success is ` + "`{success, data, meta}`" + `, an error ` + "`{success, error}`" + ` with a code and the request's id.
- A day is one of the upstream's Pacific time. Ranges end at the anchor, two days before today.
- Rows do not add up to the totals: the upstream withholds rare queries. That is anonymised traffic, not missing data.
- Where ` + "`meta.source`" + ` is stored or hybrid, the figures are not current.
- Every answer has the headers of the daily allowance; a 429 says in Retry-After when to come back.
- Where an answer has rows, ` + "`Accept: text/csv`" + ` returns them as CSV, and ` + "`Accept: application/x-ndjson`" + ` as one JSON object a line;
  headers then say what the meta says. All other answers, errors included, are JSON whatever Accept says.
- New members may appear inside /v1: ignore those that you do not know.
`

// An orderedObject is a JSON object whose members keep their order.
type orderedObject []orderedMember

type orderedMember struct {
	name  string
	value any
}

// MarshalJSON implements json.Marshaler.
func (o orderedObject) MarshalJSON() ([]byte, error) {
	text := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			text = append(text, ',')
		}
		value, err := writeJSON(m.value, "")
		if err != nil {
			return nil, err
		}
		text = append(append(strconv.AppendQuote(text, m.name), ':'), value...)
	}
	return append(text, '}'), nil
}

// writeJSON leaves characters as they are that only HTML needs escaped.
func writeJSON(value any, indent string) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// components are the named schemas of a document.
type components map[string]schema

// place returns a schema as it appears in the document: every named schema, the outer one included, becomes a component and is
// replaced with a reference.
func (c components) place(s schema) schema {
	placed := make(schema, len(s))
	for keyword, value := range s {
		switch value := value.(type) {
		case schema:
			placed[keyword] = c.place(value)
		case properties:
			members := make(properties, len(value))
			for name, member := range value {
				members[name] = c.place(member)
			}
			placed[keyword] = members
		case []schema:
			choices := make([]schema, len(value))
			for i, choice := range value {
				choices[i] = c.place(choice)
			}
			placed[keyword] = choices
		default:
			placed[keyword] = value
		}
	}
	name, ok := placed[nameKeyword].(string)
	if !ok {
		return placed
	}
	delete(placed, nameKeyword)
	if known, ok := c[name]; ok && !reflect.DeepEqual(known, placed) {
		panic("BUG: two schemas of the OpenAPI document are named " + name)
	}
	c[name] = placed
	return schema{"$ref": "#/components/schemas/" + name}
}

// extension is the second tag of the endpoints that other services of this API need not have.
const extension = "Extension"

func (r *route) tags() []string {
	if r.Extension {
		return []string{r.group(), extension}
	}
	return []string{r.group()}
}

// group is the first tag of a route.
func (r *route) group() string {
	switch {
	case r.Scope == policy.PropertiesRead:
		return "Properties"
	case r.Scope == policy.PerformanceRead, r.Operation == "listAnomalies":
		return "Performance"
	case r.Scope == policy.IndexingRead:
		return "Indexing"
	case r.Scope == policy.ConfigRead:
		return "Configuration"
	}
	return "Account"
}

func groups() []any {
	group := func(name, description string) any { return map[string]any{"name": name, "description": description} }
	return []any{
		group("Account", "The key, its limits and its usage."),
		group("Properties", "The sites that a key reaches, and the days with data."),
		group("Performance", "Clicks, impressions, click-through rate and position."),
		group("Indexing", "The URLs that Google has indexed, as of the last daily inspection."),
		group("Configuration", "What the owner configured: brand terms, page groups, annotations."),
		group(extension, "Endpoints beyond the common core of the API."),
	}
}

// securityScheme is the name of the API key in the document.
const securityScheme = "key"

// extensionKeyword marks a parameter that the specification of the API does not have.
const extensionKeyword = "x-extension"

// describe returns the operation of a route. OpenAPI 3.1 allows the scope as a role of the security requirement; the codes by which the
// errors are told apart have a keyword of our own.
func (r *route) describe(parts components) (map[string]any, error) {
	request, example, err := r.example()
	if err != nil {
		return nil, err
	}
	answer := object(
		member{name: "success", schema: boolean("The request was answered.").with("const", true).named("Success")},
		member{name: "data", schema: r.Data},
		member{name: "meta", schema: r.Meta}).named(r.noun() + "Answer")
	content := map[string]any{"application/json": mediaOf(parts.place(answer), request, json.RawMessage(example))}
	if err := r.describeFormats(content, request, example); err != nil {
		return nil, err
	}
	responses := map[string]any{
		"200": map[string]any{"description": "The answer.", "headers": headerReferences(append(answerHeaders(), r.metaHeaders()...)...), "content": content},
		"304": schema{"$ref": "#/components/responses/NotModified"},
	}
	codes := []string{}
	for _, status := range errorStatuses() {
		names := r.codesOf(status)
		if len(names) > 0 {
			responses[strconv.Itoa(status)] = schema{"$ref": "#/components/responses/" + responseName(status)}
		}
		for _, name := range names {
			if !slices.Contains(codes, name) {
				codes = append(codes, name)
			}
		}
	}
	return map[string]any{
		"operationId": r.Operation, "summary": r.Summary, "description": r.About, "tags": r.tags(),
		"parameters": r.describeParams(parts), "responses": responses, "x-error-codes": codes,
		"security": []any{map[string]any{securityScheme: append([]string{}, r.Scope.Names()...)}},
	}, nil
}

func (r *route) describeParams(parts components) []any {
	parameters := make([]any, 0, len(r.Endpoint.Params)+1)
	if r.ofProperty() {
		parameters = append(parameters, map[string]any{
			"name": "id", "in": "path", "required": true, "schema": text("").with("minLength", 1), "example": "example.com",
			"description": "The property: its id, its bare domain, its slug, or its full upstream string (percent-encoded)."})
	}
	for _, p := range r.Endpoint.Params {
		parameters = append(parameters, describeParam(p, parts))
	}
	return parameters
}

func (r *route) ofProperty() bool { return strings.Contains(r.Path, "{id}") }

func (r *route) takes(parameter string) bool {
	return slices.ContainsFunc(r.Endpoint.Params, func(p translate.Param) bool { return p.Name == parameter })
}

// noun is the operation id without its verb.
func (r *route) noun() string {
	return strings.TrimPrefix(strings.TrimPrefix(r.Operation, "get"), "list")
}

func describeParam(p translate.Param, parts components) map[string]any {
	described := map[string]any{"name": p.Name, "in": "query", "description": p.Description}
	if p.Extension {
		described[extensionKeyword] = true
	}
	if p.Kind == translate.KindFilters {
		described["content"] = map[string]any{"application/json": map[string]any{"schema": parts.place(
			listOf(filterSchema()).with("maxItems", translate.MaxFilters).with("default", []any{}))}}
		return described
	}
	described["schema"] = parts.place(paramSchema(p))
	return described
}

func paramSchema(p translate.Param) schema {
	if p.Name == "bucket" {
		return bucketSchema() // the same one as in the answers
	}
	s := schema{"type": string(p.Kind)}
	switch {
	case p.Choices != nil && p.Kind != translate.KindBoolean:
		s.with("enum", valuesOf(p, p.Choices)).named(choiceName(p))
	case p.Kind == translate.KindInteger:
		s.with("minimum", p.Min).with("maximum", cmp.Or(p.Max, translate.MaxInteger))
	case p.Kind == translate.KindDate:
		s = schema{"type": "string", "format": "date"}
	case p.MaxLength > 0:
		s.with("minLength", 1).with("maxLength", p.MaxLength)
	}
	if p.Default != "" {
		s.with("default", valueOf(p, p.Default))
	}
	return s.like(exampleOf(p))
}

// choiceName is the component name of a parameter's enum.
func choiceName(p translate.Param) string {
	switch p.Name {
	case "date_range":
		return "DateRangePreset"
	case "order_by":
		if slices.Contains(p.Choices, "clicks_delta") {
			return "PortfolioOrder"
		}
		return "Order"
	case "sort":
		return "URLOrder"
	case "dir":
		return "Direction"
	case "days":
		return "TrendDays"
	}
	return strings.ToUpper(p.Name[:1]) + p.Name[1:]
}

// exampleOf returns an example value of a parameter: its default, if it has one.
func exampleOf(p translate.Param) any {
	switch p.Name {
	case "start_date":
		return "2026-10-01"
	case "end_date":
		return "2026-10-31"
	case "coverage_state":
		return "Crawled - currently not indexed"
	case "sitemap_path":
		return "https://www.example.com/sitemap.xml"
	case "q":
		return "/blog/"
	}
	return valueOf(p, p.Default)
}

// valueOf parses a parameter as it is written in a URL into a value of its type.
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

func errorCodeSchema() schema {
	codes := errorCodes()
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
		return []string{codeTooLarge}
	}
	return slices.DeleteFunc(errorCodes(), func(code string) bool { return statusOf(code) != status })
}

// codesOf lists the codes of a status that this route can answer with.
func (r *route) codesOf(status int) []string {
	return slices.DeleteFunc(codesOf(status), func(code string) bool {
		switch code {
		case policy.CodePropertyAmbiguous, policy.CodeNotFound:
			return !r.ofProperty()
		case policy.CodeScope:
			return r.Scope == 0
		case translate.CodeDateRangeTooOld, policy.CodeUpstreamQuota, codeUpstreamUnavailable:
			return !r.takes("date_range")
		case codeFilteredUnavailable:
			return !r.takes("filters")
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
		"description": "The answer is still the one whose ETag the request named in If-None-Match. It counts as a request.",
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
		"X-Cache":               header("string", "Whether a stored answer was served: hit, miss or bypass.", "hit"),
		"X-RateLimit-Limit":     header("integer", "The daily allowance of requests, or on a 429 the ceiling that refused.", 1000),
		"X-RateLimit-Remaining": header("integer", "What is left of it.", 988),
		"X-RateLimit-Reset":     header("integer", "When it resets, in Unix seconds.", 1795305600),
		"ETag":                  header("string", "A weak tag of the answer, for If-None-Match.", `W/"21f5080302379665"`),
		"Cache-Control": header("string", "How many seconds the client may keep the answer. In a request, no-cache refreshes figures that are older than ten minutes.",
			"private, max-age=600"),
		"Retry-After": {"description": "Seconds to wait before asking again. A 503 without it will not pass by itself.", "required": false,
			"schema": schema{"type": "integer"}, "example": 30},
		"Allow":            header("string", "The methods that the path has.", "GET, HEAD"),
		"WWW-Authenticate": header("string", "How to authenticate.", "Bearer"),
	}
	maps.Copy(headers, metaHeaderDescriptions())
	return headers
}

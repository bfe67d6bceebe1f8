package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sara/policy"
	"sara/translate"
)

// Document returns the OpenAPI 3.1 document of the API at baseURL.
func Document(baseURL string) ([]byte, error) {
	parts := make(components)
	var paths orderedObject
	for _, o := range Operations() {
		operation, err := o.describe(parts)
		if err != nil {
			return nil, err
		}
		paths = append(paths, orderedMember{o.Path, map[string]any{"get": operation}})
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

- Every endpoint is a GET. A success, except for this document, is ` + "`{success, data, meta}`" + `, an error ` + "`{success, error}`" + ` with a code and the request's id.
- Days are in Pacific time, as in Search Console. Ranges end at the anchor, two days before today.
- Rows do not add up to the totals: Search Console withholds rare queries. That is anonymised traffic, not missing data.
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

// writeJSON does not escape the characters that only HTML needs escaped.
func writeJSON(value any, indent string) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// extension is the second tag of the endpoints that other services of this API need not have.
const extension = "Extension"

func (o *Operation) tags() []string {
	if o.Extension {
		return []string{o.group(), extension}
	}
	return []string{o.group()}
}

// group is the first tag of an operation.
func (o *Operation) group() string {
	switch {
	case o.Open:
		return "Reference"
	case o.Scope == policy.PropertiesRead:
		return "Properties"
	case o.Scope == policy.PerformanceRead, o.ID == "listAnomalies":
		return "Performance"
	case o.Scope == policy.IndexingRead:
		return "Indexing"
	case o.Scope == policy.ConfigRead:
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
		group("Reference", "The description of the API itself."),
		group(extension, "Endpoints beyond the common core of the API."),
	}
}

// securityScheme is the name of the API key in the document.
const securityScheme = "key"

// describe returns the operation as the document has it. OpenAPI 3.1 allows the scope as a role of the security requirement; the codes by which the
// errors are distinguished have a keyword of our own.
func (o *Operation) describe(parts components) (map[string]any, error) {
	content, err := o.describeAnswer(parts)
	if err != nil {
		return nil, err
	}
	responses := map[string]any{
		"200": map[string]any{"description": "The answer.", "headers": headerReferences(append(answerHeaders(), o.metaHeaders()...)...),
			"content": content},
		"304": schema{"$ref": "#/components/responses/NotModified"},
	}
	codes := []string{}
	for _, status := range errorStatuses() {
		names := o.codesOf(status)
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
		"operationId": o.ID, "summary": o.Summary, "description": o.About, "tags": o.tags(),
		"parameters": o.describeParams(parts), "responses": responses, "x-error-codes": codes,
		"security": o.security(),
	}, nil
}

// describeAnswer returns the answer of an operation in each of its formats.
func (o *Operation) describeAnswer(parts components) (map[string]any, error) {
	if o.Open {
		return map[string]any{"application/json": map[string]any{"schema": parts.place(o.data)}}, nil
	}
	request, example, err := o.example()
	if err != nil {
		return nil, err
	}
	answer := object(
		member{name: "success", schema: boolean("The request was answered.").with("const", true).named("Success")},
		member{name: "data", schema: o.data},
		member{name: "meta", schema: o.meta}).named(o.noun() + "Answer")
	content := map[string]any{"application/json": mediaOf(parts.place(answer), request, json.RawMessage(example))}
	return content, o.describeFormats(content, request, example)
}

// security is the security requirement of an operation. An empty one overrides that of the whole document.
func (o *Operation) security() []any {
	if o.Open {
		return []any{}
	}
	return []any{map[string]any{securityScheme: append([]string{}, o.Scope.Names()...)}}
}

func (o *Operation) ofProperty() bool { return strings.Contains(o.Path, "{id}") }

func (o *Operation) takes(parameter string) bool {
	return slices.ContainsFunc(o.Endpoint.Params, func(p translate.Param) bool { return p.Name == parameter })
}

// noun is the operation id without its verb.
func (o *Operation) noun() string {
	return strings.TrimPrefix(strings.TrimPrefix(o.ID, "get"), "list")
}

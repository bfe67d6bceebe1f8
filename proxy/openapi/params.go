package openapi

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"sara/translate"
)

// extensionKeyword marks a parameter that the specification of the API does not have.
const extensionKeyword = "x-extension"

func (o *Operation) describeParams(parts components) []any {
	parameters := make([]any, 0, len(o.Endpoint.Params)+1)
	if o.ofProperty() {
		parameters = append(parameters, map[string]any{
			"name": "id", "in": "path", "required": true, "schema": text("").with("minLength", 1), "example": "example.com",
			"description": "The property: its id, its bare domain, its slug, or its full string in Search Console (percent-encoded)."})
	}
	for _, p := range o.Endpoint.Params {
		parameters = append(parameters, describeParam(p, parts))
	}
	return parameters
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

package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sara/translate"
)

// A param is an argument of a tool. Most have the names and the rules of the REST parameters that they become; REST checks their values.
type param struct {
	translate.Param
	required bool
	sends    bool // the default is not that of REST, so it is part of the request
}

// arguments are the values of a call, as in the query of a URL. The property and the dimension are part of the path instead.
type arguments struct {
	property, dimension string
	query               url.Values
}

// Arguments that are not parameters of REST.
const (
	argProperty  = "property"
	argDimension = "dimension"
)

func property() param {
	return param{Param: translate.Param{Name: argProperty, Kind: translate.KindString}, required: true}
}

func dimension(names ...string) param {
	return param{Param: translate.Param{Name: argDimension, Kind: translate.KindString, Choices: names}, required: true}
}

// descriptions replace those of REST where these are too long for a list of tools that a model reads as a whole. What many tools have in
// common is in the instructions.
func descriptions() map[string]string {
	return map[string]string{
		"date_range": "",
		"start_date": "", "end_date": "",
		"filters": "ANDed: {dimension: query|page|country|device|brand|page_group, operator: equals|contains|regex|not_..., value}",
		"limit":   "", "offset": "", "order_by": "", "compare": "", "min_clicks": "",
	}
}

// of returns the arguments that the parameters of a REST endpoint become.
func of(e translate.Endpoint) []param {
	short := descriptions()
	params := make([]param, len(e.Params))
	for i, p := range e.Params {
		if text, ok := short[p.Name]; ok {
			p.Description = text
		}
		params[i] = param{Param: p}
	}
	return params
}

// atMost lowers the bound and the default of limit: fewer rows fit a result.
func atMost(params []param, most, usual int) []param {
	for i := range params {
		if params[i].Name == "limit" {
			params[i].Max = most
		}
	}
	return byDefault(params, "limit", strconv.Itoa(usual))
}

// byDefault sets another default of a parameter than that of REST.
func byDefault(params []param, name, value string) []param {
	for i := range params {
		if params[i].Name == name {
			params[i].Default, params[i].sends = value, true
		}
	}
	return params
}

// inputSchema returns the JSON Schema of the tool's arguments.
func (t *tool) inputSchema() map[string]any {
	members, required := map[string]any{}, []string{}
	for _, p := range t.params {
		members[p.Name] = p.schema()
		if p.required {
			required = append(required, p.Name)
		}
	}
	schema := map[string]any{"type": "object", "properties": members, "additionalProperties": false}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

func (p *param) schema() map[string]any {
	schema := map[string]any{"type": "string"}
	switch p.Kind {
	case translate.KindInteger:
		schema["type"] = "integer"
		switch {
		case p.Choices != nil:
			schema["enum"] = json.RawMessage("[" + strings.Join(p.Choices, ",") + "]")
		case p.Max > 0:
			schema["maximum"] = p.Max
		}
	case translate.KindBoolean:
		schema["type"] = "boolean"
	case translate.KindFilters:
		schema = map[string]any{"type": "array", "items": map[string]any{"type": "object"}}
	case translate.KindString:
		if p.Choices != nil {
			schema["enum"] = p.Choices
		}
	}
	if p.Description != "" {
		schema["description"] = p.Description
	}
	return schema
}

// parse reads the arguments of a call. What REST checks by itself, it passes on.
func (t *tool) parse(raw json.RawMessage) (*arguments, *failure) {
	given := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(raw)) > 0 {
		if err := json.Unmarshal(raw, &given); err != nil {
			return nil, invalid("the arguments are not a JSON object")
		}
	}
	a := &arguments{query: url.Values{}}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		at := slices.IndexFunc(t.params, func(p param) bool { return p.Name == name })
		if at < 0 {
			return nil, &failure{Code: translate.CodeUnsupportedParameter,
				Message: fmt.Sprintf("%s has no argument %.40q; it has %s", t.name, name, t.names())}
		}
		if err := a.set(&t.params[at], given[name]); err != nil {
			return nil, err
		}
	}
	return a, t.complete(a)
}

// complete sets the defaults that are not those of REST, and checks that nothing required is missing.
func (t *tool) complete(a *arguments) *failure {
	for i := range t.params {
		p := &t.params[i]
		switch {
		case p.Name == argProperty && a.property == "", p.Name == argDimension && a.dimension == "":
			return invalid(p.Name + " is required")
		case p.sends && !a.query.Has(p.Name):
			a.query.Set(p.Name, p.Default)
		}
	}
	return nil
}

// set stores a value. null means that the argument is left out: some clients send it.
func (a *arguments) set(p *param, raw json.RawMessage) *failure {
	if string(raw) == "null" {
		return nil
	}
	text, err := p.text(raw)
	if err != nil {
		return err
	}
	switch p.Name {
	case argProperty:
		a.property = text
	case argDimension:
		if !slices.Contains(p.Choices, text) {
			return p.mustBe("one of "+strings.Join(p.Choices, ", "), raw)
		}
		a.dimension = text
	default:
		a.query.Set(p.Name, text)
	}
	return nil
}

// text returns a value as it is written in a URL.
func (p *param) text(raw json.RawMessage) (string, *failure) {
	switch p.Kind {
	case translate.KindFilters:
		var filters []json.RawMessage
		if json.Unmarshal(raw, &filters) != nil {
			return "", p.mustBe("an array of filter objects", raw)
		}
		return string(raw), nil
	case translate.KindInteger:
		n, ok := wholeNumber(raw)
		if !ok {
			return "", p.mustBe("an integer", raw)
		}
		if p.Max > 0 && (n < p.Min || n > p.Max) { // not those of REST, whose message would name them
			return "", p.mustBe(fmt.Sprintf("from %d to %d", p.Min, p.Max), raw)
		}
		return strconv.Itoa(n), nil
	case translate.KindBoolean:
		if text := string(raw); text == "true" || text == "false" {
			return text, nil
		}
		return "", p.mustBe("true or false", raw)
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return "", p.mustBe("a string", raw)
	}
	return text, nil
}

func (p *param) mustBe(what string, raw json.RawMessage) *failure {
	return invalid(fmt.Sprintf("%s must be %s, not %.40s", p.Name, what, raw))
}

// wholeNumber reads an integer as JSON Schema defines it: 25.0 is one. Clients that keep all numbers as floating point write it so.
func wholeNumber(raw json.RawMessage) (n int, ok bool) {
	if n, err := strconv.Atoi(string(raw)); err == nil {
		return n, true
	}
	number, err := strconv.ParseFloat(string(raw), 64)
	return int(number), err == nil && number == math.Trunc(number) && math.Abs(number) < 1<<53
}

func (t *tool) names() string {
	if len(t.params) == 0 {
		return "none"
	}
	names := make([]string, len(t.params))
	for i, p := range t.params {
		names[i] = p.Name
	}
	return strings.Join(names, ", ")
}

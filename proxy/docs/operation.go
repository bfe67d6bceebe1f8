package docs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// An operationView is the data of the page of an operation, for its templates.
type operationView struct {
	*operation
	Parameters []parameterView
	Request    string // of the example, without the base URL
	Curl       string // the same as a command
	Answer     string // indented JSON
	Coloured   template.HTML
	Members    []member
	Errors     []entry
}

// A parameterView is a parameter on the page of its operation.
type parameterView struct {
	Name, Type  string
	About       template.HTML
	AboutText   string
	Required    bool
	Default     string
	Choices     []string // of a closed list
	Field       string   // type of the form's input
	Placeholder string
}

// viewOf returns the data of the page of an operation.
func (m *builder) viewOf(o *operation) (*operationView, error) {
	v := &operationView{operation: o, Members: m.document.members(o)}
	for _, p := range o.Parameters {
		described, err := m.viewOfParameter(p)
		if err != nil {
			return nil, fmt.Errorf("parameter %s of %s: %w", p.Name, o.ID, err)
		}
		v.Parameters = append(v.Parameters, described)
	}
	for _, code := range o.Codes {
		at := slices.IndexFunc(m.errors, func(e entry) bool { return e.Code == code })
		if at < 0 {
			return nil, fmt.Errorf("%s has the unknown error code %s", o.ID, code)
		}
		v.Errors = append(v.Errors, m.errors[at])
	}
	request, answer := o.example()
	if request == "" {
		return nil, fmt.Errorf("the OpenAPI document has no example of %s", o.ID)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, answer, "", "  "); err != nil {
		return nil, fmt.Errorf("example of %s: %w", o.ID, err)
	}
	v.Request, v.Answer, v.Curl = readable(request), indented.String(), m.curl(request)
	v.Coloured = coloured(v.Answer)
	return v, nil
}

// coloured marks the tokens of JSON for the style sheet: keys, strings, and other values. The script does the same.
func coloured(text string) template.HTML {
	token := regexp.MustCompile(`("(?:[^"\\]|\\.)*")(\s*:)?|-?\d[\d.eE+-]*|true|false|null`)
	var out strings.Builder
	at := 0
	for _, found := range token.FindAllStringSubmatchIndex(text, -1) {
		class, end := "n", found[1]
		switch {
		case found[4] >= 0:
			class, end = "k", found[3]
		case found[2] >= 0:
			class = "s"
		}
		fmt.Fprintf(&out, `%s<span class="%s">%s</span>`, template.HTMLEscapeString(text[at:found[0]]), class,
			template.HTMLEscapeString(text[found[0]:end]))
		at = end
	}
	return template.HTML(out.String() + template.HTMLEscapeString(text[at:])) // safe: all of it is escaped
}

// readable is a request with its query as people write it.
func readable(request string) string {
	if text, err := url.PathUnescape(request); err == nil {
		return text
	}
	return request
}

// curl is the command that sends a request.
func (m *builder) curl(request string) string {
	return fmt.Sprintf("curl -H \"Authorization: Bearer %s\" \\\n  \"%s%s\"", cmp.Or(m.prefill.Key, "$API_KEY"), m.base, request)
}

func (m *builder) viewOfParameter(p parameter) (parameterView, error) {
	v := parameterView{Name: p.Name, AboutText: p.Description, Required: p.In == "path", Field: "text"}
	about, err := prose(m.markdown, p.Description)
	if err != nil {
		return v, err
	}
	v.About = template.HTML(strings.TrimSuffix(strings.TrimPrefix(string(about), "<p>"), "</p>"))
	if p.Schema == nil { // JSON
		v.Type, v.Placeholder = "JSON", `[{"dimension":"query","operator":"contains","value":"chair"}]`
		return v, nil
	}
	s := m.document.resolve(p.Schema)
	v.Type, v.Choices = m.document.typeOf(s), s.choices()
	if p.Schema.Default != nil || s.Default != nil {
		v.Default = fmt.Sprint(firstOf(p.Schema.Default, s.Default))
	}
	switch {
	case v.Type == "boolean":
		v.Choices = []string{"false", "true"}
	case len(v.Choices) > 0:
		v.Type = fmt.Sprint(s.Type)
	case v.Type == "date":
		v.Field = "date"
	case v.Type == "integer":
		v.Type, v.Field = boundsOf(s), "number"
	}
	return v, nil
}

func firstOf(values ...any) any {
	for _, value := range values {
		if value != nil {
			return value
		}
	}
	return nil
}

// boundsOf names the type of an integer with its bounds.
func boundsOf(s *schema) string {
	const unbounded = 1e6 // more is a bound of the machine, not of the API
	switch {
	case s.Minimum != nil && s.Maximum != nil && *s.Maximum < unbounded:
		return fmt.Sprintf("integer, %.0f to %.0f", *s.Minimum, *s.Maximum)
	case s.Minimum != nil:
		return fmt.Sprintf("integer, %.0f or more", *s.Minimum)
	}
	return "integer"
}

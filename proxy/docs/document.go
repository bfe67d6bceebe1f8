package docs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// The parts of an OpenAPI document that the pages show.
type (
	operation struct {
		Path string `json:"-"`

		ID          string                `json:"operationId"`
		Summary     string                `json:"summary"`
		Description string                `json:"description"`
		Tags        []string              `json:"tags"`
		Security    []map[string][]string `json:"security"`
		Parameters  []parameter           `json:"parameters"`
		Codes       []string              `json:"x-error-codes"`
		Responses   map[string]response   `json:"responses"`
	}
	parameter struct {
		Name        string
		In          string
		Description string
		Example     any
		Schema      *schema
		Content     map[string]media // of a parameter that is JSON
	}
	response struct{ Content map[string]media }
	media    struct {
		Schema   *schema
		Examples map[string]struct {
			Summary string
			Value   json.RawMessage
		}
	}
	schema struct {
		Ref         string `json:"$ref"`
		Type        any
		Format      string
		Description string
		Enum        []any
		Default     any
		Minimum     *float64
		Maximum     *float64
		MaxLength   int
		Items       *schema
		OneOf       []*schema
		Properties  map[string]*schema
		Required    []string // in the order in which answers have them
		Examples    []any
	}
)

// A document is an OpenAPI document, without its open operations: a page is for a request with a key. The menu links to what is open.
type document struct {
	About      string // Markdown
	Groups     []group
	schemas    map[string]*schema
	operations map[string]*operation // by id
}

// A group is the operations of one tag, the first that each has, in the order of the document.
type group struct {
	Name, About string
	Operations  []*operation
}

func readDocument(text []byte) (*document, error) {
	var outline struct {
		Info       struct{ Description string }
		Tags       []struct{ Name, Description string }
		Components struct{ Schemas map[string]*schema }
	}
	if err := json.Unmarshal(text, &outline); err != nil {
		return nil, err
	}
	d := &document{About: outline.Info.Description, schemas: outline.Components.Schemas, operations: make(map[string]*operation)}
	for _, tag := range outline.Tags {
		d.Groups = append(d.Groups, group{Name: tag.Name, About: tag.Description})
	}
	var err error
	gjson.GetBytes(text, "paths").ForEach(func(path, item gjson.Result) bool {
		o := &operation{Path: path.String()}
		if err = json.Unmarshal([]byte(item.Get("get").Raw), o); err == nil && !o.isOpen() {
			err = d.add(o)
		}
		return err == nil
	})
	d.Groups = slices.DeleteFunc(d.Groups, func(g group) bool { return len(g.Operations) == 0 }) // of a second tag, or open
	return d, err
}

func (d *document) add(o *operation) error {
	for i := range d.Groups {
		if len(o.Tags) > 0 && d.Groups[i].Name == o.Tags[0] {
			d.Groups[i].Operations = append(d.Groups[i].Operations, o)
			d.operations[o.ID] = o
			return nil
		}
	}
	return fmt.Errorf("the operation %s of %s has no known tag", o.ID, o.Path)
}

// Name is the name of an operation in lists: its path without what most paths have in common.
func (o *operation) Name() string {
	name := strings.TrimPrefix(o.Path, "/v1/")
	if below, ok := strings.CutPrefix(name, "properties/{id}/"); ok {
		return below
	}
	return name
}

// Group is the tag.
func (o *operation) Group() string { return o.Tags[0] }

// isOpen reports whether the operation needs no key.
func (o *operation) isOpen() bool { return o.Security != nil && len(o.Security) == 0 }

// Scope is the scope that a key must have, empty if any key will do.
func (o *operation) Scope() string {
	for _, scheme := range o.Security {
		for _, scopes := range scheme {
			return strings.Join(scopes, ", ")
		}
	}
	return ""
}

// answer is the schema of a success.
func (o *operation) answer() *schema { return o.Responses["200"].Content["application/json"].Schema }

// example is a request with the answer to it; both are empty if the document has none.
func (o *operation) example() (request string, answer []byte) {
	for _, example := range o.Responses["200"].Content["application/json"].Examples {
		return strings.TrimPrefix(example.Summary, "GET "), example.Value
	}
	return "", nil
}

// resolve follows references, and the alternative to null.
func (d *document) resolve(s *schema) *schema {
	for s != nil {
		switch {
		case s.Ref != "":
			s = d.schemas[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]]
		case len(s.OneOf) > 0:
			s = s.OneOf[0]
		default:
			return s
		}
	}
	return new(schema)
}

// A member is one of an answer, at any depth.
type member struct {
	Name, Type, About string
}

// members lists the members of an answer, outer ones first: data.rows[].clicks. Only success is left out.
func (d *document) members(o *operation) (list []member) {
	var walk func(prefix string, s *schema)
	walk = func(prefix string, s *schema) {
		s = d.resolve(s)
		if s.Items != nil {
			walk(strings.TrimSuffix(prefix, ".")+"[].", s.Items)
		}
		for _, name := range s.memberNames() {
			if prefix+name == "success" {
				continue
			}
			m := s.Properties[name]
			list = append(list, member{Name: prefix + name, Type: d.typeOf(m), About: d.about(m)})
			walk(prefix+name+".", m)
		}
	}
	walk("", o.answer())
	return list
}

// memberNames lists the members of an object: those that are always there, in the order of answers, and then the others.
func (s *schema) memberNames() []string {
	optional := slices.DeleteFunc(slices.Sorted(maps.Keys(s.Properties)), func(name string) bool { return slices.Contains(s.Required, name) })
	return append(slices.Clone(s.Required), optional...)
}

// about is the description of a schema, or of what it refers to.
func (d *document) about(s *schema) string {
	if s.Description != "" {
		return s.Description
	}
	return d.resolve(s).Description
}

// typeOf names the type of a schema: "integer or null".
func (d *document) typeOf(s *schema) string {
	nullable := len(s.OneOf) > 1
	to := d.resolve(s)
	var kind string
	switch t := to.Type.(type) {
	case string:
		kind = t
	case []any:
		kind, nullable = fmt.Sprint(t[0]), true
	}
	switch {
	case kind == "array" && to.Items != nil:
		kind = "array of " + d.typeOf(to.Items) + "s"
	case len(to.Enum) > 0:
		kind = strings.Join(to.choices(), ", ")
	case to.Format != "":
		kind = to.Format
	}
	if nullable {
		kind += " or null"
	}
	return kind
}

// choices are the allowed values as a URL has them.
func (s *schema) choices() []string {
	list := make([]string, len(s.Enum))
	for i, value := range s.Enum {
		list[i] = fmt.Sprint(value)
	}
	return list
}

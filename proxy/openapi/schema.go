package openapi

import "reflect"

// A schema is a JSON Schema of the OpenAPI document. Objects require every member that is always present, and allow others:
// clients must ignore members that they do not know (spec: Versioning 2).
type schema map[string]any

func typed(name, description string) schema { return schema{"type": name, "description": description} }

func text(description string) schema    { return typed("string", description) }
func whole(description string) schema   { return typed("integer", description) }
func number(description string) schema  { return typed("number", description) }
func boolean(description string) schema { return typed("boolean", description) }
func day(description string) schema     { return text(description).with("format", "date") }
func instant(description string) schema { return text(description).with("format", "date-time") }
func uuid(description string) schema    { return text(description).with("format", "uuid") }

func listOf(items schema) schema { return schema{"type": "array", "items": items} }

// with sets a keyword of s, and returns s.
func (s schema) with(keyword string, value any) schema {
	s[keyword] = value
	return s
}

// orNull makes s nullable. A named schema keeps its meaning, so null becomes the alternative in a oneOf.
func (s schema) orNull() schema {
	if s[nameKeyword] != nil {
		return schema{"oneOf": []schema{s, {"type": "null"}}}
	}
	return s.with("type", []any{s["type"], "null"})
}

// named makes s a component of the document, to which every use of s refers: client generators make a type of each. All
// schemas of one name must be equal.
func (s schema) named(name string) schema { return s.with(nameKeyword, name) }

// nameKeyword holds the name of a schema until the document is assembled; it does not appear in the document.
const nameKeyword = "x-name"

// like adds an example value.
func (s schema) like(example any) schema { return s.with("examples", []any{example}) }

// properties are the members of an object's schema.
type properties map[string]schema

// A member is a property of an object schema, required unless optional.
type member struct {
	name     string
	schema   schema
	optional bool
}

func object(members ...member) schema {
	described := make(properties, len(members))
	required := make([]string, 0, len(members))
	for _, m := range members {
		described[m.name] = m.schema
		if !m.optional {
			required = append(required, m.name)
		}
	}
	return schema{"type": "object", "properties": described, "required": required}
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

package gscsim

import (
	"maps"
	"strings"
)

// queryMembers are the members of an answer to a query, in the syntax of the parameter fields.
const queryMembers = "rows(keys,clicks,impressions,ctr,position),responseAggregationType,metadata(firstIncompleteDate,firstIncompleteHour)"

// A selection is a partial response: the selected members of an object, or of each object of an array, by name, each with its own
// selection. The nil selection selects the whole value.
type selection map[string]selection

// selectFields reads the parameter fields of a call whose answer has these members. An empty one selects all of them.
func selectFields(text, members string) (selection, *apiError) {
	if text == "" {
		return nil, nil
	}
	all, _, _ := parseSelection(members)
	selected, rest, ok := parseSelection(text)
	wrong, found := selected.outside(all)
	switch {
	case !ok || rest != "":
		return nil, invalid("fields", "Invalid field selection %s", text)
	case found:
		return nil, invalid("fields", "Invalid field selection %s", wrong)
	}
	return selected, nil
}

// parseSelection reads a list of fields: a, a/b or a(b,c), separated by commas. It returns what follows the list.
func parseSelection(text string) (s selection, rest string, ok bool) {
	s = selection{}
	for {
		var name string
		var of selection
		if name, of, text, ok = parseField(text); !ok {
			return s, text, false
		}
		if before, again := s[name]; again && before != nil && of != nil {
			maps.Copy(of, before)
		} else if again {
			of = nil
		}
		s[name] = of
		if text, ok = strings.CutPrefix(text, ","); !ok {
			return s, text, true
		}
	}
}

func parseField(text string) (name string, of selection, rest string, ok bool) {
	end := strings.IndexAny(text, ",/()")
	if end < 0 {
		end = len(text)
	}
	name, text = text[:end], text[end:]
	switch {
	case name == "":
		return name, nil, text, false
	case strings.HasPrefix(text, "/"):
		var inner string
		var below selection
		inner, below, text, ok = parseField(text[1:])
		return name, selection{inner: below}, text, ok
	case strings.HasPrefix(text, "("):
		if of, text, ok = parseSelection(text[1:]); !ok {
			return name, nil, text, false
		}
		text, ok = strings.CutPrefix(text, ")")
		return name, of, text, ok
	}
	return name, nil, text, true
}

// outside returns the path of a selected field that does not exist.
func (s selection) outside(all selection) (path string, found bool) {
	for name, of := range s {
		members, known := all[name]
		if !known {
			return name, true
		}
		if below, found := of.outside(members); found {
			return name + "/" + below, true
		}
	}
	return "", false
}

// has reports whether a member of an object is selected.
func (s selection) has(member string) bool {
	_, ok := s[member]
	return ok || s == nil
}

// appendMember begins a member of an object.
func appendMember(dst []byte, name string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	dst = append(append(dst, '"'), name...)
	return append(dst, `":`...)
}

package openapi

import (
	"sara/archive"
	"sara/proxy/tabular"
)

// Table returns the table of the operation's rows, nil if the answer has none.
func (o *Operation) Table() *tabular.Table {
	columns := o.columns()
	if columns == nil {
		return nil
	}
	return tabular.New(columns, archive.GuardFormula)
}

// columns returns the columns of the operation's rows in CSV: the members of their schema, and those of nested objects behind a dot. It
// returns none if the answer has no rows.
func (o *Operation) columns() []string {
	members, _ := o.data["properties"].(properties)
	list, ok := members["rows"]
	if !ok {
		return nil
	}
	return appendColumns(nil, "", list)
}

func appendColumns(dst []string, path string, s schema) []string {
	if choices, ok := s["oneOf"].([]schema); ok { // or null
		s = choices[0]
	}
	if items, ok := s["items"].(schema); ok {
		return appendColumns(dst, path, items)
	}
	members, ok := s["properties"].(properties)
	if !ok {
		return append(dst, path)
	}
	prefix := path
	if path != "" {
		prefix += "."
	}
	for _, name := range s["required"].([]string) { // in the order in which rows have them
		dst = appendColumns(dst, prefix+name, members[name])
	}
	return dst
}

package openapi

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// The columns of an operation are those of its JSON rows, in their order, and no row has a member without a column.
func TestColumnsAreThoseOfTheExamples(t *testing.T) {
	t.Parallel()
	for _, o := range Operations() {
		columns := o.columns()
		if columns == nil {
			continue
		}
		_, answer, err := o.example()
		if err != nil {
			t.Fatal(err)
		}
		var example struct {
			Data struct{ Rows []json.RawMessage }
		}
		if err := json.Unmarshal(answer, &example); err != nil || len(example.Data.Rows) == 0 {
			t.Fatalf("%s: %d rows (%v)", o.ID, len(example.Data.Rows), err)
		}
		var top []string // members of the row
		for _, column := range columns {
			name, _, _ := strings.Cut(column, ".")
			top = append(top, name)
		}
		top = slices.Compact(top)
		for _, row := range example.Data.Rows {
			if members := membersOf(t, row); !slices.Equal(members, top) {
				t.Errorf("%s has the columns %v, and the row %s", o.ID, columns, row)
			}
		}
	}
}

// membersOf lists the members of an object in their order.
func membersOf(t *testing.T, object []byte) (names []string) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(object))
	for depth, isName := 0, false; ; {
		token, err := decoder.Token()
		if err != nil {
			return names
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
			isName = depth == 1
			continue
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 1 {
			if name, ok := token.(string); ok && isName {
				names = append(names, name)
				isName = false
				continue
			}
			isName = true
		}
	}
}

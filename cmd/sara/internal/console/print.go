package console

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"sara/translate"
)

// Output is how a command prints its result.
type Output struct {
	JSON bool `name:"json" help:"Print JSON, for programs."`
}

// A Column is the name of a column of a table, and the cell of a row in it.
type Column [2]string

// A Record is one row of a table. Its JSON is that of its type; its zero value has the names of the columns. A method Optional lists columns
// that a narrow terminal does not show, the first to go first.
type Record interface{ Columns() []Column }

func namesOf(columns []Column) []string { return Each(columns, func(c Column) string { return c[0] }) }

func cellsOf(columns []Column) []string { return Each(columns, func(c Column) string { return c[1] }) }

// One prints a single record.
func One(o Output, w io.Writer, r Record) error {
	if o.JSON {
		return PrintJSON(w, r)
	}
	columns := r.Columns()
	return PrintTable(w, namesOf(columns), [][]string{cellsOf(columns)})
}

// Many prints a list of records. An empty list is [], or only the header.
func Many[R Record](o Output, w io.Writer, list []R) error {
	if o.JSON {
		return PrintJSON(w, list)
	}
	var empty R
	t := newTable(namesOf(empty.Columns()), Each(list, func(r R) []string { return cellsOf(r.Columns()) }))
	if r, ok := any(empty).(interface{ Optional() []string }); ok {
		t.optional = r.Optional()
	}
	return t.print(w, terminalWidth(w))
}

// List prints a list of records. If it is empty, a hint says what to do next.
func List[R Record](c *Console, o Output, list []R, what string, commands ...string) error {
	if err := Many(o, c.Stdout, list); err != nil || len(list) > 0 {
		return err
	}
	c.Next(o, what, commands...)
	return nil
}

// PrintJSON writes v on one line.
func PrintJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// PrintTable writes aligned columns, which are shortened to fit the width of a terminal.
func PrintTable(w io.Writer, header []string, rows [][]string) error {
	t := newTable(header, rows)
	return t.print(w, terminalWidth(w))
}

// Each converts the items of a list. The result is never nil, so that it prints as [].
func Each[From, To any](list []From, convert func(From) To) []To {
	converted := make([]To, len(list))
	for i := range list {
		converted[i] = convert(list[i])
	}
	return converted
}

// Timestamp formats an instant: ISO 8601, UTC.
func Timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// OptionalTime formats an instant, or returns nil, which is null in JSON.
func OptionalTime(t *time.Time) *string {
	if t == nil {
		return nil
	}
	return new(Timestamp(*t))
}

// OptionalDate formats a day, or returns nil, which is null in JSON.
func OptionalDate(d *translate.Date) *string {
	if d == nil {
		return nil
	}
	return new(d.String())
}

// Cell returns the text of a table's cell, "-" for nil.
func Cell(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

// YesNo returns the text of a table's cell.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// Curl returns a request with an API key that can be pasted into a shell.
func Curl(url, key string) string {
	return fmt.Sprintf("curl -H 'Authorization: Bearer %s' '%s'", key, url)
}

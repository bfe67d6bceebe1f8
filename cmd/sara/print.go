package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"sara/translate"
)

// output is how a command prints its result.
type output struct {
	JSON bool `name:"json" help:"Print JSON, for programs."`
}

// A record is one row of a table. Its JSON form is its own.
type record interface {
	header() []string
	cells() []string
}

// one prints a single record.
func one[R record](o output, w io.Writer, r R) error {
	if o.JSON {
		return printJSON(w, r)
	}
	return printTable(w, r.header(), [][]string{r.cells()})
}

// many prints a list of records; an empty one is [] or the header alone.
func many[R record](o output, w io.Writer, list []R) error {
	if o.JSON {
		return printJSON(w, list)
	}
	var none R
	rows := make([][]string, len(list))
	for i, r := range list {
		rows[i] = r.cells()
	}
	return printTable(w, none.header(), rows)
}

// printJSON writes v on a line of its own.
func printJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

func printTable(w io.Writer, header []string, rows [][]string) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		if _, err := fmt.Fprintln(table, strings.TrimRight(strings.Join(row, "\t"), "\t")); err != nil {
			return err
		}
	}
	return table.Flush()
}

// each maps a list; an empty one stays a list, so that it prints as [].
func each[From, To any](list []From, convert func(From) To) []To {
	converted := make([]To, len(list))
	for i := range list {
		converted[i] = convert(list[i])
	}
	return converted
}

// timestamp is how instants are printed: ISO 8601, UTC.
func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// optionalTime is null in JSON when there is none.
func optionalTime(t *time.Time) *string {
	if t == nil {
		return nil
	}
	text := timestamp(*t)
	return &text
}

// optionalDate is null in JSON when there is none.
func optionalDate(d *translate.Date) *string {
	if d == nil {
		return nil
	}
	text := d.String()
	return &text
}

// cell is the text of what may be absent in a table.
func cell(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

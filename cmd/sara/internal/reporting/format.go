package reporting

import (
	"bufio"
	"encoding/csv"
	"io"
	"strings"

	"github.com/tidwall/gjson"

	"sara/archive"
)

// A Format is one of a report's files.
type Format string

// The formats.
const (
	CSV    Format = "csv"
	NDJSON Format = "ndjson" // an object a line
	JSON   Format = "json"   // an array of objects
)

func (f Format) extension() string { return string(f) }

// WriteRows writes rows, which are JSON objects. In CSV they have these columns, which are paths such as totals.clicks, and a quote (')
// precedes texts that a spreadsheet would run as a formula, as in the server's own CSV.
func WriteRows(w io.Writer, f Format, columns []string, rows [][]byte) error {
	if f == CSV {
		return writeCSV(w, columns, rows)
	}
	out := bufio.NewWriter(w)
	opening, separator, closing := "", "\n", "\n"
	if f == JSON {
		opening, separator, closing = "[\n", ",\n", "\n]\n"
	}
	if len(rows) == 0 {
		closing = strings.TrimPrefix(closing, "\n")
	}
	_, _ = out.WriteString(opening) // Flush returns the error
	for i, row := range rows {
		if i > 0 {
			_, _ = out.WriteString(separator)
		}
		_, _ = out.Write(row)
	}
	_, _ = out.WriteString(closing)
	return out.Flush()
}

func writeCSV(w io.Writer, columns []string, rows [][]byte) error {
	out := csv.NewWriter(w)
	_ = out.Write(columns) // Error returns the error
	cells := make([]string, len(columns))
	for _, row := range rows {
		for i, value := range gjson.GetManyBytes(row, columns...) {
			cells[i] = cell(value)
		}
		_ = out.Write(cells)
	}
	out.Flush()
	return out.Error()
}

// cell returns a value in CSV: numbers as the server wrote them, null as nothing, a list joined.
func cell(value gjson.Result) string {
	switch {
	case value.Type == gjson.String:
		return archive.GuardFormula(value.String())
	case value.IsArray():
		var parts []string
		for _, part := range value.Array() {
			parts = append(parts, part.String())
		}
		return archive.GuardFormula(strings.Join(parts, "; "))
	case value.Type == gjson.Null:
		return ""
	}
	return value.Raw
}

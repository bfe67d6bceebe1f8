package reporting

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"

	"sara/archive"
	"sara/proxy/tabular"
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

// writeRows writes rows, which are JSON objects. In CSV they have these columns, which are paths such as totals.clicks, and a quote (')
// precedes texts that a spreadsheet would run as a formula, as in the server's own CSV.
func writeRows(w io.Writer, f Format, columns []string, rows [][]byte) error {
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

// writeCSV writes rows by the same code as the server, whose CSV has the same rules.
func writeCSV(w io.Writer, columns []string, rows [][]byte) error {
	array := append(append([]byte{'['}, bytes.Join(rows, []byte{','})...), ']')
	text, err := tabular.New(columns, archive.GuardFormula).AppendCSV(nil, array)
	if err != nil {
		return fmt.Errorf("an answer has odd rows: %w", err)
	}
	_, err = w.Write(text)
	return err
}

package archive

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize/english"

	"sara/archive/tablefile"
)

func writeCSV(w io.Writer, records iter.Seq2[Record, error]) error {
	out := csv.NewWriter(w)
	names := columnNames()
	if err := out.Write(names[:]); err != nil {
		return err
	}
	for r, err := range records {
		if err != nil {
			return err
		}
		err = out.Write([]string{r.Date.String(), DimensionName(r.Dimension), GuardFormula(r.Key), strconv.FormatInt(r.Clicks, 10),
			strconv.FormatInt(r.Impressions, 10), strconv.FormatFloat(r.Position, 'g', -1, 64)})
		if err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// A spreadsheet runs text that starts with one of these as a formula, and anyone can put such a text into the data by searching for it
// (CSV injection). Japanese Excel also accepts the full-width forms.
const formulaStarts = "=+-@\t\r\n＝＋－＠"

// formulaQuote before a formula makes it text.
const formulaQuote = "'"

// startsFormula reports whether a key is a formula after any number of quotes. A key that already has quotes gets one more, so
// exactly the guarded keys lose one.
func startsFormula(key string) bool {
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(key, formulaQuote))
	return strings.ContainsRune(formulaStarts, first)
}

// GuardFormula returns a text that no spreadsheet runs as a formula.
func GuardFormula(text string) string {
	if startsFormula(text) {
		return formulaQuote + text
	}
	return text
}

// unguardFormula is the inverse of GuardFormula. In a file of another program, a formula without a guard stays as it is; only a key
// that is quotes followed by a formula loses a quote, because it is indistinguishable from a guarded one.
func unguardFormula(key string) string {
	if startsFormula(key) {
		return strings.TrimPrefix(key, formulaQuote)
	}
	return key
}

func readCSV(in io.Reader, yield func(FileRecord, error) bool) error {
	c := tablefile.NewCSVReader(in)
	if err := readHeader(c); err != nil {
		return err
	}
	for {
		err := c.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return csvError(c, err)
		}
		var columns [columnCount]string
		if c.Fields() != len(columns) {
			return recordError(Place{Number: c.Line()}, "", "it has %s, not %d", english.Plural(c.Fields(), "column", ""), len(columns))
		}
		for i := range columns {
			columns[i] = string(c.Field(i))
		}
		columns[keyColumn] = unguardFormula(columns[keyColumn])
		r, err := parseRecord(Place{Number: c.Line()}, columns)
		if err != nil {
			return err
		}
		if !yield(r, nil) {
			return errStopped
		}
	}
}

// csvError names the record of a syntax error.
func csvError(c *tablefile.CSVReader, err error) error {
	if syntax, ok := errors.AsType[tablefile.SyntaxError](err); ok {
		return recordError(Place{Number: c.Line()}, "", "%s", syntax)
	}
	return err
}

// readHeader reads the column names.
func readHeader(c *tablefile.CSVReader) error {
	names := columnNames()
	want := strings.Join(names[:], ",")
	if err := c.Read(); err != nil {
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("the file is empty: it must start with the line %s", want)
		}
		return fmt.Errorf("header: %w", csvError(c, err))
	}
	if c.Fields() != len(names) {
		return fmt.Errorf("the header has %s: it must be %s", english.Plural(c.Fields(), "column", ""), want)
	}
	for i, name := range names {
		if got := string(c.Field(i)); got != name {
			return fmt.Errorf("column %d of the header is %.40q, not %q: it must be %s", i+1, got, name, want)
		}
	}
	return nil
}

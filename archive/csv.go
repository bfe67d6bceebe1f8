package archive

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
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
		err = out.Write([]string{r.Date.String(), dimensionName(r.Dimension), guardFormula(r.Key), strconv.FormatInt(r.Clicks, 10),
			strconv.FormatInt(r.Impressions, 10), strconv.FormatFloat(r.Position, 'g', -1, 64)})
		if err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// A spreadsheet runs text that starts with one of these as a formula, and anyone can search for one on the web (CSV injection).
const formulaStarts = "=+-@\t\r\n"

// formulaQuote in front of a formula makes it text.
const formulaQuote = "'"

// startsFormula reports whether a key is a formula behind any number of quotes. Those that have quotes get one more, so that
// exactly the guarded keys lose one.
func startsFormula(key string) bool {
	bare := strings.TrimLeft(key, formulaQuote)
	return bare != "" && strings.IndexByte(formulaStarts, bare[0]) >= 0
}

// GuardFormula returns a text that no spreadsheet runs as a formula.
func GuardFormula(text string) string { return guardFormula(text) }

func guardFormula(key string) string {
	if startsFormula(key) {
		return formulaQuote + key
	}
	return key
}

// unguardFormula is the inverse of guardFormula. In a file of another program, a formula without a guard stays as it is, and only a key
// that is quotes and then a formula loses a quote, because it is indistinguishable from a guarded one.
func unguardFormula(key string) string {
	if startsFormula(key) {
		return strings.TrimPrefix(key, formulaQuote)
	}
	return key
}

func readCSV(in io.Reader, yield func(FileRecord, error) bool) error {
	c := &csvReader{in: bufio.NewReaderSize(in, 1<<16)}
	if err := c.header(); err != nil {
		return err
	}
	for {
		err := c.read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return c.recordError(err)
		}
		var columns [6]string
		if len(c.ends) != len(columns) {
			return recordError(c.place(), "", "it has %d columns, not %d", len(c.ends), len(columns))
		}
		for i := range columns {
			columns[i] = c.field(i)
		}
		columns[2] = unguardFormula(columns[2])
		r, err := parseRecord(c.place(), columns)
		if err != nil {
			return err
		}
		if !yield(r, nil) {
			return errStopped
		}
	}
}

// A csvReader reads records as defined by RFC 4180, with line ends of either kind, and skips empty lines. encoding/csv does not
// fit: it drops a carriage return in front of a line feed within quotes, which is a part of the key, and reads the whole rest of
// a file into memory if a quote is not closed.
type csvReader struct {
	in    *bufio.Reader
	text  []byte // of all fields of the record
	ends  []int  // the end of each field in text
	start int    // the line on which the record starts
	ended int    // lines whose end has been read
}

func (c *csvReader) place() Place { return Place{Number: c.start} }

// errCSV is a syntax error of a record, as opposed to a failure to read the file.
type errCSV string

func (e errCSV) Error() string { return string(e) }

func (c *csvReader) recordError(err error) error {
	if syntax := errCSV(""); errors.As(err, &syntax) {
		return recordError(c.place(), "", "%s", syntax)
	}
	return err
}

// header reads the column names. Some programs write a byte order mark in front of them.
func (c *csvReader) header() error {
	const mark = "\ufeff"
	if start, err := c.in.Peek(len(mark)); err == nil && string(start) == mark {
		_, _ = c.in.Discard(len(mark)) // it has been read already
	}
	names := columnNames()
	want := strings.Join(names[:], ",")
	if err := c.read(); err != nil {
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("the file is empty: it must start with the line %s", want)
		}
		return fmt.Errorf("header: %w", err)
	}
	if len(c.ends) != len(names) {
		return fmt.Errorf("the header has %d columns: it must be %s", len(c.ends), want)
	}
	for i, name := range names {
		if got := c.field(i); got != name {
			return fmt.Errorf("column %d of the header is %.40q, not %q: it must be %s", i+1, got, name, want)
		}
	}
	return nil
}

func (c *csvReader) field(i int) string {
	start := 0
	if i > 0 {
		start = c.ends[i-1]
	}
	return string(c.text[start:c.ends[i]])
}

// read reads the next record, or returns io.EOF.
func (c *csvReader) read() error {
	for {
		c.text, c.ends, c.start = c.text[:0], c.ends[:0], c.ended+1
		quoted := false
		for more := true; more; {
			var err error
			start := len(c.text)
			if more, quoted, err = c.readField(); err != nil {
				return err
			}
			if !more && !quoted {
				c.text = append(c.text[:start], bytes.TrimSuffix(c.text[start:], []byte("\r"))...)
			}
			c.ends = append(c.ends, len(c.text))
		}
		if len(c.ends) > 1 || len(c.text) > 0 || quoted {
			return nil
		}
		if _, err := c.in.Peek(1); err != nil {
			return err
		}
	}
}

func (c *csvReader) readByte() (byte, error) {
	b, err := c.in.ReadByte()
	if err == nil && b == '\n' {
		c.ended++
	}
	return b, err
}

// readField appends the text of the next field, and reports whether the record has another one.
func (c *csvReader) readField() (more, quoted bool, err error) {
	b, err := c.readByte()
	if err == nil && b == '"' {
		more, err = c.readQuoted()
		return more, true, err
	}
	for ; err == nil; b, err = c.readByte() {
		switch b {
		case ',', '\n':
			return b == ',', false, nil
		case '"':
			return false, false, errCSV("a quote is inside a field that does not start with one")
		}
		if err := c.append(b); err != nil {
			return false, false, err
		}
	}
	return false, false, endIsNil(err)
}

// readQuoted reads a field after its opening quote.
func (c *csvReader) readQuoted() (more bool, err error) {
	for {
		b, err := c.readByte()
		if errors.Is(err, io.EOF) {
			return false, errCSV("a quote is not closed")
		}
		if err != nil {
			return false, err
		}
		if b == '"' {
			b, err = c.readByte()
			if err != nil || b != '"' {
				return c.afterQuoted(b, err)
			}
		}
		if err := c.append(b); err != nil {
			return false, err
		}
	}
}

// afterQuoted reads what follows a closing quote: the end of the field, the record or the file.
func (c *csvReader) afterQuoted(b byte, err error) (more bool, _ error) {
	if err == nil && b == '\r' {
		if b, err = c.readByte(); err == nil && b != '\n' {
			b = '\r'
		}
	}
	switch {
	case err != nil:
		return false, endIsNil(err)
	case b == ',' || b == '\n':
		return b == ',', nil
	}
	return false, errCSV("a closing quote is followed by text")
}

func (c *csvReader) append(b byte) error {
	if len(c.text) >= longestLine {
		return errCSV(fmt.Sprintf("it is longer than %d bytes: is a quote unclosed?", longestLine))
	}
	c.text = append(c.text, b)
	return nil
}

func endIsNil(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

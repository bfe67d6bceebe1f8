package tablefile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// A CSVReader reads records as defined by RFC 4180, with line ends of either kind, and skips empty lines. encoding/csv does not
// fit: it drops a carriage return before a line feed within quotes, although it is part of the key, and it reads the whole rest of
// a file into memory if a quote is not closed.
type CSVReader struct {
	in    *bufio.Reader
	text  []byte // the fields of the record, concatenated
	ends  []int  // the end of each field in text
	start int    // the line on which the record starts
	ended int    // lines read to their end
}

// longestRecord bounds a record of a CSV file, and a line of a JSON file, in bytes.
const longestRecord = 1 << 20

// mostFields bounds the fields of a record, which may all be empty: real tables have about twenty columns.
const mostFields = 10_000

// NewCSVReader returns a reader of the records after a byte order mark, which some programs write.
func NewCSVReader(in io.Reader) *CSVReader {
	c := &CSVReader{in: bufio.NewReaderSize(in, 1<<16)}
	const mark = "\ufeff"
	if start, err := c.in.Peek(len(mark)); err == nil && string(start) == mark {
		_, _ = c.in.Discard(len(mark)) // it is already in the buffer
	}
	return c
}

// A SyntaxError is a syntax error in a record, as opposed to a failure to read the file.
type SyntaxError string

// Error implements error.
func (e SyntaxError) Error() string { return string(e) }

// Line returns the line on which the last record starts, from 1.
func (c *CSVReader) Line() int { return c.start }

// Fields returns the number of fields of the last record.
func (c *CSVReader) Fields() int { return len(c.ends) }

// Field returns a field of the last record. The bytes are valid until the next one is read.
func (c *CSVReader) Field(i int) []byte {
	start := 0
	if i > 0 {
		start = c.ends[i-1]
	}
	return c.text[start:c.ends[i]]
}

// Read reads the next record, or returns io.EOF. A SyntaxError concerns the record, any other error the file.
func (c *CSVReader) Read() error {
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
			if len(c.ends) >= mostFields {
				return SyntaxError(fmt.Sprintf("it has more than %d fields", mostFields))
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

func (c *CSVReader) readByte() (byte, error) {
	b, err := c.in.ReadByte()
	if err == nil && b == '\n' {
		c.ended++
	}
	return b, err
}

// readField appends the text of the next field, and reports whether the record has another one.
func (c *CSVReader) readField() (more, quoted bool, err error) {
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
			return false, false, SyntaxError("a quote is inside a field that does not start with one")
		}
		if err := c.append(b); err != nil {
			return false, false, err
		}
	}
	return false, false, endIsNil(err)
}

// readQuoted reads a field after its opening quote.
func (c *CSVReader) readQuoted() (more bool, err error) {
	for {
		b, err := c.readByte()
		if errors.Is(err, io.EOF) {
			return false, SyntaxError("a quote is not closed")
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
func (c *CSVReader) afterQuoted(b byte, err error) (more bool, _ error) {
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
	return false, SyntaxError("a closing quote is followed by text")
}

func (c *CSVReader) append(b byte) error {
	if len(c.text) >= longestRecord {
		return SyntaxError(fmt.Sprintf("it is longer than %d bytes: is a quote unclosed?", longestRecord))
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

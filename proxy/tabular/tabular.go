// Package tabular writes the rows of a JSON answer as CSV (RFC 4180) or as NDJSON, one row a line.
//
// It reads JSON as sara writes it: compact, and valid. Rows are converted one by one, so that a conversion needs the memory of one row
// in addition to its output. The columns of a CSV file are those of a Table, in its order, whatever the rows are: a file without
// rows has the same header line. NDJSON copies each row as it is.
//
// A Table is immutable and safe for concurrent use.
package tabular

import (
	"bytes"
	"fmt"
	"strings"

	"sara/proxy/media"
)

// A Table is the columns of a CSV file.
type Table struct {
	header  []byte // the first line
	columns int
	root    node
	guard   func(string) string
}

// A node is a member of the rows: a column, or an object that has columns below it.
type node struct {
	name    string
	column  int // its own, or the first one below it
	columns int // how many
	members []node
}

// New returns the table with these columns. A dot in a name leads to a member of an object, or of each object of a list: columns
// of one object must be neighbours. guard returns a text of a row as it has to be in a cell, so that no spreadsheet runs it as a formula.
func New(columns []string, guard func(string) string) *Table {
	t := &Table{columns: len(columns), root: node{columns: len(columns)}, guard: guard}
	for i, path := range columns {
		at := &t.root
		for name := range strings.SplitSeq(path, ".") {
			at = at.below(name, i)
		}
		if i > 0 {
			t.header = append(t.header, ',')
		}
		t.header = appendCell(t.header, []byte(path))
	}
	t.header = append(t.header, "\r\n"...)
	return t
}

// below returns the member of n with a name that has the column, and creates it if it is not there.
func (n *node) below(name string, column int) *node {
	last := len(n.members) - 1
	if last < 0 || n.members[last].name != name {
		n.members = append(n.members, node{name: name, column: column})
		last++
	}
	n.members[last].columns++
	return &n.members[last]
}

// find returns the member of n with a name, nil if there is none. Rows have their members in the order of the columns, so the one
// after the last one found is nearly always the right one.
func (n *node) find(name []byte, next *int) *node {
	if *next < len(n.members) && n.members[*next].name == string(name) {
		*next++
		return &n.members[*next-1]
	}
	for i := range n.members {
		if n.members[i].name == string(name) {
			*next = i + 1
			return &n.members[i]
		}
	}
	return nil
}

// Convert returns the rows of a JSON answer in another format, and its meta.
func (t *Table) Convert(f media.Format, answer []byte) (body, meta []byte, err error) {
	rows, meta, err := find(answer)
	if err != nil {
		return nil, nil, err
	}
	if f == media.CSV {
		body, err = t.AppendCSV(make([]byte, 0, len(rows)/2), rows) // names of members are half of most rows
	} else {
		body, err = appendNDJSON(make([]byte, 0, len(rows)), rows)
	}
	return body, meta, err
}

// AppendCSV appends a header line, and a line for each row of a JSON array of objects. Lines end in CR LF. A null is an empty cell, and
// the elements of a list are joined with "; ". Members that are not columns are left out.
func (t *Table) AppendCSV(dst, rows []byte) ([]byte, error) {
	w := csvWriter{table: t, in: scanner{text: rows}, cells: make([]cell, t.columns)}
	dst = append(dst, t.header...)
	err := w.in.list(func() error {
		for i := range w.cells {
			w.cells[i] = cell{list: w.cells[i].list[:0]}
		}
		if err := w.object(&t.root); err != nil {
			return err
		}
		dst = w.appendRow(dst)
		return nil
	})
	if err == nil {
		err = w.in.end()
	}
	return dst, err
}

// appendNDJSON appends each element of a JSON array as a line.
func appendNDJSON(dst, rows []byte) ([]byte, error) {
	in := scanner{text: rows}
	err := in.list(func() error {
		row, err := in.value()
		dst = append(append(dst, row...), '\n')
		return err
	})
	if err == nil {
		err = in.end()
	}
	return dst, err
}

// A csvWriter converts one row at a time.
type csvWriter struct {
	table *Table
	in    scanner
	cells []cell // of the row
	lists int    // how many lists the present value is in
}

// A cell is the value of a column in a row: JSON as it is, nil for none, or the elements of a list.
type cell struct {
	raw      []byte
	isList   bool
	list     []byte // joined; the bytes are reused for the next row
	elements int
}

// object reads an object, whose members go into the cells.
func (w *csvWriter) object(n *node) error {
	next := 0
	return w.in.object(func(name []byte) error {
		if m := n.find(name, &next); m != nil {
			return w.value(m)
		}
		_, err := w.in.value()
		return err
	})
}

func (w *csvWriter) value(n *node) error {
	switch c := w.in.peek(); {
	case c == '[':
		return w.list(n)
	case c == '{' && n.members != nil:
		return w.object(n)
	}
	raw, err := w.in.value()
	switch {
	case err != nil || string(raw) == "null":
		return err
	case n.members != nil || raw[0] == '{':
		return fmt.Errorf("the value of %q does not fit its columns", n.name)
	}
	w.set(&w.cells[n.column], raw)
	return nil
}

// list reads a list. Each of its elements adds one to every column, an empty one if it has no value, so that the elements of neighbouring
// columns match.
func (w *csvWriter) list(n *node) error {
	cells := w.cells[n.column : n.column+n.columns]
	for i := range cells {
		cells[i].isList = true
	}
	w.lists++
	defer func() { w.lists-- }()
	outer, read := w.lists == 1, 0
	return w.in.list(func() error {
		if err := w.value(n); err != nil {
			return err
		}
		read++
		for i := range cells {
			if outer && cells[i].elements < read {
				w.set(&cells[i], nil)
			}
		}
		return nil
	})
}

// set sets the value of a cell, or adds it to the list that the cell holds.
func (w *csvWriter) set(c *cell, raw []byte) {
	if w.lists == 0 {
		c.raw = raw
		return
	}
	if c.elements++; c.elements > 1 {
		c.list = append(c.list, "; "...)
	}
	c.list = append(c.list, plain(raw)...)
}

func (w *csvWriter) appendRow(dst []byte) []byte {
	for i := range w.cells {
		if i > 0 {
			dst = append(dst, ',')
		}
		switch c := &w.cells[i]; {
		case c.isList:
			dst = w.appendText(dst, c.list)
		case len(c.raw) > 0 && c.raw[0] == '"':
			dst = w.appendText(dst, plain(c.raw))
		default: // a number or a boolean, which needs neither quotes nor a guard
			dst = append(dst, c.raw...)
		}
	}
	return append(dst, "\r\n"...)
}

func (w *csvWriter) appendText(dst, text []byte) []byte {
	if guarded := w.table.guard(view(text)); len(guarded) != len(text) {
		text = []byte(guarded)
	}
	return appendCell(dst, text)
}

// appendCell appends a cell, in quotes if it needs them.
func appendCell(dst, text []byte) []byte {
	if !needsQuotes(text) {
		return append(dst, text...)
	}
	dst = append(dst, '"')
	for {
		at := bytes.IndexByte(text, '"')
		if at < 0 {
			break
		}
		dst = append(append(dst, text[:at+1]...), '"')
		text = text[at+1:]
	}
	return append(append(dst, text...), '"')
}

func needsQuotes(text []byte) bool {
	for _, c := range text {
		if c == ',' || c == '"' || c == '\n' || c == '\r' {
			return true
		}
	}
	return false
}

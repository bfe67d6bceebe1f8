package console

import (
	"io"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

const (
	columnGap    = 2
	leastColumn  = 12 // to which a column may be shortened
	noteColumn   = "NOTE"
	noteIndent   = "    "
	lengthOfAnID = 36
	ellipsis     = "…"
)

// terminalWidth returns how many columns a terminal has; 0 if it is not a terminal.
func terminalWidth(w io.Writer) int {
	file, ok := Raw(w).(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// A table is printed with aligned columns. One that is too wide for a terminal puts notes below their rows, then leaves out optional
// columns, and then shortens the widest ones. Ids are never shortened, because a part of one is no use.
type table struct {
	header   []string
	rows     [][]string
	optional []string // headers of columns that may be left out, the first to go first
	notes    []string // by row; nil: in their column
}

// newTable completes short rows with empty cells, and puts each cell on one line.
func newTable(header []string, rows [][]string) table {
	return table{header: header, rows: Each(rows, func(row []string) []string {
		return append(Each(row, OneLine), make([]string, len(header)-len(row))...)
	})}
}

// OneLine replaces control characters with spaces: line ends break a table, and others are commands to the terminal.
func OneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp) {
			return ' '
		}
		return r
	}, text)
}

func (t *table) print(w io.Writer, limit int) error {
	if limit > 0 {
		t.fit(limit)
	}
	widths := make([]int, len(t.header))
	for column := range widths {
		widths[column] = t.columnWidth(column)
	}
	var text strings.Builder
	writeRow(&text, widths, t.header)
	for i, row := range t.rows {
		writeRow(&text, widths, row)
		if t.notes != nil && t.notes[i] != "" {
			for _, line := range wrap(t.notes[i], limit-len(noteIndent)) {
				text.WriteString(noteIndent + line + "\n")
			}
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// writeRow writes a line of cells that are padded to the widths of their columns.
func writeRow(text *strings.Builder, widths []int, row []string) {
	var line strings.Builder
	for column, cell := range row {
		padding := widths[column] - utf8.RuneCountInString(cell) + columnGap
		line.WriteString(cell + strings.Repeat(" ", padding))
	}
	text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
}

func (t *table) fit(limit int) {
	if last := len(t.header) - 1; t.width() > limit && t.header[last] == noteColumn {
		for _, row := range t.rows {
			t.notes = append(t.notes, row[last])
		}
		t.remove(last)
	}
	for _, name := range t.optional {
		if at := slices.Index(t.header, name); at >= 0 && t.least() > limit {
			t.remove(at)
		}
	}
	for excess := t.width() - limit; excess > 0; excess = t.width() - limit {
		widest := t.widest()
		if widest < 0 {
			return
		}
		t.shorten(widest, max(leastColumn, t.columnWidth(widest)-excess))
	}
}

// remove removes a column. Rows may belong to a caller, so they are copied.
func (t *table) remove(column int) {
	t.header = slices.Delete(slices.Clone(t.header), column, column+1)
	t.rows = Each(t.rows, func(row []string) []string { return slices.Delete(slices.Clone(row), column, column+1) })
}

func (t *table) shorten(column, width int) {
	t.rows = Each(t.rows, func(row []string) []string {
		row = slices.Clone(row)
		if cell := []rune(row[column]); len(cell) > width {
			row[column] = string(cell[:width-1]) + ellipsis
		}
		return row
	})
}

func (t *table) columnWidth(column int) int {
	width := utf8.RuneCountInString(t.header[column])
	for _, row := range t.rows {
		width = max(width, utf8.RuneCountInString(row[column]))
	}
	return width
}

// width is that of the whole table.
func (t *table) width() int {
	width := -columnGap
	for column := range t.header {
		width += t.columnWidth(column) + columnGap
	}
	return width
}

// least is the width of the table if all its columns are as short as they may be.
func (t *table) least() int {
	width := -columnGap
	for column := range t.header {
		least := t.columnWidth(column)
		if !t.hasIDs(column) {
			least = min(least, leastColumn)
		}
		width += least + columnGap
	}
	return width
}

// widest returns the widest column that may be shortened, -1 if there is none.
func (t *table) widest() int {
	widest := -1
	for column := range t.header {
		width := t.columnWidth(column)
		isShort := width <= max(leastColumn, utf8.RuneCountInString(t.header[column]))
		if !isShort && !t.hasIDs(column) && (widest < 0 || width > t.columnWidth(widest)) {
			widest = column
		}
	}
	return widest
}

// hasIDs reports whether a column has ids, which are UUIDs.
func (t *table) hasIDs(column int) bool {
	return slices.ContainsFunc(t.rows, func(row []string) bool {
		cell := row[column]
		return len(cell) == lengthOfAnID && cell[8] == '-' && cell[13] == '-'
	})
}

// wrap breaks a text into lines of a width, at spaces.
func wrap(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}

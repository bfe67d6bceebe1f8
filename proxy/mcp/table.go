package mcp

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

const (
	columnSeparator = " | "
	noValue         = "-"
)

// title returns the name of a list, and how many rows are shown of how many.
func title(list string, rows []gjson.Result, meta gjson.Result) string {
	name := list[strings.LastIndexByte(list, '.')+1:]
	cut := meta.Get("cut." + sjsonKey(list))
	switch {
	case cut.Exists() && ofDays(rows):
		return fmt.Sprintf("%s (the newest %s of %s)", name, cut.Get("shown"), cut.Get("of"))
	case cut.Exists():
		return fmt.Sprintf("%s (%s of %s)", name, cut.Get("shown"), cut.Get("of"))
	case len(rows) == 0:
		return name + ": none"
	}
	return fmt.Sprintf("%s (%d)", name, len(rows))
}

// writeTable writes a list of objects as a table with these columns; nil for all that its first row has. Its head says what the rows have
// together, see share.
func writeTable(b *strings.Builder, title string, columns []string, rows []gjson.Result, totals gjson.Result) {
	if len(rows) == 0 {
		fmt.Fprintf(b, "\n%s\n", title)
		return
	}
	if columns == nil {
		columns = columnsOf(rows[0])
	}
	fmt.Fprintf(b, "\n%s%s\n%s\n", title, share(rows, totals), strings.Join(columns, columnSeparator))
	cells := make([]string, len(columns))
	for _, row := range rows {
		for i, column := range columns {
			cells[i] = noValue
			if !lacksAverage(row, column) {
				cells[i] = cell(column, row.Get(sjsonKey(column)))
			}
		}
		b.WriteString(strings.Join(cells, columnSeparator))
		b.WriteString("\n")
	}
}

// columnsOf returns the names of an object's members.
func columnsOf(row gjson.Result) (columns []string) {
	row.ForEach(func(key, value gjson.Result) bool {
		columns = append(columns, key.String())
		return true
	})
	return columns
}

// cell returns a value in one line, in quotes if it looks like several cells: search terms are what people type, or paste.
func cell(column string, value gjson.Result) string {
	text := cellText(column, value)
	if strings.ContainsAny(text, "\r\n") {
		text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\r' || r == '\n' }), " ")
	}
	if strings.Contains(" "+text+" ", columnSeparator) {
		return strconv.Quote(text)
	}
	return text
}

func cellText(column string, value gjson.Result) string {
	switch {
	case value.IsObject() && value.Get("clicks").Exists():
		return figures(value)
	case value.IsObject():
		return compact(value)
	case value.IsArray():
		var parts []string
		for _, member := range value.Array() {
			if member.IsObject() {
				parts = append(parts, compact(member))
				continue
			}
			parts = append(parts, member.String())
		}
		return strings.Join(parts, "; ")
	case value.Type == gjson.Null:
		return noValue
	case column == "ctr":
		return percent(value.Float())
	case value.Type == gjson.Number && strings.Contains(value.Raw, "."):
		return decimal(value.Float())
	}
	return value.String()
}

// share says what part of the totals the rows account for, or what they have together if the totals are not known here.
func share(rows []gjson.Result, totals gjson.Result) string {
	if !rows[0].Get("clicks").Exists() || ofDays(rows) || rows[0].Get("clicks_delta").Exists() {
		return ""
	}
	var clicks float64
	for _, row := range rows {
		clicks += row.Get("clicks").Float()
	}
	together := counted(int(clicks), "click")
	if all := totals.Get("clicks").Float(); all > 0 {
		return fmt.Sprintf(": %s, %.0f %% of the totals", together, 100*clicks/all)
	}
	return ": " + together + " together, which is not the total (compare_periods has it)"
}

package mcp

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/tidwall/gjson"
)

// text returns the short form of a result: which days the figures cover, totals, tables, and what they do not show. The totals are those of
// all days of the tables, which the content may not have; they may be missing too. Those of a comparison lack the days that only one of its
// periods has, so rows are no share of them.
func (t *tool) text(c content, all gjson.Result) string {
	var b strings.Builder
	meta := gjson.GetBytes(c, "meta")
	writeOrigin(&b, meta)
	data := gjson.GetBytes(c, "data")
	totals := all
	if !all.IsObject() {
		totals = data.Get("totals")
	}
	if !data.Get("previous").IsObject() {
		all = totals
	}
	writeTotals(&b, totals, data)
	writeScalars(&b, data)
	for _, list := range t.lists {
		if rows := gjson.GetBytes(c, list); rows.IsArray() { // a list that is null is unknown, and its part is among the errors
			writeTable(&b, title(list, rows.Array(), meta), t.columns, rows.Array(), all)
		}
	}
	writeCaveats(&b, "", meta)
	meta.Get("parts").ForEach(func(part, origin gjson.Result) bool {
		writeCaveats(&b, part.String()+": ", origin)
		return true
	})
	return strings.TrimRight(b.String(), "\n")
}

// writeOrigin writes which days the figures cover, and where they come from.
func writeOrigin(b *strings.Builder, meta gjson.Result) {
	if days := meta.Get("date_range"); days.IsObject() {
		fmt.Fprintf(b, "%s to %s (Pacific days)", days.Get("start_date"), days.Get("end_date"))
		if source := sourceOf(meta); source != "" {
			fmt.Fprintf(b, ", source %s", source)
		}
		b.WriteString("\n")
	}
}

// sourceOf returns the source of a result, or the sources of its parts: which have which, unless all have one.
func sourceOf(meta gjson.Result) string {
	if source := meta.Get("source"); source.Type == gjson.String {
		return source.String()
	}
	var sources []string
	parts := map[string][]string{}
	meta.Get("parts").ForEach(func(part, origin gjson.Result) bool {
		if source := origin.Get("source"); source.Type == gjson.String {
			if parts[source.String()] == nil {
				sources = append(sources, source.String())
			}
			parts[source.String()] = append(parts[source.String()], part.String())
		}
		return true
	})
	if len(sources) > 1 {
		for i, source := range sources {
			sources[i] = source + " (" + strings.Join(parts[source], ", ") + ")"
		}
	}
	return strings.Join(sources, ", ")
}

// writeTotals writes the totals of all days, and how those of the days that can be compared changed.
func writeTotals(b *strings.Builder, all, data gjson.Result) {
	if !all.Get("clicks").Exists() {
		return
	}
	fmt.Fprintf(b, "Totals: %s\n", figures(all))
	totals, previous := data.Get("totals"), data.Get("previous")
	if !previous.IsObject() {
		return
	}
	if compared := figures(totals); compared != figures(all) {
		fmt.Fprintf(b, "Of the days that both periods have: %s\n", compared)
	}
	b.WriteString("Before")
	if start := previous.Get("start_date"); start.Exists() {
		fmt.Fprintf(b, " (%s to %s)", start, previous.Get("end_date"))
	}
	fmt.Fprintf(b, ": %s\n", figures(previous))
	was, is := previous.Get("clicks").Float(), totals.Get("clicks").Float()
	if was > 0 {
		fmt.Fprintf(b, "Clicks changed by %+.0f (%+.1f %%)\n", is-was, 100*(is-was)/was)
	}
}

func figures(r gjson.Result) string {
	return fmt.Sprintf("%s, %s, ctr %s, position %s", counted(int(r.Get("clicks").Int()), "click"),
		counted(int(r.Get("impressions").Int()), "impression"), percent(r.Get("ctr").Float()), decimal(r.Get("position").Float()))
}

// counted writes a number of things, without commas: a model may calculate with it.
func counted(n int, thing string) string {
	return strconv.Itoa(n) + " " + english.PluralWord(n, thing, "")
}

func percent(fraction float64) string { return strconv.FormatFloat(100*fraction, 'f', 2, 64) + " %" }

func decimal(x float64) string { return strconv.FormatFloat(x, 'f', 1, 64) }

// writeScalars writes the members of data that are not lists, one a line.
func writeScalars(b *strings.Builder, data gjson.Result) {
	data.ForEach(func(key, value gjson.Result) bool {
		switch name := key.String(); {
		case name == "totals" && value.Get("clicks").Exists(), name == "previous", value.IsArray(), value.Type == gjson.Null:
		case value.IsObject():
			if line := compact(value); line != "" {
				fmt.Fprintf(b, "%s: %s\n", name, line)
			}
		default:
			fmt.Fprintf(b, "%s: %s\n", name, value.String())
		}
		return true
	})
}

// compact writes the scalar members of an object in one line. Deeper ones are in the structured content.
func compact(object gjson.Result) string {
	var parts []string
	object.ForEach(func(key, value gjson.Result) bool {
		if !value.IsArray() && !value.IsObject() && value.Type != gjson.Null {
			parts = append(parts, key.String()+" "+value.String())
		}
		return true
	})
	return strings.Join(parts, ", ")
}

const columnSeparator = " | "

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
			cells[i] = cell(column, row.Get(sjsonKey(column)))
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
		return "-"
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

// writeNext writes which rows are missing after those of the result, and the one offset that has them. Only some lists know how many there
// are in all.
func writeNext(b *strings.Builder, meta gjson.Result) {
	offset, shown, total := meta.Get("offset").Int(), meta.Get("row_count").Int(), meta.Get("total").Int()
	switch how := meta.Get("cut.how"); {
	case how.Exists():
		fmt.Fprintf(b, "Cut to fit a result. %s\n", how)
	case meta.Get("has_more").Bool():
		fmt.Fprintf(b, "More rows: call again with offset %d.\n", offset+shown)
	case shown == 0 && total > 0:
		fmt.Fprintf(b, "No rows from offset %d on: there are %d.\n", offset, total)
	case offset+shown < total:
		fmt.Fprintf(b, "More rows, %d in all: call again with offset %d.\n", total, offset+shown)
	}
}

// writeCaveats writes what limits the figures, of a part of the result if there is a label.
func writeCaveats(b *strings.Builder, label string, meta gjson.Result) {
	if label == "" {
		b.WriteString("\n")
	}
	if reason := meta.Get("stale_reason"); reason.Type == gjson.String {
		fmt.Fprintf(b, "%sStale: %s\n", label, reason)
	}
	if meta.Get("truncated_by").String() == "clicks" {
		fmt.Fprintf(b, "%sTruncated: rows with fewer clicks exist. A key that is not listed is unknown, not zero.\n", label)
	}
	if label == "" {
		writeNext(b, meta)
	}
	for _, note := range meta.Get("notes").Array() {
		fmt.Fprintf(b, "Note: %s\n", note)
	}
	meta.Get("errors").ForEach(func(part, failed gjson.Result) bool {
		fmt.Fprintf(b, "Missing: %s failed with %s: %s\n", part, failed.Get("code"), failed.Get("message"))
		return true
	})
}

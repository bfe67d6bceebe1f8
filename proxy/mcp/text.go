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
	counts := counted(int(r.Get("clicks").Int()), "click") + ", " + counted(int(r.Get("impressions").Int()), "impression")
	if lacksAverage(r, "position") {
		return counts
	}
	return fmt.Sprintf("%s, ctr %s, position %s", counts, percent(r.Get("ctr").Float()), decimal(r.Get("position").Float()))
}

// lacksAverage reports whether a member of figures is an average over no impressions. REST has 0 there, which a model could read as a
// position before the first.
func lacksAverage(figures gjson.Result, name string) bool {
	over := "impressions"
	switch name {
	case "ctr", "position":
	case "previous_position":
		over = "previous_impressions"
	default:
		return false
	}
	impressions := figures.Get(over)
	return impressions.Exists() && impressions.Int() == 0
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

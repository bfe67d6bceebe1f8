package proxy

import (
	"fmt"
	"mime"
	"strconv"
	"strings"
	"testing"
)

// negotiated returns the format that Accept lines lead to.
func negotiated(lines ...string) format {
	var a acceptance
	for _, line := range lines {
		a.read([]byte(line))
	}
	return a.format()
}

func TestAccept(t *testing.T) {
	f := func(want format, lines ...string) {
		t.Helper()
		if got := negotiated(lines...); got != want {
			t.Errorf("Accept %q leads to %s, want %s", lines, got, want)
		}
	}
	// JSON, as before there were other formats.
	f(formatJSON)
	f(formatJSON, "")
	f(formatJSON, "*/*")
	f(formatJSON, "application/json")
	f(formatJSON, "APPLICATION/JSON; charset=UTF-8")
	f(formatJSON, "application/*")
	f(formatJSON, "text/html, */*")
	f(formatJSON, "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8")
	f(formatJSON, "application/json, text/plain, */*")
	f(formatJSON, "application/json, text/csv, application/x-ndjson") // server's choice: all are equal
	f(formatJSON, "text/csv, application/json")
	// What cannot be had.
	f(formatJSON, "image/png")
	f(formatJSON, "text/html")
	f(formatJSON, "text/csv;q=0")
	f(formatJSON, "*/*;q=0")
	f(formatJSON, "text/csv;charset=utf-16")
	f(formatJSON, "text/csv;header=absent")
	// By name.
	f(formatCSV, "text/csv")
	f(formatCSV, "Text/CSV")
	f(formatCSV, " text/csv ; charset=\"utf-8\" ; header=present ")
	f(formatCSV, "text/csv, */*")
	f(formatCSV, "*/*, text/csv")
	f(formatCSV, "text/html", "text/csv")
	f(formatCSV, "text/csv, application/x-ndjson")
	f(formatNDJSON, "application/x-ndjson")
	f(formatNDJSON, "application/x-ndjson, application/*")
	// By quality.
	f(formatCSV, "application/json;q=0.9, text/csv")
	f(formatCSV, "application/json;q=0.899, text/csv;q=0.9")
	f(formatJSON, "application/json, text/csv;q=0.999")
	f(formatNDJSON, "text/csv;q=0.5, application/x-ndjson;q=0.6, */*;q=0.1")
	f(formatCSV, "text/csv;q=0.001")
	f(formatJSON, "text/csv;q=0.5, */*;q=0.6")
	f(formatCSV, "*/*;q=0.5, text/csv;q=0.6")
	f(formatCSV, "text/csv ; Q=1.000 , */*;q=0.5")
	// By specificity: the most specific range decides, whatever its place.
	f(formatCSV, "text/*")
	f(formatCSV, "text/*, */*;q=0.5")
	f(formatJSON, "text/csv;q=0.1, text/*, application/json;q=0.5")
	f(formatNDJSON, "*/*, application/json;q=0.1, text/csv;q=0.1")
	f(formatCSV, "*/*;q=0.5, application/*;q=0")
	f(formatJSON, "*/*, text/csv;q=0, application/x-ndjson;q=0")
	f(formatCSV, "text/csv;header=present, text/csv;q=0.1, */*;q=0.5")
	f(formatJSON, "text/csv;header=present;q=0.1, text/csv, */*;q=0.5")
	f(formatCSV, "text/csv;q=0.1", "text/csv;q=0.9, application/json;q=0.5")
	// What is malformed is ignored, and only that.
	f(formatJSON, "text/csv;q=abc")
	f(formatJSON, "text/csv;q=1.1")
	f(formatJSON, "text/csv;q=-1")
	f(formatJSON, "text/csv;q=0.1234")
	f(formatJSON, "text/csv;q=")
	f(formatJSON, "csv, text, /, */csv, , ;")
	f(formatCSV, ",, text/csv;q=0.5;; , text/html;q=x")
	f(formatCSV, `text/html;a="x, application/json;q=1", text/csv;q=0.5`)
	f(formatCSV, "text/csv;q=0.5;extension=1")
}

// slowAccept is RFC 9110, section 12.5.1, written down without regard to cost, for lines without quoted strings.
func slowAccept(line string) format {
	available := map[format]string{formatJSON: "application/json", formatCSV: "text/csv", formatNDJSON: "application/x-ndjson"}
	best, bestWeight, bestNamed := formatJSON, 0.0, false
	for f := range formats {
		precedence, weight := 0, 0.0
		for element := range strings.SplitSeq(strings.ToLower(line), ",") {
			parts := strings.Split(element, ";")
			own, q, malformed := 0, 1.0, false
			switch name := strings.TrimSpace(parts[0]); {
			case name == "*/*":
				own = 1
			case name == strings.Split(available[f], "/")[0]+"/*":
				own = 2
			case name == available[f]:
				own = 3
			}
			for _, part := range parts[1:] {
				part = strings.TrimSpace(part)
				if value, ok := strings.CutPrefix(part, "q="); ok || part == "q" {
					q, malformed = slowWeight(strings.TrimSpace(value))
					break
				}
				switch {
				case part == "" || strings.HasPrefix(part, "=") || own == 0:
				case part == "charset=utf-8", part == "header=present" && f == formatCSV:
					own++
				default:
					own = 0
				}
			}
			if !malformed && own > 0 && (own > precedence || own == precedence && q > weight) {
				precedence, weight = own, q
			}
		}
		if named := precedence >= 3; weight > bestWeight || weight > 0 && weight == bestWeight && named && !bestNamed {
			best, bestWeight, bestNamed = f, weight, named
		}
	}
	return best
}

func slowWeight(text string) (q float64, malformed bool) {
	q, err := strconv.ParseFloat(text, 64)
	whole, fraction, _ := strings.Cut(text, ".")
	return q, err != nil || q > 1 || len(whole) != 1 || len(fraction) > 3 || strings.Trim(whole+fraction, "0123456789") != ""
}

// The parser agrees with the slow one, and never panics.
func FuzzAccept(f *testing.F) {
	for _, line := range []string{"text/csv;q=0.5, */*", "text/*, application/json;q=0.1", "application/x-ndjson;q=1.000;x",
		"text/csv;charset=utf-8;q=.5", "*/*;q=0", "text/csv;q=0.", "text/csv;q, */*;header=present", `a/b;c="`, "text/csv;q =1"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		got := negotiated(line)
		if !strings.ContainsAny(line, "\"\\") && isASCII(line) {
			if want := slowAccept(line); got != want {
				t.Errorf("Accept %q leads to %s, want %s", line, got, want)
			}
		}
		// One range with a type alone: the standard library's parser of media types is the reference.
		if name, parameters, err := mime.ParseMediaType(line); err == nil && len(parameters) == 0 && !strings.Contains(line, ";") {
			want := map[string]format{"text/csv": formatCSV, "text/*": formatCSV, "application/x-ndjson": formatNDJSON}[name]
			if got != want {
				t.Errorf("Accept %q leads to %s, want %s", line, got, want)
			}
		}
	})
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// BenchmarkAccept is what the field costs a request.
func BenchmarkAccept(b *testing.B) {
	for i, line := range []string{"*/*", "application/json", "text/csv",
		"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"} {
		b.Run(fmt.Sprint(i), func(b *testing.B) {
			text := []byte(line)
			b.ReportAllocs()
			for b.Loop() {
				var a acceptance
				a.read(text)
				_ = a.format()
			}
		})
	}
}

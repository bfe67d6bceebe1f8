package media

import (
	"fmt"
	"mime"
	"strconv"
	"strings"
	"testing"
)

// negotiated returns the format that Accept lines lead to.
func negotiated(lines ...string) Format {
	var a Acceptance
	for _, line := range lines {
		a.Read([]byte(line))
	}
	return a.Format()
}

func TestAccept(t *testing.T) {
	f := func(want Format, lines ...string) {
		t.Helper()
		if got := negotiated(lines...); got != want {
			t.Errorf("Accept %q leads to %s, want %s", lines, got, want)
		}
	}
	// JSON, as before there were other formats.
	f(JSON)
	f(JSON, "")
	f(JSON, "*/*")
	f(JSON, "application/json")
	f(JSON, "APPLICATION/JSON; charset=UTF-8")
	f(JSON, "application/*")
	f(JSON, "text/html, */*")
	f(JSON, "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8")
	f(JSON, "application/json, text/plain, */*")
	f(JSON, "application/json, text/csv, application/x-ndjson") // server's choice: all are equal
	f(JSON, "text/csv, application/json")
	// What cannot be had.
	f(JSON, "image/png")
	f(JSON, "text/html")
	f(JSON, "text/csv;q=0")
	f(JSON, "*/*;q=0")
	f(JSON, "text/csv;charset=utf-16")
	f(JSON, "text/csv;header=absent")
	// By name.
	f(CSV, "text/csv")
	f(CSV, "Text/CSV")
	f(CSV, " text/csv ; charset=\"utf-8\" ; header=present ")
	f(CSV, "text/csv, */*")
	f(CSV, "*/*, text/csv")
	f(CSV, "text/html", "text/csv")
	f(CSV, "text/csv, application/x-ndjson")
	f(NDJSON, "application/x-ndjson")
	f(NDJSON, "application/x-ndjson, application/*")
	// By quality.
	f(CSV, "application/json;q=0.9, text/csv")
	f(CSV, "application/json;q=0.899, text/csv;q=0.9")
	f(JSON, "application/json, text/csv;q=0.999")
	f(NDJSON, "text/csv;q=0.5, application/x-ndjson;q=0.6, */*;q=0.1")
	f(CSV, "text/csv;q=0.001")
	f(JSON, "text/csv;q=0.5, */*;q=0.6")
	f(CSV, "*/*;q=0.5, text/csv;q=0.6")
	f(CSV, "text/csv ; Q=1.000 , */*;q=0.5")
	// By specificity: the most specific range decides, whatever its place.
	f(CSV, "text/*")
	f(CSV, "text/*, */*;q=0.5")
	f(JSON, "text/csv;q=0.1, text/*, application/json;q=0.5")
	f(NDJSON, "*/*, application/json;q=0.1, text/csv;q=0.1")
	f(CSV, "*/*;q=0.5, application/*;q=0")
	f(JSON, "*/*, text/csv;q=0, application/x-ndjson;q=0")
	f(CSV, "text/csv;header=present, text/csv;q=0.1, */*;q=0.5")
	f(JSON, "text/csv;header=present;q=0.1, text/csv, */*;q=0.5")
	f(CSV, "text/csv;q=0.1", "text/csv;q=0.9, application/json;q=0.5")
	// What is malformed is ignored, and only that.
	f(JSON, "text/csv;q=abc")
	f(JSON, "text/csv;q=1.1")
	f(JSON, "text/csv;q=-1")
	f(JSON, "text/csv;q=0.1234")
	f(JSON, "text/csv;q=")
	f(JSON, "csv, text, /, */csv, , ;")
	f(CSV, ",, text/csv;q=0.5;; , text/html;q=x")
	f(CSV, `text/html;a="x, application/json;q=1", text/csv;q=0.5`)
	f(CSV, "text/csv;q=0.5;extension=1")
}

// slowAccept is RFC 9110, section 12.5.1, written down without regard to cost, for lines without quoted strings.
func slowAccept(line string) Format {
	available := map[Format]string{JSON: "application/json", CSV: "text/csv", NDJSON: "application/x-ndjson"}
	best, bestWeight, bestNamed := JSON, 0.0, false
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
				case part == "charset=utf-8", part == "header=present" && f == CSV:
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
			want := map[string]Format{"text/csv": CSV, "text/*": CSV, "application/x-ndjson": NDJSON}[name]
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
				var a Acceptance
				a.Read(text)
				_ = a.Format()
			}
		})
	}
}

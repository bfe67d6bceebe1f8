package proxy

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"sara/archive"
	"sara/policy"
	"sara/proxy/media"
	"sara/proxy/openapi"
	"sara/translate"
)

// The Accept values by which tests ask for the formats.
const (
	acceptCSV    = "text/csv"
	acceptNDJSON = "application/x-ndjson"
)

// in requests a path in a format.
func (w *world) in(accept, key, path string, query ...string) response {
	w.t.Helper()
	return w.getWith(key, path, query, "Accept", accept)
}

// lists are the routes whose answers have rows, with the path of a property.
func (w *world) lists() []route {
	var found []route
	for _, r := range w.keyedRoutes() {
		if r.table != nil {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b route) int { return strings.Compare(a.Operation, b.Operation) })
	return found
}

// exactRows returns the rows of a JSON answer with numbers as they are written.
func exactRows(t *testing.T, body []byte) []map[string]any {
	t.Helper()
	var answer struct {
		Data struct{ Rows []map[string]any }
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return answer.Data.Rows
}

// cellOf is the slow reference of a cell: the value at a path of members, before the guard against formulas.
func cellOf(value any, path ...string) string {
	switch value := value.(type) {
	case nil:
		return ""
	case []any:
		cells := make([]string, len(value))
		for i := range value {
			cells[i] = cellOf(value[i], path...)
		}
		return strings.Join(cells, "; ")
	case map[string]any:
		return cellOf(value[path[0]], path[1:]...)
	}
	return fmt.Sprint(value)
}

// guardedCell is cellOf with the guard, which numbers do not need.
func guardedCell(row any, column string) string {
	path := strings.Split(column, ".")
	text := cellOf(row, path...)
	if number, ok := row.(map[string]any)[path[0]].(json.Number); ok && len(path) == 1 {
		return number.String()
	}
	return archive.GuardFormula(text)
}

// columnsOf returns the columns of a route's rows in CSV.
func columnsOf(t *testing.T, r *route) []string {
	t.Helper()
	header, _, err := r.table.Convert(media.CSV, []byte(`{"data":{"rows":[]},"meta":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(header)), ",")
}

// wantSameRows checks that both formats have the rows of a JSON answer.
func wantSameRows(t *testing.T, columns []string, answer, asCSV, asNDJSON response) {
	t.Helper()
	rows := exactRows(t, answer.body)
	records, err := csv.NewReader(bytes.NewReader(asCSV.body)).ReadAll()
	if err != nil || len(records) != 1+len(rows) || !slices.Equal(records[0], columns) {
		t.Fatalf("%d lines of CSV (%v), want a header and %d rows: %.300q", len(records), err, len(rows), asCSV.body)
	}
	lines := slices.Collect(bytes.Lines(asNDJSON.body))
	if len(lines) != len(rows) {
		t.Fatalf("%d lines of NDJSON, want %d", len(lines), len(rows))
	}
	for i, row := range rows {
		for j, column := range columns {
			if want := strings.ReplaceAll(guardedCell(row, column), "\r\n", "\n"); records[i+1][j] != want { // the reader drops the carriage return
				t.Errorf("row %d has %s %q in CSV, want %q", i, column, records[i+1][j], want)
			}
		}
		line := `{"data":{"rows":[` + strings.TrimSuffix(string(lines[i]), "\n") + `]}}`
		if fmt.Sprint(exactRows(t, []byte(line))) != fmt.Sprint([]map[string]any{row}) {
			t.Errorf("row %d is %s in NDJSON, want %v", i, lines[i], row)
		}
	}
	if n := bytes.Count(asCSV.body, []byte("\n")) - bytes.Count(asCSV.body, []byte("\r\n")); n > 0 && !bytes.ContainsRune(asCSV.body, '"') {
		t.Errorf("%d lines of CSV do not end in CR LF", n)
	}
}

// wantMetaHeaders checks that the header says what the meta says.
func wantMetaHeaders(t *testing.T, meta map[string]any, header http.Header) {
	t.Helper()
	want := map[string]string{"X-Source": cellOf(meta["source"]), "X-Stale-Reason": cellOf(meta["stale_reason"]),
		"X-Truncated-By": cellOf(meta["truncated_by"]), "X-Has-More": cellOf(meta["has_more"])}
	if days, ok := meta["date_range"].(map[string]any); ok {
		want["X-Date-Range"] = fmt.Sprint(days["start_date"], "/", days["end_date"])
	}
	for name, value := range want {
		if got, err := url.PathUnescape(header.Get(name)); err != nil || got != value {
			t.Errorf("%s is %q (%v), want %q", name, header.Get(name), err, value)
		}
	}
	list, _ := meta["notes"].([]any)
	notes := header.Values("X-Note")
	if len(notes) != len(list) {
		t.Fatalf("the notes %q, want %q", notes, list)
	}
	for i, note := range notes {
		if got, err := url.PathUnescape(note); err != nil || got != list[i] {
			t.Errorf("the note %q (%v), want %q", note, err, list[i])
		}
	}
}

// Every answer with rows can be had as CSV and as NDJSON, with the same rows, and with the meta in the header.
func TestEveryList200Formats(t *testing.T) {
	t.Parallel()
	w := newWorld(t, builtInAnomalies)
	pages := w.pages()
	w.discover("main", pages)
	w.inspect("main", pages, true)
	lists := w.lists()
	if len(lists) < 9 {
		t.Fatalf("%d operations have rows", len(lists))
	}
	for _, r := range lists {
		w.run(r.Operation, func(t *testing.T) {
			for _, query := range queriesOf(&r) {
				answer := w.get("pro", r.Path, query...).ok(t)
				asCSV, asNDJSON := w.in(acceptCSV, "pro", r.Path, query...), w.in(acceptNDJSON, "pro", r.Path, query...)
				for _, f := range []struct {
					response
					kind, suffix string
				}{{asCSV, media.CSV.ContentType(), `-csv"`}, {asNDJSON, media.NDJSON.ContentType(), `-ndjson"`}} {
					if f.status != http.StatusOK || f.header.Get("Content-Type") != f.kind || f.header.Get("Vary") != "Authorization, Accept, Accept-Encoding" ||
						f.header.Get("ETag") != strings.TrimSuffix(answer.header.Get("ETag"), `"`)+f.suffix || f.header.Get("X-Request-Id") == "" ||
						f.header.Get("X-RateLimit-Remaining") == "" || f.header.Get("Cache-Control") != answer.header.Get("Cache-Control") {
						t.Errorf("%v answers %d with the headers %v", query, f.status, f.header)
					}
					wantMetaHeaders(t, answer.meta(), f.header)
				}
				wantSameRows(t, columnsOf(t, &r), answer, asCSV, asNDJSON)
			}
		})
	}
}

// queriesOf returns queries of an operation: without parameters, and others with few rows or none.
func queriesOf(r *route) [][]string {
	queries := [][]string{nil}
	for _, p := range [][]string{{"limit", "2"}, {"offset", "3"}, {"filters", filtersOf("query", "equals", "nothing of the kind")},
		{"q", "nothing of the kind"}, {"start_date", "2026-11-03", "end_date", "2026-11-04"},
		{"compare", "previous_period"}} {
		if slices.ContainsFunc(r.Endpoint.Params, func(known translate.Param) bool { return known.Name == p[0] }) {
			queries = append(queries, p)
		}
	}
	return queries
}

// Keys are what people search for: formulas, quotes, line ends, other scripts.
func TestQueries200FormatsWithAnyKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	keys := []string{`=HYPERLINK("https://example.com";"x")`, "+49 30", "-1", "@here", "\tx", "\rx", "\nx", `'=x`, "a,b", `say "hi"`,
		"a\r\nb", " x ", "täglich 100 %", "日本語 🪑", `\`, "null", "a;b", "'", "\u2028", "\u0001"}
	rows := make([]string, len(keys))
	for i, key := range keys {
		text, err := json.Marshal(key)
		w.must(err)
		rows[i] = fmt.Sprintf(`{"keys":[%s],"clicks":%d,"impressions":%d,"ctr":0.1,"position":1.5}`, text, 100-i, 1000-i)
	}
	w.answerWith(func(rw http.ResponseWriter, _ *http.Request) { mustWrite(rw, `{"rows":[`+strings.Join(rows, ",")+`]}`) })
	path := w.path("main", "/queries")
	answer := w.get("pro", path).ok(t)
	asCSV := w.in(acceptCSV, "pro", path)
	wantSameRows(t, []string{"key", "clicks", "impressions", "ctr", "position"}, answer, asCSV, w.in(acceptNDJSON, "pro", path))
	for _, cell := range []string{"\"'=HYPERLINK(\"\"https://example.com\"\";\"\"x\"\")\",100,", "\n'+49 30,", "\n'-1,", "\n'@here,",
		"\n'\tx,", "\n\"'\rx\",", "\n\"'\nx\",", "\n''=x,", "\n\"a,b\",", "\n\"say \"\"hi\"\"\",", "\n\"a\r\nb\",", "\n x ,",
		"\ntäglich 100 %,", "\n日本語 🪑,", "\n\\,"} {
		if !bytes.Contains(asCSV.body, []byte(cell)) {
			t.Errorf("the CSV lacks %q: %q", cell, asCSV.body)
		}
	}
}

// Notes keep to ASCII in the header, and can be decoded.
func TestQueries200FormatsNotes(t *testing.T) {
	t.Parallel()
	list, err := translate.ReadAnomalies(strings.NewReader(
		"- {id: own, start_date: 2026-11-01, kind: step, metrics: [clicks], effect: 'Zählung um 5 % höher\u2028…', source_url: https://example.com}"))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *Config) { c.Reports.Anomalies = list })
	path := w.path("main", "/pages")
	answer, asCSV := w.get("pro", path).ok(t), w.in(acceptCSV, "pro", path)
	wantMetaHeaders(t, answer.meta(), asCSV.header)
	if got, want := asCSV.header.Get("X-Note"), "own: Z%C3%A4hlung um 5 %25 h%C3%B6her%E2%80%A8%E2%80%A6 (since 2026-11-01)"; got != want {
		t.Errorf("the note %q, want %q", got, want)
	}
	// More notes than a header can hold are counted.
	var meta strings.Builder
	meta.WriteString(`{"notes":[`)
	for range 100 {
		fmt.Fprintf(&meta, "%q,", strings.Repeat("ä", 50))
	}
	meta.WriteString(`"last"]}`)
	fields := metaFields([]byte(meta.String()))
	if n := len(fields); n != 21 || fields[n-1].Value != "81 more notes are in the JSON answer only." {
		t.Errorf("%d notes, the last is %v", n, fields[len(fields)-1])
	}
}

// What is stale says so in the header.
func TestQueries200FormatsStale(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.path("main", "/queries")
	w.in(acceptCSV, "pro", path)
	w.answerWith(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusServiceUnavailable) })
	w.advance(time.Hour)
	r := w.getWith("pro", path, nil, "Accept", acceptCSV, "Cache-Control", "no-cache")
	if r.status != http.StatusOK || r.header.Get("X-Source") != "stored" || r.header.Get("X-Stale-Reason") == "" ||
		r.header.Get("X-Cache") != "bypass" || r.header.Get("Cache-Control") != "private, max-age=0" {
		t.Errorf("%d with the headers %v", r.status, r.header)
	}
}

// A format has an entity tag of its own.
func TestQueries304Formats(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.path("main", "/queries")
	tags := map[string]string{}
	for _, accept := range []string{"application/json", acceptCSV, acceptNDJSON} {
		tags[accept] = w.in(accept, "pro", path).header.Get("ETag")
	}
	for accept := range tags {
		for other, tag := range tags {
			want := http.StatusOK
			if accept == other {
				want = http.StatusNotModified
			}
			r := w.getWith("pro", path, nil, "Accept", accept, "If-None-Match", tag)
			if r.status != want || r.header.Get("ETag") != tags[accept] || want == http.StatusNotModified && len(r.body) > 0 {
				t.Errorf("%s with the tag of %s answers %d and %s", accept, other, r.status, r.header.Get("ETag"))
			}
		}
	}
}

// A format is a rendition of the same answer: it takes no call of its own, its header is that of a hit, and HEAD and gzip work. A
// Range is ignored.
func TestQueries200FormatsHit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.path("main", "/queries")
	if r := w.in(acceptCSV, "pro", path); r.header.Get("X-Cache") != "miss" {
		t.Errorf("the first answer is a %s", r.header.Get("X-Cache"))
	}
	plain := w.in(acceptCSV, "pro", path)
	for range 2 {
		r, body := w.raw(path, "Accept", acceptCSV, "Accept-Encoding", "gzip")
		if got := gunzip(t, body); r.Header.Get("X-Cache") != "hit" || r.Header.Get("Content-Encoding") != "gzip" || string(got) != string(plain.body) {
			t.Errorf("in gzip: %v, %d bytes, want %d", r.Header, len(got), len(plain.body))
		}
	}
	head, err := http.NewRequest(http.MethodHead, w.base+path, nil)
	w.must(err)
	head.Header.Set("Accept", acceptCSV)
	answer, err := http.DefaultTransport.RoundTrip(withKey(head, w.keys["pro"]))
	w.must(err)
	rest, err := io.ReadAll(answer.Body)
	w.must(err)
	w.must(answer.Body.Close())
	if answer.ContentLength != int64(len(plain.body)) || len(rest) > 0 || answer.Header.Get("Content-Type") != media.CSV.ContentType() ||
		answer.Header.Get("X-Date-Range") == "" {
		t.Errorf("HEAD answers %v", answer.Header)
	}
	// A client that asks for a part, as DuckDB does, must not take the whole for it: the status says which it is.
	if r, body := w.raw(path, "Accept", acceptCSV, "Range", "bytes=0-99"); r.StatusCode != http.StatusOK || string(body) != string(plain.body) {
		t.Errorf("a range: %s with %d bytes, want 200 with %d", r.Status, len(body), len(plain.body))
	}
	if calls := w.sim.Calls().SearchAnalytics; calls != 1 {
		t.Errorf("%d calls", calls)
	}
	if !strings.Contains(w.logged(), `"format":"csv"`) || strings.Contains(w.logged(), `"format":"json"`) {
		t.Errorf("the access log has no format: %s", w.logged())
	}
}

// Errors are JSON in every format.
func TestEveryErrorFormats(t *testing.T) {
	t.Parallel()
	w := newWorld(t, limited(func(p *policy.Plan) { p.RequestsPerMinutePerKey = 2 }))
	queries := w.path("main", "/queries")
	for _, accept := range []string{acceptCSV, acceptNDJSON} {
		for _, c := range []struct {
			key, path string
			status    int
			code      string
		}{
			{"", queries, http.StatusUnauthorized, policy.CodeInvalidKey},
			{"config_only", queries, http.StatusForbidden, policy.CodeScope},
			{"agency", "/v1/properties/nothing/queries", http.StatusNotFound, policy.CodeNotFound},
			{"agency", "/v1/nothing", http.StatusNotFound, policy.CodeNotFound},
			{"agency", queries + "?limit=0", http.StatusBadRequest, codeValidation},
		} {
			w.in(accept, c.key, c.path).want(t, c.status, c.code)
		}
	}
	for range 2 {
		w.in(acceptCSV, "pro", queries).okFormat(t, media.CSV.ContentType())
	}
	w.in(acceptCSV, "pro", queries).want(t, http.StatusTooManyRequests, policy.CodeRateLimited)
}

func (r response) okFormat(t *testing.T, kind string) {
	t.Helper()
	if r.status != http.StatusOK || r.header.Get("Content-Type") != kind {
		t.Errorf("%d %s, want %s: %.200s", r.status, r.header.Get("Content-Type"), kind, r.body)
	}
}

// Answers without rows are JSON, whatever is asked for.
func TestEveryOther200Formats(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, r := range w.keyedRoutes() {
		if r.table != nil {
			continue
		}
		for _, accept := range []string{acceptCSV, acceptNDJSON, "image/png"} {
			answer := w.in(accept, "pro", r.Path)
			answer.okFormat(t, media.JSON.ContentType())
			if vary := answer.header.Get("Vary"); vary != "Authorization, Accept-Encoding" {
				t.Errorf("%s: Vary %q", name, vary)
			}
		}
	}
	w.in(acceptCSV, "pro", openapi.Path).okFormat(t, media.JSON.ContentType())
}

// The memo answers a request in the format that it asks for, whichever was asked for when it was filled.
func TestQueries200FormatsMemoized(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.path("main", "/queries")
	w.again(t, "pro", path)
	want := w.get("pro", path).body
	for range 2 {
		w.in(acceptCSV, "pro", path).okFormat(t, media.CSV.ContentType())
		w.in(acceptNDJSON, "pro", path).okFormat(t, media.NDJSON.ContentType())
		r := w.get("pro", path)
		r.okFormat(t, media.JSON.ContentType())
		if len(r.body) != len(want) || r.header.Get("X-Date-Range") != "" {
			t.Errorf("JSON after other formats: %d bytes, want %d, %v", len(r.body), len(want), r.header)
		}
	}
}

// Today's answers stay as they are for clients that ask for JSON or for anything.
func TestQueries200AcceptsAsBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.path("main", "/queries")
	w.get("pro", path).ok(t)
	reference, want := w.raw(path)
	for _, accept := range []string{"", "*/*", "application/json", "application/*",
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "image/png"} {
		r, body := w.raw(path, "Accept", accept)
		for _, a := range []struct{ header http.Header }{{r.Header}, {reference.Header}} {
			a.header.Del("X-Request-Id")
			a.header.Del("X-RateLimit-Remaining")
			a.header.Del("Date")
		}
		if fmt.Sprint(r.Header) != fmt.Sprint(reference.Header) || len(body) != len(want) || !bytes.Equal(body[:len(body)-60], want[:len(want)-60]) {
			t.Errorf("Accept %q: %v, want %v; %d bytes, want %d", accept, r.Header, reference.Header, len(body), len(want))
		}
	}
}

// BenchmarkFormatsHit is a whole request that memory answers, with 1,000 rows, in each format and with the usual values of Accept.
func BenchmarkFormatsHit(b *testing.B) {
	w := newWorld(b, limited(unlimited))
	for _, accept := range []string{"", "*/*", "application/json", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
		acceptCSV, acceptNDJSON} {
		b.Run(accept, func(b *testing.B) {
			var headers []string
			if accept != "" {
				headers = []string{fasthttp.HeaderAccept, accept}
			}
			w.benchmark(b, w.path("large", "/queries?limit=1000"), "", headers...)
		})
	}
}

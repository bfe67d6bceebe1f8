package bigsite

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
)

const path = "/webmasters/v3/sites/sc-domain%3Abig.example/searchAnalytics/query?prettyPrint=false"

func TestSizeOfTheBiggestAnswer(t *testing.T) {
	const rows, least, most = 25_000, 9 << 20, 13 << 20
	if size := Long(rows).Size(); size < least || size > most {
		t.Errorf("it has %d bytes", size)
	}
}

// Both bodies are answers ordered by clicks, with the same keys, compressed or not.
func TestAnswers(t *testing.T) {
	const rows = 50
	site := Random(rows)
	bodies := map[string]bool{}
	for _, query := range []string{`{"rowLimit":50}`, `{"rowLimit":100}`, `{"rowLimit":200}`, "{}"} {
		for _, encoding := range []string{"", "gzip"} {
			r := httptest.NewRequest("POST", path, strings.NewReader(query))
			r.Header.Set("Accept-Encoding", encoding)
			w := httptest.NewRecorder()
			site.ServeHTTP(w, r)
			text := io.Reader(w.Body)
			if encoding != "" {
				var err error
				if text, err = gzip.NewReader(w.Body); err != nil {
					t.Fatal(err)
				}
			}
			var plain bytes.Buffer
			var answer struct {
				Rows []struct {
					Keys   []string
					Clicks int
				}
			}
			if err := json.NewDecoder(io.TeeReader(text, &plain)).Decode(&answer); err != nil || len(answer.Rows) != rows {
				t.Fatalf("%d rows (%v)", len(answer.Rows), err)
			}
			for i, row := range answer.Rows {
				if len(row.Keys) != 1 || i > 0 && row.Clicks > answer.Rows[i-1].Clicks {
					t.Errorf("row %d: %+v", i, row)
				}
			}
			bodies[plain.String()] = true
		}
	}
	if len(bodies) != 2 {
		t.Errorf("%d bodies, want 2", len(bodies))
	}
}

func TestRowLimit(t *testing.T) {
	w := httptest.NewRecorder()
	Random(50).ServeHTTP(w, httptest.NewRequest("POST", path, strings.NewReader(`{"rowLimit":7}`)))
	if rows := strings.Count(w.Body.String(), `"keys"`); rows != 7 {
		t.Errorf("%d rows", rows)
	}
}

func TestDomain(t *testing.T) {
	for target, want := range map[string]string{path: "big.example", "/token": "", "/webmasters/v3/sites": "",
		"/webmasters/v3/sites/sc-domain%3Abig.example": ""} {
		if got := Domain(httptest.NewRequest("POST", target, nil)); got != want {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
}

package translate

import (
	"strings"
	"testing"
)

func TestReadRowsRefusesWhateverFollowsTheDocument(t *testing.T) {
	for _, tail := range []string{"x", "{}", ",", "]", "}", "null", "\x00", "\x00junk", " \x00", "\ufeff", "//"} {
		if rows, err := ReadRows([]byte(`{"rows":[]}`+tail), ByQuery); err == nil {
			t.Errorf("tail %q: read %d rows, want an error", tail, rows.Len())
		}
	}
	for _, tail := range []string{"", "\n", " \t\r\n"} {
		if _, err := ReadRows([]byte(`{"rows":[]}`+tail), ByQuery); err != nil {
			t.Errorf("white space %q after the document: %v", tail, err)
		}
	}
}

// An escaped name is the same name: passing over "row\u0073" would answer with no rows.
func TestReadRowsReadsNamesSpelledWithEscapes(t *testing.T) {
	rows, err := ReadRows([]byte(`{"row\u0073":[{"\u006beys":["a"],"clic\u006bs":7,"impressions":9,"\u0063tr":0.5,"posi\u0074ion":3}]}`), ByQuery)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Metrics{Clicks: 7, Impressions: 9, CTR: 0.5, Position: 3}); rows.Len() != 1 || rows.Metrics(0) != want {
		t.Errorf("%d rows, %+v, want one of %+v", rows.Len(), rows.metrics, want)
	}
	for _, body := range []string{
		`{"rows":[],"\u0072ows":[]}`,
		`{"rows":[{"keys":["a"],"clicks":7,"cli\u0063ks":8,"impressions":9}]}`,
	} {
		if _, err := ReadRows([]byte(body), ByQuery); err == nil {
			t.Errorf("%s: a member given twice, once with an escape, was accepted", body)
		}
	}
}

func TestReadRowsRefusesNestingThatWouldFillTheStack(t *testing.T) {
	nested := func(depth int) []byte {
		return []byte(`{"metadata":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`)
	}
	if _, err := ReadRows(nested(100), ByQuery); err != nil {
		t.Errorf("100 levels: %v", err)
	}
	if _, err := ReadRows(nested(8_000_000), ByQuery); err == nil {
		t.Error("8,000,000 levels were accepted")
	}
}

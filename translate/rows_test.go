package translate

import (
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

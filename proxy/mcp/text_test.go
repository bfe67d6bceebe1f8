package mcp

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// People paste titles into the search box: "Shoes | Acme". A model must not read a part of one as a figure.
func TestCellsOfATableAreToldApart(t *testing.T) {
	t.Parallel()
	tables := performanceTools()[0]
	text := tables.text(content(`{"data":{"rows":[{"key":"shoes | 99 | 1","clicks":5},{"key":"| sale","clicks":4},{"key":"a|b \"c\"","clicks":3},{"key":"x\r\ny","clicks":2}]},`+
		`"meta":{}}`), gjson.Result{})
	want := "key | clicks\n\"shoes | 99 | 1\" | 5\n\"| sale\" | 4\na|b \"c\" | 3\nx y | 2"
	if !strings.HasSuffix(text, want) {
		t.Errorf("the text is\n%s\nwant at its end\n%s", text, want)
	}
}

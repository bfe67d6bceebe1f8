package proxy

import (
	"strings"
	"testing"
)

// The gate remembers a reference longer than the bytes of a request live.
func TestAReferenceIsNoneOfTheRequestsBytes(t *testing.T) {
	w := newWorld(t)
	ctx := w.request("/v1/properties/main/summary")
	w.server.edge.Handler(ctx)
	reference, _ := ctx.UserValue("id").(string)
	for _, raw := range [][]byte{ctx.URI().PathOriginal(), ctx.URI().FullURI(), ctx.RequestURI(), ctx.Path()} {
		copy(raw, strings.Repeat("~", len(raw)))
	}
	if reference != "main" {
		t.Errorf("the reference became %q", reference)
	}
}

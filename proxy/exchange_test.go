package proxy

import (
	"strings"
	"testing"
)

// The gate keeps a reference for longer than the request's bytes are valid.
func TestPropertyReferenceIsACopy(t *testing.T) {
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

package proxy

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"
)

// An endpoint is found by the paths by which the router finds it, and by no others.
func TestEndpointsAreThoseOfTheRouter(t *testing.T) {
	t.Parallel()
	routes := table()
	var found *route
	r := router.New()
	r.RedirectTrailingSlash, r.RedirectFixedPath = false, false
	paths := []string{"/", "", "/v1", "/v1/", "/V1/me", "/v1/nothing", "/v1/properties/", "//v1/me", "/v1/properties//summary",
		"/v1/properties/a//summary", "/v1/properties/a/movers", "/v1/properties/a/movers/", "/v1/properties/https://example.com/summary"}
	for i := range routes {
		r.GET(routes[i].Path, func(*fasthttp.RequestCtx) { found = &routes[i] })
		for _, id := range []string{"1", "sc-domain:example.com", "https%3A%2F%2Fexample.com%2F", "{id}", ".", "..", "summary", "%00"} {
			path := strings.Replace(routes[i].Path, "{id}", id, 1)
			paths = append(paths, path, path+"/", path+"x", path+"//", strings.TrimSuffix(path, "s"), path+"?a=/b")
		}
	}
	known := newEndpoints(routes)
	for _, path := range paths {
		var ctx fasthttp.RequestCtx
		ctx.Request.Header.SetMethod(http.MethodGet)
		ctx.Request.SetRequestURI(path)
		found = nil
		r.Handler(&ctx)
		if found != nil && found.Open {
			found = nil // needs no key
		}
		if got := known.find(ctx.URI().PathOriginal()); got != found {
			t.Errorf("%s: %+v, want %+v", path, got, found)
		}
	}
}

// Every operation has a handler, and every handler an operation.
func TestEveryOperationHasAHandler(t *testing.T) {
	t.Parallel()
	unused := handlers()
	for _, r := range table() {
		if r.serve == nil {
			t.Errorf("%s has no handler", r.Operation)
		}
		delete(unused, r.Operation)
	}
	for operation := range unused {
		t.Errorf("there is no operation %s for a handler", operation)
	}
}

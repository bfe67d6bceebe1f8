package check

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
)

// readDocument reads the served document, and fails the test unless it is valid OpenAPI.
func readDocument(t *testing.T, d demo) *openapi3.T {
	t.Helper()
	_, answer, body := d.get(t, http.MethodGet, "/v1/openapi.json", "", nil)
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("the document is answered with %s", answer.Status)
	}
	document, err := openapi3.NewLoader().LoadFromData(body)
	if err != nil {
		t.Fatal(err)
	}
	if err := document.Validate(context.Background()); err != nil {
		t.Fatalf("the document is not valid OpenAPI: %v", err)
	}
	return document
}

// forbidUnknown makes a member that a schema does not name an error: the document itself allows it.
func forbidUnknown(ref *openapi3.SchemaRef) {
	if ref == nil || ref.Value == nil {
		return
	}
	s := ref.Value
	if len(s.Properties) > 0 {
		no := false
		s.AdditionalProperties = openapi3.AdditionalProperties{Has: &no}
	}
	for _, property := range s.Properties {
		forbidUnknown(property)
	}
	forbidUnknown(s.Items)
	for _, choice := range s.OneOf {
		forbidUnknown(choice)
	}
}

// A contract validates answers against the document.
type contract struct {
	base   string
	router routers.Router
}

func newContract(t *testing.T, d demo, document *openapi3.T) contract {
	t.Helper()
	for _, item := range document.Paths.Map() {
		for _, answer := range item.Get.Responses.Map() {
			for _, media := range answer.Value.Content {
				forbidUnknown(media.Schema)
			}
		}
	}
	router, err := legacy.NewRouter(document)
	if err != nil {
		t.Fatal(err)
	}
	return contract{base: d.BaseURL, router: router}
}

// violation returns the operation of a request, and how its answer violates the document.
func (c contract) violation(request *http.Request, answer *http.Response, body []byte) (operation string, err error) {
	base, err := url.Parse(c.base)
	if err != nil {
		return "", err
	}
	// kin-openapi's router would split a property's own URL in the path into several segments.
	clean := request.Clone(context.Background())
	clean.URL = &url.URL{Scheme: base.Scheme, Host: base.Host, Path: request.URL.EscapedPath(), RawQuery: request.URL.RawQuery}
	route, parameters, err := c.router.FindRoute(clean)
	if err != nil {
		return "", err
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: clean, Route: route, PathParams: parameters},
		Status:                 answer.StatusCode,
		Header:                 answer.Header,
		Options:                &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	input.SetBodyBytes(body)
	return route.Operation.OperationID, openapi3filter.ValidateResponse(context.Background(), input)
}

// keyOf returns a demo key with the scope of a tag.
func keyOf(tag string) string {
	switch tag {
	case "Properties":
		return "properties_only"
	case "Performance":
		return "performance_only"
	case "Indexing":
		return "indexing_only"
	case "Configuration":
		return "config_only"
	}
	return "workspace_scoped"
}

// A coverage validates answers, and counts the statuses of each operation.
type coverage struct {
	t        *testing.T
	demo     demo
	contract contract
	statuses map[string]map[int]int
	requests map[string]int // by key
}

// rested returns the key that was used least, because each key has a limit of requests a minute.
func (c *coverage) rested(keys ...string) string {
	return slices.MinFunc(keys, func(a, b string) int { return cmp.Compare(c.requests[a], c.requests[b]) })
}

// get validates the answer to a request, and returns its entity tag.
func (c *coverage) get(path, key string, header http.Header) (etag string) {
	c.t.Helper()
	request, answer, body := c.demo.get(c.t, http.MethodGet, path, key, header)
	operation, err := c.contract.violation(request, answer, body)
	if err != nil {
		c.t.Errorf("GET %s with the key %q: the answer %d violates the document: %v\n%s", path, key, answer.StatusCode, err, body)
	}
	if c.statuses[operation] == nil {
		c.statuses[operation] = map[int]int{}
	}
	c.statuses[operation][answer.StatusCode]++
	if answer.StatusCode == http.StatusTooManyRequests {
		c.t.Errorf("GET %s with the key %q is refused: the test must spread its requests over more keys", path, key)
	}
	c.requests[key]++
	return answer.Header.Get("Etag")
}

// path fills in a property of the demo.
func (c *coverage) path(template, property string) string {
	return strings.Replace(template, "{id}", url.PathEscape(c.demo.Properties[property]["gsc_property"]), 1)
}

// The served document is valid OpenAPI, and the demo answers every operation accordingly: live, from the archive, without a
// connection, filtered, refused and not modified.
func testOpenAPIDescribesTheAnswers(t *testing.T, d demo) {
	document := readDocument(t, d)
	c := coverage{t, d, newContract(t, d, document), map[string]map[int]int{}, map[string]int{}}
	filters := "?filters=" + url.QueryEscape(`[{"dimension":"query","operator":"contains","value":"chair"}]`)
	for template, item := range document.Paths.Map() {
		operation, key := item.Get.OperationID, keyOf(item.Get.Tags[0])
		main := c.path(template, "main")
		all := c.rested("agency", "workspace_scoped") // keys with all scopes that can read main
		etag := c.get(main, all, nil)
		c.get(main, all, http.Header{"If-None-Match": {etag}})
		c.get(main+"?unknown=1", all, nil)
		c.get(main, "", nil)
		c.get(main, "revoked", nil)
		c.get(main, "trial", nil)
		if strings.Contains(template, "{id}") {
			c.get(c.path(template, "archived"), key, nil)
			c.get(c.path(template, "disconnected"), key, nil)
			c.get(strings.Replace(template, "{id}", "unknown.example", 1), key, nil)
		}
		if key == "performance_only" {
			c.get(main+"?start_date=2025-05-01&end_date=2025-08-10", key, nil)
			c.get(main+filters, key, nil)
			c.get(c.path(template, "disconnected")+filters, key, nil)
		}
		for _, status := range []int{http.StatusOK, http.StatusNotModified, http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden} {
			// The usage in getAccount changes with each request, and an open operation ignores the key.
			impossible := operation == "getAccount" && status == http.StatusNotModified ||
				item.Get.Responses.Status(status) == nil && item.Get.Security != nil && len(*item.Get.Security) == 0
			if c.statuses[operation][status] == 0 && !impossible {
				t.Errorf("%s was never answered with %d", operation, status)
			}
		}
	}
	if c.statuses["listQueries"][http.StatusServiceUnavailable] == 0 {
		t.Error("filtered queries of a disconnected property were not refused with 503")
	}
}

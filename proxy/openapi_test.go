package proxy

import (
	"bytes"
	"flag"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
)

func updating() bool {
	return flag.Lookup("update") != nil && flag.Lookup("update").Value.String() == "true"
}

func TestMain(m *testing.M) {
	flag.Bool("update", false, "rewrite the golden files")
	flag.Parse()
	os.Exit(m.Run())
}

// The document in the repository is what the route table says; `go test ./proxy -run OpenAPIGolden -update` rewrites it.
func TestOpenAPIGolden(t *testing.T) {
	got, err := OpenAPI("https://api.example.com")
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "openapi.json")
	if updating() {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the OpenAPI document differs from %s: look at the change, then run with -update", golden)
	}
}

// A contract checks answers against the OpenAPI document, made stricter: no member that the document does not name.
type contract struct {
	router routers.Router
}

func newContract(t testing.TB, base string) *contract {
	t.Helper()
	text, err := OpenAPI(base)
	if err != nil {
		t.Fatal(err)
	}
	document, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := document.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
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
	return &contract{router: router}
}

// forbidUnknown makes a member that a schema does not name an error.
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
}

// check fails the test when the answer is not what the document says of its operation.
func (c *contract) check(t testing.TB, request *http.Request, r response) {
	t.Helper()
	// The router of the checker takes a property's own URL in the path for more than one segment.
	clean := request.Clone(request.Context())
	clean.URL = &url.URL{Scheme: request.URL.Scheme, Host: request.URL.Host, Path: request.URL.EscapedPath(), RawQuery: request.URL.RawQuery}
	route, parameters, err := c.router.FindRoute(clean)
	if err != nil || request.Method != http.MethodGet {
		return // an unknown path or another method: there is nothing to hold it to
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: clean, Route: route, PathParams: parameters},
		Status:                 r.status,
		Header:                 r.header,
		Options:                &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	input.SetBodyBytes(r.body)
	if err := openapi3filter.ValidateResponse(t.Context(), input); err != nil {
		t.Errorf("GET %s answers %d against its own document: %v", request.URL, r.status, err)
	}
}

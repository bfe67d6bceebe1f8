package proxy

import (
	"bytes"
	"context"
	"flag"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
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

// newContract reads the document as it is served at contractBase.
func newContract() (*contract, error) {
	text, err := OpenAPI(contractBase)
	if err != nil {
		return nil, err
	}
	document, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, err
	}
	if err := document.Validate(context.Background()); err != nil {
		return nil, err
	}
	for _, item := range document.Paths.Map() {
		for _, answer := range item.Get.Responses.Map() {
			for _, media := range answer.Value.Content {
				forbidUnknown(media.Schema)
			}
		}
	}
	router, err := legacy.NewRouter(document)
	return &contract{router: router}, err
}

const contractBase = "http://api.example.com"

// theContract is made once for all tests: reading the document takes as long as the rest of a world.
var theContract = sync.OnceValues(newContract)

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
	for _, choice := range s.OneOf {
		forbidUnknown(choice)
	}
}

// check fails the test when the answer is not what the document says of its operation.
func (c *contract) check(t testing.TB, request *http.Request, r response) {
	t.Helper()
	if err := c.violation(request, r); err != nil {
		t.Errorf("GET %s answers %d against its own document: %v", request.URL, r.status, err)
	}
}

// violation returns in what an answer is not as the document says; nil for paths and methods that the document does not have.
func (c *contract) violation(request *http.Request, r response) error {
	// The router of the checker takes a property's own URL in the path for more than one segment.
	clean := request.Clone(context.Background())
	clean.URL = &url.URL{Scheme: "http", Host: "api.example.com", Path: request.URL.EscapedPath(), RawQuery: request.URL.RawQuery}
	route, parameters, err := c.router.FindRoute(clean)
	if err != nil || request.Method != http.MethodGet {
		return nil
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: clean, Route: route, PathParams: parameters},
		Status:                 r.status,
		Header:                 r.header,
		Options:                &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	input.SetBodyBytes(r.body)
	return openapi3filter.ValidateResponse(context.Background(), input)
}

// The contract notices what it is there for: a member too many, one too few, another type, a status that is not described.
func TestContractNoticesViolations(t *testing.T) {
	t.Parallel()
	c, err := theContract()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/properties/main/devices", "/v1/properties/https%3A%2F%2Fexample.com%2F/devices"} {
		request, err := http.NewRequest(http.MethodGet, "http://127.0.0.1:1"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		const good = `{"success":true,"data":{"dimension":"device","rows":[]},"meta":{"property_id":"01a1fe03-1289-7aca-9eda-d4eb2317f44f",` +
			`"date_range":{"start_date":"2026-11-13","end_date":"2026-11-19","preset":"last_7d"},"row_count":0,"limit":100,"total":null,` +
			`"truncated_by":null,"source":"live","stale_reason":null,"notes":[],"cache":"bypass","request_id":"req_1"}}`
		header := http.Header{"Content-Type": {jsonType}, "Cache-Control": {"private, max-age=0"}, "Etag": {`W/"1"`}, "X-Request-Id": {"req_1"},
			"X-Cache": {"bypass"}, "X-Ratelimit-Limit": {"1000"}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"1795305600"}}
		violation := func(status int, body string) error {
			return c.violation(request, response{status: status, header: header, body: []byte(body)})
		}
		if err := violation(http.StatusOK, good); err != nil {
			t.Errorf("a good answer is none: %v", err)
		}
		for _, change := range [][2]string{
			{`"rows":[]`, `"rows":[],"more":1`}, {`"rows":[]`, `"rows":null`}, {`,"limit":100`, ``}, {`"row_count":0`, `"row_count":"0"`},
			{`"device"`, `"query"`}, {`"notes":[]`, `"notes":null`}, {`"bypass"`, `"none"`}, {`"success":true`, `"success":false`},
		} {
			if violation(http.StatusOK, strings.Replace(good, change[0], change[1], 1)) == nil {
				t.Errorf("%s for %s goes unnoticed", change[1], change[0])
			}
		}
		header.Del("X-RateLimit-Reset")
		if violation(http.StatusOK, good) == nil {
			t.Error("a header too few goes unnoticed")
		}
		if violation(http.StatusTeapot, good) == nil {
			t.Error("a status that is not described goes unnoticed")
		}
	}
}

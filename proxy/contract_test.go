package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sara/proxy/media"
	"sara/proxy/openapi"
)

// A contract validates answers against the OpenAPI document, more strictly than the document: a member that it does not name
// is an error. Module proxy/check proves with kin-openapi that the document itself is valid.
type contract struct {
	Paths map[string]struct {
		Get struct{ Responses map[string]described }
	}
	Components struct {
		Schemas   map[string]map[string]any
		Responses map[string]described
		Headers   map[string]struct {
			Required bool
			Schema   map[string]any
		}
	}

	patterns sync.Map // each *regexp.Regexp by its text
}

// described is a response of the document, or a reference to one.
type described struct {
	Ref     string `json:"$ref"`
	Headers map[string]struct {
		Ref string `json:"$ref"`
	}
	Content map[string]struct{ Schema map[string]any }
}

func newContract() (*contract, error) {
	document, err := openapi.Document("http://api.example.com")
	if err != nil {
		return nil, err
	}
	c := new(contract)
	return c, json.Unmarshal(document, c)
}

// theContract is read once for all tests.
var theContract = sync.OnceValues(newContract)

// check fails the test if an answer violates the document.
func (c *contract) check(t testing.TB, request *http.Request, r response) {
	t.Helper()
	if err := c.violation(request, r); err != nil {
		t.Errorf("GET %s: the answer %d violates the OpenAPI document: %v", request.URL, r.status, err)
	}
}

// violation returns how an answer violates the document, nil for paths and methods that the document does not have.
func (c *contract) violation(request *http.Request, r response) error {
	path, ok := c.template(request.URL.EscapedPath())
	if !ok || request.Method != http.MethodGet {
		return nil
	}
	answer, ok := c.Paths[path].Get.Responses[strconv.Itoa(r.status)]
	if !ok {
		return fmt.Errorf("%s has no status %d", path, r.status)
	}
	if answer.Ref != "" {
		answer = c.Components.Responses[nameOf(answer.Ref)]
	}
	for name, header := range answer.Headers {
		described := c.Components.Headers[nameOf(header.Ref)]
		if !described.Required && r.header.Get(name) == "" {
			continue
		}
		if err := c.headerViolation(r.header.Get(name), described.Schema); err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
	}
	if len(answer.Content) == 0 {
		if len(r.body) > 0 {
			return fmt.Errorf("a body of %d bytes, want none", len(r.body))
		}
		return nil
	}
	kind := r.header.Get("Content-Type")
	name, _, _ := strings.Cut(kind, ";")
	described, ok := answer.Content[name]
	switch {
	case !ok:
		return fmt.Errorf("the content type %q is not in the document", kind)
	case kind == media.CSV.ContentType() || kind == media.NDJSON.ContentType():
		return c.validate(described.Schema, string(r.body))
	case kind != media.JSON.ContentType():
		return fmt.Errorf("the content type %q", kind)
	}
	return c.validate(described.Schema, r.json)
}

// template returns the path of the document that a request's path matches.
func (c *contract) template(path string) (template string, ok bool) {
	segments := strings.Split(path, "/")
	for template := range c.Paths {
		matches := slices.EqualFunc(strings.Split(template, "/"), segments, func(part, segment string) bool {
			return part == segment || part == "{id}" && segment != ""
		})
		if matches {
			return template, true
		}
	}
	return "", false
}

func nameOf(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

func (c *contract) headerViolation(value string, s map[string]any) error {
	if value == "" {
		return errors.New("is missing")
	}
	if s["type"] == "integer" {
		number, err := strconv.Atoi(value)
		if err != nil {
			return err
		}
		return c.validate(s, float64(number))
	}
	return c.validate(s, value)
}

// validate checks a decoded JSON value against a schema of the document. A keyword that it does not know is an error, so that
// none goes unchecked. It runs for every value of every answer of all tests: it makes no text unless it returns an error.
func (c *contract) validate(s map[string]any, value any) error {
	for keyword, want := range s {
		if err := c.validateKeyword(keyword, want, value); err != nil {
			return err
		}
	}
	return nil
}

// A mismatch is a value that is not as a keyword demands.
type mismatch struct {
	value   any
	keyword string
	want    any
}

func (m *mismatch) Error() string {
	return fmt.Sprintf("%v is not of %s %v", m.value, m.keyword, m.want)
}

func (c *contract) validateKeyword(keyword string, want, value any) error {
	ok := true
	switch keyword {
	case "description", "examples", "default", "format", "pattern", "x-enum-varnames":
		if text, isText := value.(string); isText && keyword == "format" {
			ok = c.hasFormat(text, want.(string))
		} else if isText && keyword == "pattern" {
			ok = c.matches(text, want.(string))
		}
	case "$ref":
		return c.validate(c.Components.Schemas[nameOf(want.(string))], value)
	case "oneOf":
		matches := 0
		for _, choice := range want.([]any) {
			if c.validate(choice.(map[string]any), value) == nil {
				matches++
			}
		}
		ok = matches == 1
	case "type":
		kinds, several := want.([]any)
		if !several {
			kinds = []any{want}
		}
		ok = slices.ContainsFunc(kinds, func(kind any) bool { return isOfType(value, kind) })
	case "const":
		ok = reflect.DeepEqual(value, want)
	case "enum":
		ok = slices.Contains(want.([]any), value)
	case "minimum":
		number, isNumber := value.(float64)
		ok = !isNumber || number >= want.(float64)
	case "maximum":
		number, isNumber := value.(float64)
		ok = !isNumber || number <= want.(float64)
	case "items":
		return c.validateItems(want.(map[string]any), value)
	case "required":
		return requireMembers(want.([]any), value)
	case "properties":
		return c.validateMembers(want.(map[string]any), value)
	default:
		return fmt.Errorf("BUG: the validator does not know the keyword %q", keyword)
	}
	if !ok {
		return &mismatch{value, keyword, want}
	}
	return nil
}

func (c *contract) validateItems(s map[string]any, value any) error {
	list, _ := value.([]any)
	for i, item := range list {
		if err := c.validate(s, item); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
	}
	return nil
}

func requireMembers(names []any, value any) error {
	object, isObject := value.(map[string]any)
	for _, name := range names {
		if _, ok := object[name.(string)]; isObject && !ok {
			return fmt.Errorf("the member %s is missing", name)
		}
	}
	return nil
}

func (c *contract) validateMembers(members map[string]any, value any) error {
	object, _ := value.(map[string]any)
	for name, member := range object {
		s, ok := members[name].(map[string]any)
		if !ok {
			return fmt.Errorf("the member %s is not in the document", name)
		}
		if err := c.validate(s, member); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// matches reports whether a text matches a pattern, which is compiled once.
func (c *contract) matches(text, pattern string) bool {
	compiled, ok := c.patterns.Load(pattern)
	if !ok {
		compiled, _ = c.patterns.LoadOrStore(pattern, regexp.MustCompile(pattern))
	}
	return compiled.(*regexp.Regexp).MatchString(text)
}

func isOfType(value, kind any) bool {
	switch value := value.(type) {
	case nil:
		return kind == nil || kind == "null"
	case bool:
		return kind == "boolean"
	case string:
		return kind == "string"
	case float64:
		return kind == "number" || kind == "integer" && value == math.Trunc(value)
	case []any:
		return kind == "array"
	case map[string]any:
		return kind == "object"
	}
	return false
}

func (c *contract) hasFormat(text, format string) bool {
	var err error
	switch format {
	case "date":
		_, err = time.Parse(time.DateOnly, text)
	case "date-time":
		_, err = time.Parse(time.RFC3339, text)
	case "uuid":
		return c.matches(text, "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
	case "uri":
		return strings.Contains(text, "://")
	default:
		return false
	}
	return err == nil
}

// The validator notices each kind of violation: a member too many, one too few, a wrong type, an undescribed status.
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
			`"truncated_by":null,"has_more":false,"source":"live","stale_reason":null,"notes":[],"cache":"bypass","request_id":"req_1"}}`
		header := http.Header{"Content-Type": {media.JSON.ContentType()}, "Cache-Control": {"private, max-age=0"}, "Etag": {`W/"1"`},
			"X-Request-Id": {"req_1"},
			"X-Cache":      {"bypass"}, "X-Ratelimit-Limit": {"1000"}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"1795305600"}}
		violation := func(status int, body string) error {
			r := response{status: status, header: header, body: []byte(body)}
			if err := json.Unmarshal(r.body, &r.json); err != nil {
				t.Fatal(err)
			}
			return c.violation(request, r)
		}
		if err := violation(http.StatusOK, good); err != nil {
			t.Errorf("a valid answer is refused: %v", err)
		}
		for _, change := range [][2]string{
			{`"rows":[]`, `"rows":[],"more":1`}, {`"rows":[]`, `"rows":null`}, {`,"limit":100`, ``}, {`"row_count":0`, `"row_count":"0"`},
			{`"row_count":0`, `"row_count":0.5`}, {`"device"`, `"query"`}, {`"notes":[]`, `"notes":null`}, {`"bypass"`, `"none"`},
			{`"success":true`, `"success":false`}, {`2026-11-13`, `13.11.2026`}, {`01a1fe03-`, `xyz`}, {`"total":null`, `"total":1`},
			{`"rows":[]`, `"rows":[{"key":"MOBILE","clicks":-1,"impressions":1,"ctr":0,"position":1}]`},
		} {
			if violation(http.StatusOK, strings.Replace(good, change[0], change[1], 1)) == nil {
				t.Errorf("%s instead of %s goes unnoticed", change[1], change[0])
			}
		}
		header.Del("X-RateLimit-Reset")
		if violation(http.StatusOK, good) == nil {
			t.Error("a missing header goes unnoticed")
		}
		if violation(http.StatusTeapot, good) == nil {
			t.Error("an undescribed status goes unnoticed")
		}
	}
}

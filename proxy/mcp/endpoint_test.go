package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

// A brokenAPI panics at each request.
type brokenAPI struct{ panics atomic.Int64 }

var _ API = (*brokenAPI)(nil)

func (*brokenAPI) Get(context.Context, string) Answer { panic("broken") }

func (*brokenAPI) Totals(context.Context, string, url.Values) []byte { panic("broken") }

func (*brokenAPI) RequestID(context.Context) string { return "req_1" }

func (a *brokenAPI) Panicked(context.Context, any) { a.panics.Add(1) }

// call posts a call of a tool, and returns its result.
func call(t *testing.T, api API, tool, arguments string) (result struct {
	IsError           bool
	StructuredContent struct {
		Error failure
		Meta  struct{ Notes []string }
	}
}) {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `}}`
	request := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	request.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	recorder := httptest.NewRecorder()
	New(api, "test").ServeHTTP(recorder, request)
	message := struct{ Result any }{&result}
	if err := json.Unmarshal(recorder.Body.Bytes(), &message); err != nil || recorder.Code != http.StatusOK || recorder.Body.Len() > maxResult {
		t.Fatalf("%d with %d bytes (%v): %.500s", recorder.Code, recorder.Body.Len(), err, recorder.Body)
	}
	return result
}

// A panic of a tool fails its call, and is recorded; without care it would end the process.
func TestPanicIsAnInternalError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tool, arguments string
		panics          int64
	}{{"get_account", `{}`, 1}, {"get_overview", `{"property":"main"}`, 5}} {
		api := new(brokenAPI)
		r := call(t, api, c.tool, c.arguments)
		if got := api.panics.Load(); !r.IsError || r.StructuredContent.Error.Code != "INTERNAL_ERROR" || got != c.panics {
			t.Errorf("%s: %+v, %d panics recorded", c.tool, r, got)
		}
	}
}

// An error stays short, whatever the arguments are.
func TestLongArgumentIsQuotedInPart(t *testing.T) {
	t.Parallel()
	r := call(t, new(brokenAPI), "get_account", `{"`+strings.Repeat(`\u0001`, 5000)+`":1}`)
	if e := r.StructuredContent.Error; !r.IsError || e.Code != "UNSUPPORTED_PARAMETER" || len(e.Message) > 400 {
		t.Errorf("%d bytes: %.500s", len(e.Message), e.Message)
	}
}

// A refusingAPI refuses each request with a message.
type refusingAPI struct {
	brokenAPI
	message string
}

func (a *refusingAPI) Get(context.Context, string) Answer {
	return Answer{Status: http.StatusBadRequest, Body: encode(map[string]any{"error": failure{Code: "PROPERTY_AMBIGUOUS", Message: a.message}})}
}

// The message of the REST API may list a thousand ids. A result shows the first ones, and what to call for all.
func TestLongMessageIsCut(t *testing.T) {
	t.Parallel()
	ids := strings.Repeat(", 0b7a5c1e-3f7e-4d58-9a55-0d2c3b0a9a01", 1000)
	for tool, arguments := range map[string]string{"compare_periods": `{"property":"shop.example"}`, "get_context": `{"property":"shop.example"}`} {
		e := call(t, &refusingAPI{message: `"shop.example" matches 1000 properties: use one of the ids` + ids}, tool, arguments).StructuredContent.Error
		shown, next, cut := strings.Cut(e.Message, " …. ")
		if !strings.HasPrefix(shown, `"shop.example" matches 1000 properties`) || !cut || !strings.Contains(next, "list_properties") {
			t.Errorf("%s: %d bytes: %.200s", tool, len(e.Message), e.Message)
		}
	}
}

// A notingAPI answers each request with no rows and two notes: one that all answers have, and one of its own.
type notingAPI struct{ brokenAPI }

func (*notingAPI) Get(_ context.Context, target string) Answer {
	own := encode(target[strings.LastIndexByte(target, '/')+1:])
	return Answer{Status: http.StatusOK, Body: []byte(`{"data":{"rows":[]},"meta":{"notes":["of all",` + string(own) + `]}}`)}
}

// Agents read the notes before they explain anything: the result of several requests has the notes of all of them, each once.
func TestNotesOfPartsAreMerged(t *testing.T) {
	t.Parallel()
	notes := call(t, new(notingAPI), "get_context", `{"property":"main"}`).StructuredContent.Meta.Notes
	if got := strings.Join(notes, "; "); got != "of all; brand-terms; page-groups; annotations?" {
		t.Errorf("the notes are %q", got)
	}
}

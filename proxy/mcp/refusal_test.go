package mcp

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// post posts a body, and returns the answer.
func post(t *testing.T, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
	for i, value := range append([]string{"application/json", "application/json, text/event-stream", "2025-11-25"}, header...) {
		request.Header.Set([]string{"Content-Type", "Accept", "Mcp-Protocol-Version"}[i%3], value)
	}
	recorder := httptest.NewRecorder()
	New(new(brokenAPI), "test").ServeHTTP(recorder, request)
	return recorder
}

// namesGo reports whether a message has a type of Go, which means nothing to a client.
func namesGo(message string) bool {
	return strings.Contains(message, "Go value") || strings.Contains(message, "Go struct") || strings.Contains(message, "interface {}")
}

// What is refused is an answer to the request all the same: a client that finds no message with its id waits, or reports a broken server.
func TestRefusalsAreJSONRPC(t *testing.T) {
	t.Parallel()
	pings := func(ids ...string) string {
		return `[{"jsonrpc":"2.0","method":"ping","id":` + strings.Join(ids, `},{"jsonrpc":"2.0","method":"ping","id":`) + `}]`
	}
	batches := []string{"application/json", "application/json, text/event-stream", "2025-03-26"} // the last revision that has them
	for name, c := range map[string]struct {
		body         string
		header       []string
		status, code int
		id           string
	}{
		"an unknown method":        {`{"jsonrpc":"2.0","id":"a","method":"foo/bar"}`, nil, 400, -32601, `"a"`},
		"an unknown notification":  {`{"jsonrpc":"2.0","method":"notifications/foo"}`, nil, 400, -32601, `null`},
		"half a message":           {`{"jsonrpc":"2.0","id":1,`, nil, 400, -32700, `null`},
		"two messages":             {`{"jsonrpc":"2.0","id":1,"method":"ping"}{}`, nil, 400, -32700, `null`},
		"nothing":                  {``, nil, 400, -32600, `null`},
		"a number":                 {` 5`, nil, 400, -32600, `null`},
		"an empty batch":           {`[]`, nil, 400, -32600, `null`},
		"a batch":                  {`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, nil, 400, -32600, `null`},
		"no version":               {`{"id":7,"method":"ping"}`, nil, 400, -32600, `7`},
		"no method":                {`{"jsonrpc":"2.0","id":7}`, nil, 400, -32600, `7`},
		"a number as its method":   {`{"jsonrpc":"2.0","id":7,"method":5}`, nil, 400, -32600, `7`},
		"a batch without a method": {`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2}]`, batches, 400, -32600, `null`},
		"no parameters":            {`{"jsonrpc":"2.0","id":7,"method":"tools/call"}`, nil, 400, -32600, `7`},
		"an object as its id":      {`{"jsonrpc":"2.0","id":{},"method":"ping"}`, nil, 400, -32600, `null`},
		"another type":             {`{"jsonrpc":"2.0","id":7,"method":"ping"}`, []string{"text/plain"}, 415, -32600, `7`},
		"no streams":               {`{"jsonrpc":"2.0","id":7,"method":"ping"}`, []string{"application/json", "application/json"}, 400, -32600, `7`},
		// The SDK would answer under the ids 1, 9007199254740992 and -9223372036854775808.
		"a fraction as its id": {`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, nil, 400, -32600, `1.5`},
		"a large id":           {`{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, nil, 400, -32600, `9007199254740993`},
		"a batch with a large id": {`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}]`,
			batches, 400, -32600, `null`},
		// The SDK would answer one of them.
		"a batch with an id twice":     {pings(`1`, `1`), batches, 400, -32600, `null`},
		"a batch with a string twice":  {pings(`"a"`, `"\u0061"`), batches, 400, -32600, `null`},
		"a batch with a number as 1.0": {pings(`1.0`, `1`), batches, 400, -32600, `null`},
		"a batch with a bad method": {`[{"jsonrpc":"2.0","id":1,"method":"foo"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`,
			batches, 400, -32601, `null`},
		"an id beyond the integers": {`{"jsonrpc":"2.0","id":12345678901234567890,"method":"ping"}`, nil, 400, -32600, `12345678901234567890`},
	} {
		r := post(t, c.body, c.header...)
		var answer struct {
			JSONRPC string
			ID      json.RawMessage
			Error   struct {
				Code    int
				Message string
			}
		}
		err := json.Unmarshal(r.Body.Bytes(), &answer)
		if err != nil || r.Code != c.status || r.Header().Get("Content-Type") != "application/json" || answer.JSONRPC != "2.0" ||
			string(answer.ID) != c.id || answer.Error.Code != c.code || answer.Error.Message == "" || namesGo(answer.Error.Message) {
			t.Errorf("%s: %d %v %q (%v)", name, r.Code, r.Header(), r.Body, err)
		}
	}
	if r := post(t, `{"jsonrpc":"2.0","id":7,"result":{}}`); r.Code != http.StatusAccepted || r.Body.Len() != 0 { // of a client, to nothing
		t.Errorf("an answer: %d %s", r.Code, r.Body)
	}
	if r := post(t, pings(`1`, `"1"`), batches...); r.Code != http.StatusOK || strings.Count(r.Body.String(), `"id":`) != 2 {
		t.Errorf("distinct ids: %d %s", r.Code, r.Body)
	}
	for _, id := range []string{`0`, `-1`, `9007199254740991`, `"1.5"`} {
		if r := post(t, `{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`); r.Code != http.StatusOK || !strings.Contains(r.Body.String(), `"id":`+id+`,`) {
			t.Errorf("the id %s: %d %s", id, r.Code, r.Body)
		}
	}
}

// A parameter of a message that has another type than the protocol's is named, with what it must be. Arguments of tools are the tools' (results).
func TestWrongTypesAreNamed(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`"method":"tools/call","params":[]`:                                       "params must be an object, not []",
		`"method":"tools/call","params":7`:                                        "params must be an object, not 7",
		`"method":"tools/call","params":{"name":7}`:                               "name must be a string, not 7",
		`"method":"tools/call","params":{"name":"get_account","_meta":"x"}`:       `_meta must be an object, not "x"`,
		`"method":"tools/list","params":{"cursor":[1]}`:                           "cursor must be a string, not [1]",
		`"method":"prompts/list","params":{"cursor":7}`:                           "cursor must be a string, not 7",
		`"method":"prompts/get","params":{"name":"x","arguments":[]}`:             "arguments must be an object, not []",
		`"method":"prompts/get","params":{"arguments":{"property":["main"]}}`:     `arguments.property must be a string, not ["main"]`,
		`"method":"initialize","params":{"protocolVersion":7}`:                    "protocolVersion must be a string, not 7",
		`"method":"initialize","params":{"clientInfo":"x"}`:                       `clientInfo must be an object, not "x"`,
		`"method":"initialize","params":{"capabilities":[]}`:                      "capabilities must be an object, not []",
		`"method":"initialize","params":{"capabilities":{"roots":[]}}`:            "capabilities.roots must be an object, not []",
		`"method":"initialize","params":{"clientInfo":{"name":7}}`:                "clientInfo.name must be a string, not 7",
		`"method":"ping","params":[]`:                                             "params must be an object, not []",
		`"method":"resources/list","params":{"cursor":7}`:                         "cursor must be a string, not 7",
		`"method":"resources/templates/list","params":{"cursor":7}`:               "cursor must be a string, not 7",
		`"method":"resources/read","params":{"uri":7}`:                            "uri must be a string, not 7",
		`"method":"resources/subscribe","params":{"uri":[]}`:                      "uri must be a string, not []",
		`"method":"resources/unsubscribe","params":{"uri":{}}`:                    "uri must be a string, not {}",
		`"method":"logging/setLevel","params":{"level":7}`:                        "level must be a string, not 7",
		`"method":"completion/complete","params":{"ref":7}`:                       "ref must be an object, not 7",
		`"method":"completion/complete","params":{"ref":{"type":7}}`:              "ref.type must be a string, not 7",
		`"method":"completion/complete","params":{"argument":{"value":7}}`:        "argument.value must be a string, not 7",
		`"method":"completion/complete","params":{"context":[]}`:                  "context must be an object, not []",
		`"method":"prompts/get","params":{"name":"weekly_report","arguments":{}}`: "property is required",
	} {
		r := post(t, `{"jsonrpc":"2.0","id":7,`+body+`}`)
		var answer struct {
			ID    int
			Error struct {
				Code    int
				Message string
			}
		}
		err := json.Unmarshal(r.Body.Bytes(), &answer)
		if err != nil || r.Code != http.StatusOK || answer.ID != 7 || answer.Error.Code != -32602 || answer.Error.Message != want {
			t.Errorf("%s: %d %s (%v)", body, r.Code, r.Body, err)
		}
	}
}

// A parameter that the method does not have is ignored, whatever its type, and a method that does not exist is refused as that.
func TestOnlyParametersOfTheMethodAreChecked(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`"method":"tools/list","params":{"name":7}`:   `"tools":[`,
		`"method":"prompts/list","params":{"name":7}`: `"prompts":[`,
		`"method":"ping","params":{"cursor":7}`:       `"result":{}`,
		`"method":"foo","params":{"name":7}`:          `"code":-32601,`,
		`"method":"foo","params":[1]`:                 `"code":-32601,`,
	} {
		if r := post(t, `{"jsonrpc":"2.0","id":7,`+body+`}`); !strings.Contains(r.Body.String(), want) {
			t.Errorf("%s: %d %s", body, r.Code, r.Body)
		}
	}
}

package mcp

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"
)

// Error codes of JSON-RPC.
const (
	codeParseError     = -32700
	codeInvalidRequest = -32600
	codeMethodNotFound = -32601
	codeInvalidParams  = -32602
)

// refusing answers in JSON-RPC what the SDK refuses in plain text: a client that looks for the answer to its request by the id finds it. It
// also refuses what the SDK would answer under another id, or not at all.
type refusing struct{ inner http.Handler }

var _ http.Handler = refusing{}

func (h refusing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		refuse(w, http.StatusBadRequest, "null", codeParseError, "the message was not received completely")
		return
	}
	if len(body) > 0 && !gjson.ValidBytes(body) {
		refuse(w, http.StatusBadRequest, "null", codeParseError, "the message is not JSON")
		return
	}
	id := idOf(body)
	if problem := cmp.Or(problemOfMethods(body), problemOfIDs(body)); problem != "" {
		refuse(w, http.StatusBadRequest, id, codeInvalidRequest, problem)
		return
	}
	if problem := problemOfParams(body); problem != "" && id != "null" {
		refuse(w, http.StatusOK, id, codeInvalidParams, problem) // with the status of an unknown tool
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	decodeName(r.Header)
	p := &plainText{ResponseWriter: w}
	h.inner.ServeHTTP(p, r)
	if p.status == 0 {
		return
	}
	message, code := strings.TrimSpace(string(p.text)), codeInvalidRequest
	if strings.HasPrefix(message, "JSON RPC not handled:") { // the text of the SDK's error for it
		code, message = codeMethodNotFound, "a method of the batch does not exist"
		if method := gjson.GetBytes(body, "method"); method.Exists() {
			message = fmt.Sprintf("there is no method %.80q", method.String())
		}
	}
	refuse(w, p.status, id, code, message)
}

// decodeName decodes a Mcp-Name in base64, the form of names that a header field cannot have: the SDK compares it with the name in the message
// as it is. What is not base64 stays, and is refused as another name.
func decodeName(h http.Header) {
	const field, prefix, suffix = "Mcp-Name", "=?base64?", "?="
	value := h.Get(field)
	if !strings.HasPrefix(value, prefix) || !strings.HasSuffix(value, suffix) || len(value) < len(prefix)+len(suffix) {
		return
	}
	if name, err := base64.StdEncoding.DecodeString(value[len(prefix) : len(value)-len(suffix)]); err == nil {
		h.Set(field, string(name))
	}
}

// idOf returns the id of a request as JSON: null for a notification, a batch, and what cannot be an id.
func idOf(body []byte) string {
	message := gjson.ParseBytes(body)
	if id := message.Get("id"); message.IsObject() && (id.Type == gjson.String || id.Type == gjson.Number) {
		return id.Raw
	}
	return "null"
}

// problemOfMethods returns what is wrong with the method of a message, or with those of a batch; empty if nothing is. The SDK would take a
// message without one for an answer, and not answer it; only a message with a result or an error is.
func problemOfMethods(body []byte) string {
	for _, message := range gjson.ParseBytes(body).Array() { // itself, unless it is a batch
		method := message.Get("method")
		switch {
		case !message.IsObject():
			return "a message is a JSON object"
		case method.Type == gjson.String, !method.Exists() && (message.Get("result").Exists() || message.Get("error").Exists()):
		default:
			return "a message needs a method, which is a string, unless it is an answer"
		}
	}
	return ""
}

// problemOfIDs returns what is wrong with the id of a message, or with those of a batch; empty if nothing is. The SDK would not repeat some
// ids exactly, and would answer only one of two requests under one id.
func problemOfIDs(body []byte) string {
	seen := make(map[any]bool)
	for _, message := range gjson.ParseBytes(body).Array() { // itself, unless it is a batch
		id := message.Get("id")
		switch {
		case id.Type == gjson.Null: // also without an id
		case id.Type != gjson.Number && id.Type != gjson.String:
			return "an id is a string or an integer"
		case id.Type == gjson.Number && !isExact(id.Float()):
			return fmt.Sprintf("the id %.40s cannot be repeated exactly: use a string, or an integer below 2^53", id.Raw)
		case seen[id.Value()]:
			return fmt.Sprintf("two messages of the batch have the id %.40s: give each its own", id.Raw)
		default:
			seen[id.Value()] = true
		}
	}
	return ""
}

// problemOfParams returns which parameter of a request has another type than the protocol's; empty if none has. The SDK would name its own
// types, and for initialize answer with a code that is none. Arguments of tools are checked by the tools, whose errors models see.
func problemOfParams(body []byte) (problem string) {
	request := gjson.ParseBytes(body)
	method, params := request.Get("method").Str, request.Get("params")
	objects, texts := paramsOf(method)
	if len(objects) == 0 {
		return "" // there is no such method
	}
	check := func(ok bool, name, want string, value gjson.Result) {
		if !ok && value.Type != gjson.Null && problem == "" { // the type of what is missing is Null, too
			problem = fmt.Sprintf("%.60s must be %s, not %.40s", name, want, value.Raw)
		}
	}
	text := func(name string, value gjson.Result) { check(value.Type == gjson.String, name, "a string", value) }
	for _, name := range objects {
		value := request.Get(name)
		check(value.IsObject(), strings.TrimPrefix(name, "params."), "an object", value)
	}
	for _, name := range texts {
		text(name, params.Get(name))
	}
	if method == "prompts/get" {
		params.Get("arguments").ForEach(func(name, value gjson.Result) bool {
			text("arguments."+name.Str, value)
			return problem == ""
		})
	}
	return problem
}

// paramsOf returns which members of a request of a method are objects, and which of its parameters are strings. Of a method that the SDK does
// not know, it returns none. The SDK decodes the parameters of the others, whether or not this server has something to return for them.
func paramsOf(method string) (objects, texts []string) {
	objects = []string{"params", "params._meta"}
	switch method {
	case "ping":
		return objects, nil
	case "initialize":
		return append(objects, "params.capabilities", "params.capabilities.roots", "params.clientInfo"),
			[]string{"protocolVersion", "clientInfo.name", "clientInfo.version"}
	case "tools/list", "prompts/list", "resources/list", "resources/templates/list":
		return objects, []string{"cursor"}
	case "resources/read", "resources/subscribe", "resources/unsubscribe":
		return objects, []string{"uri"}
	case "logging/setLevel":
		return objects, []string{"level"}
	case "completion/complete":
		return append(objects, "params.ref", "params.argument", "params.context"),
			[]string{"ref.type", "ref.name", "ref.uri", "argument.name", "argument.value"}
	case "tools/call":
		return objects, []string{"name"}
	case "prompts/get":
		return append(objects, "params.arguments"), []string{"name"}
	}
	return nil, nil
}

// isExact reports whether the SDK repeats a number, which it keeps as an integer after it was a float64.
func isExact(id float64) bool { return id == math.Trunc(id) && math.Abs(id) < 1<<53 }

// refuse writes an error of JSON-RPC. The id is JSON.
func refuse(w http.ResponseWriter, status int, id string, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encode(map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(id),
		"error": map[string]any{"code": code, "message": message}})) // the client is gone
}

// A plainText keeps an error that is written in plain text, and passes everything else on.
type plainText struct {
	http.ResponseWriter
	status int // 0: it is not such an error
	text   []byte
}

// Unwrap lets http.ResponseController flush.
func (p *plainText) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p *plainText) WriteHeader(status int) {
	if status >= http.StatusBadRequest && strings.HasPrefix(p.Header().Get("Content-Type"), "text/plain") {
		p.status = status
		return
	}
	p.ResponseWriter.WriteHeader(status)
}

func (p *plainText) Write(b []byte) (int, error) {
	if p.status != 0 {
		p.text = append(p.text, b...)
		return len(b), nil
	}
	return p.ResponseWriter.Write(b)
}

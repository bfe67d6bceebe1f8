package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// A failure is the answer to a request in the server's place. The code is an HTTP status: codes of JSON-RPC and of the protocol itself are
// negative.
type failure struct {
	code       int
	message    string
	retryAfter *int // seconds
}

// answer returns the failure as the answer to a request, by the id of the request as JSON.
func (f *failure) answer(id string) []byte {
	type data struct {
		RetryAfterSeconds *int `json:"retry_after_seconds"`
	}
	type object struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    *data  `json:"data,omitempty"`
	}
	o := object{Code: f.code, Message: f.message}
	if f.retryAfter != nil {
		o.Data = &data{f.retryAfter}
	}
	text, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   object          `json:"error"`
	}{"2.0", json.RawMessage(id), o})
	if err != nil {
		panic("BUG: the id was read from JSON: " + err.Error())
	}
	return text
}

// Codes of JSON-RPC.
const (
	parseError     = -32700
	invalidRequest = -32600
)

// A statusError is an answer that is not JSON-RPC.
type statusError struct {
	response *http.Response
	body     []byte
}

func (e *statusError) Error() string { return e.response.Status }

// explain returns what a person, or their agent, can do about an error.
func (s *session) explain(err error) *failure {
	if refused, ok := errors.AsType[*statusError](err); ok {
		return s.explainStatus(refused.response, refused.body)
	}
	f := &failure{code: http.StatusBadGateway, message: err.Error()}
	if outer, ok := errors.AsType[*url.Error](err); ok {
		f.message = fmt.Sprintf("%s cannot be reached (%v): check --url and the network, then send the request again", s.Endpoint, outer.Err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		f.code, f.message = http.StatusGatewayTimeout, fmt.Sprintf("%s did not answer within %v: send the request again", s.Endpoint, patience)
	}
	return f
}

// explainStatus explains an HTTP status of the server, or of a proxy in front of it.
func (s *session) explainStatus(response *http.Response, body []byte) *failure {
	f := &failure{code: response.StatusCode}
	said := cause(response, body)
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds >= 0 {
		f.retryAfter = &seconds
	}
	switch {
	case f.code == http.StatusUnauthorized:
		f.message = said + "; set SARA_API_KEY to a valid key, or write one into the file of --key-file, and start sara mcp again"
	case f.code == http.StatusNotFound, f.code == http.StatusMethodNotAllowed:
		f.message = said + "; there is no MCP endpoint at " + s.Endpoint + ": check --url"
	case f.code/100 == 3:
		f.message = said + "; the server redirects to " + response.Header.Get("Location") + "; if it is yours, name that address with --url"
	case f.retryAfter != nil:
		f.message = fmt.Sprintf("%s; send the request again in %d s", said, *f.retryAfter)
	default:
		f.message = said
	}
	return f
}

// cause returns what an answer gives as its reason: sara's code and message, a line of text, or only the status.
func cause(response *http.Response, body []byte) string {
	if code := gjson.GetBytes(body, "error.code"); gjson.ValidBytes(body) && code.Exists() {
		return fmt.Sprintf("HTTP %d %s: %s", response.StatusCode, shorten(code.String()), shorten(gjson.GetBytes(body, "error.message").String()))
	}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/plain") && utf8.Valid(body) && len(body) > 0 {
		return fmt.Sprintf("HTTP %s: %s", response.Status, shorten(string(body)))
	}
	return "HTTP " + response.Status
}

// shorten returns a text on one line, of a bounded length.
func shorten(text string) string {
	const most = 500
	line := []rune(strings.Join(strings.Fields(text), " "))
	if len(line) > most {
		return string(line[:most]) + "…"
	}
	return string(line)
}

package relay

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"
)

// A message is what the relay reads of a client's message.
type message struct {
	text     []byte
	id       string // as JSON; empty: not a request
	method   string // empty: the answer to a request of the server
	name     string // of the tool, prompt or resource that the request is about
	cancels  string // id of the request that a cancellation is about, as JSON
	revision string // that the message itself names; empty in revisions before 2026-07-28
}

func (m *message) isRequest() bool { return m.id != "" && m.method != "" }

// label names the message in the log.
func (m *message) label() string { return cmp.Or(m.method, "an answer of the client") }

// revisionMember is the path of the revision in params, which every request has since 2026-07-28.
const revisionMember = `_meta.io\.modelcontextprotocol/protocolVersion`

// parse reads one line. The problem is nil unless it is not a message.
func parse(line []byte) (m message, problem *failure) {
	if !gjson.ValidBytes(line) {
		return m, &failure{code: parseError, message: "the line is not JSON: send each message on one line"}
	}
	whole := gjson.ParseBytes(line)
	if !whole.IsObject() {
		return m, &failure{code: invalidRequest, message: "the line is not a JSON object: send each message by itself, not in a batch"}
	}
	params := whole.Get("params")
	m = message{text: line, id: whole.Get("id").Raw, method: whole.Get("method").String(), cancels: params.Get("requestId").Raw,
		revision: params.Get(revisionMember).String()}
	switch m.method {
	case "tools/call", "prompts/get":
		m.name = params.Get("name").String()
	case "resources/read":
		m.name = params.Get("uri").String()
	}
	return m, nil
}

// header returns the header fields that repeat parts of the body. negotiated is the revision of initialize.
func (m *message) header(negotiated string) http.Header {
	h := http.Header{}
	if m.revision == "" {
		if negotiated != "" {
			h.Set("MCP-Protocol-Version", encode(negotiated))
		}
		return h
	}
	h.Set("MCP-Protocol-Version", encode(m.revision))
	h.Set("Mcp-Method", encode(m.method))
	if m.name != "" {
		h.Set("Mcp-Name", encode(m.name))
	}
	return h
}

// Values that a header field cannot have are sent in base64, between these marks.
const encodedPrefix, encodedSuffix = "=?base64?", "?="

func encode(value string) string {
	plain := strings.TrimSpace(value) == value && !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) &&
		!(strings.HasPrefix(value, encodedPrefix) && strings.HasSuffix(value, encodedSuffix))
	if plain {
		return value
	}
	return encodedPrefix + base64.StdEncoding.EncodeToString([]byte(value)) + encodedSuffix
}

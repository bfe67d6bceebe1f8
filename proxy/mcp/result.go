package mcp

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"sara/translate"
)

// maxResult bounds a result in bytes as sent, so that it has fewer than the 40,000 characters that common clients take. The rest is room for the
// envelope of the message.
const maxResult = 39_000

// maxMessage bounds the message of an error in characters. That of an ambiguous property lists all ids.
const maxMessage = 2_000

// metaRequestID is the member of a result's _meta with the id of its REST request, or of the MCP request if it made none, by which the log has it.
const metaRequestID = "request_id"

// outputSchema admits data with meta, or an error. What is in data is in the REST reference: copies of it would make the list of tools longer
// than what models read.
const outputSchema = `{"type":"object","anyOf":[{"required":["data","meta"]},{"required":["error"]}]}`

// content is the structured content of a result: {"data", "meta"}.
type content []byte

// content returns the data and the meta of a success, byte for byte.
func (a *Answer) content() content {
	both := gjson.GetManyBytes(a.Body, "data", "meta")
	return content(`{"data":` + both[0].Raw + `,"meta":` + both[1].Raw + `}`)
}

// A failure is an error as a model sees it.
type failure struct {
	Code       string `json:"code"`
	Message    string `json:"message"`
	RetryAfter *int   `json:"retry_after_seconds"`

	requestID string
}

func invalid(message string) *failure {
	return &failure{Code: translate.CodeValidation, Message: message}
}

// broken is the error of a panic.
func broken() *failure {
	return &failure{Code: "INTERNAL_ERROR", Message: "something went wrong on our side"}
}

// failure returns the error of an answer, nil for a success.
func (a *Answer) failure() *failure {
	if a.Status == 200 {
		return nil
	}
	both := gjson.GetManyBytes(a.Body, "error.code", "error.message")
	f := &failure{Code: both[0].String(), Message: both[1].String(), requestID: a.RequestID}
	if utf8.RuneCountInString(f.Message) > maxMessage {
		f.Message = fmt.Sprintf("%.*s …", maxMessage, f.Message)
	}
	if a.RetryAfter > 0 {
		f.RetryAfter = &a.RetryAfter
	}
	return f
}

// next returns what an agent can do about the error.
func (f *failure) next() string {
	if f.RetryAfter != nil {
		return "Wait " + counted(*f.RetryAfter, "second") + " before you call again."
	}
	switch f.Code {
	case translate.CodeValidation, translate.CodeUnsupportedParameter, translate.CodeDateRangeTooOld:
		return "Correct the arguments and call again."
	case "NOT_FOUND", "PROPERTY_AMBIGUOUS":
		return "Call list_properties for the ids of the sites that the key can read."
	case "INSUFFICIENT_SCOPE", "API_ACCESS_REQUIRED", "ADDRESS_NOT_ALLOWED", "INVALID_API_KEY", "API_KEY_REVOKED", "API_KEY_EXPIRED":
		return "Trying again will not help: tell the user."
	}
	return "Tell the user if it happens again."
}

// result returns the error as a result.
func (f *failure) result() *sdk.CallToolResult {
	shown := *f
	shown.Message = f.Message + ". " + f.next()
	result := &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: shown.Code + ": " + shown.Message}},
		StructuredContent: map[string]any{"error": shown}}
	if f.requestID != "" {
		result.Meta = sdk.Meta{metaRequestID: f.requestID}
	}
	return result
}

// extra is what a result has besides its structured content.
type extra struct {
	requestIDs []string
	totals     []byte // JSON, for the text; nil: not known, or in the content
}

// fit returns the result of a call, with as many rows in each of its lists as fit.
func (t *tool) fit(c content, x extra) *sdk.CallToolResult {
	whole := t.result(c, x)
	if size(whole) <= maxResult {
		return whole
	}
	longest := 0
	for _, list := range t.lists {
		longest = max(longest, int(gjson.GetBytes(c, list+".#").Int()))
	}
	cutTo := func(rows int) *sdk.CallToolResult { return t.result(t.cut(c, rows), x) }
	fitting := sort.Search(longest, func(cut int) bool { return size(cutTo(longest-1-cut)) <= maxResult })
	if fitting == longest {
		return (&failure{Code: "RESULT_TOO_LARGE", Message: "the result does not fit even without its rows: ask for less"}).result()
	}
	return cutTo(longest - 1 - fitting)
}

// result returns a result whose structured content is c.
func (t *tool) result(c content, x extra) *sdk.CallToolResult {
	result := &sdk.CallToolResult{StructuredContent: json.RawMessage(c),
		Content: []sdk.Content{&sdk.TextContent{Text: t.text(c, gjson.ParseBytes(x.totals))}}, Meta: sdk.Meta{metaRequestID: x.requestIDs[0]}}
	if len(x.requestIDs) > 1 {
		result.Meta["request_ids"] = x.requestIDs
	}
	return result
}

// size returns how many bytes a result takes on the wire.
func size(r *sdk.CallToolResult) int {
	text, err := json.Marshal(r)
	if err != nil {
		panic("BUG: a result does not marshal: " + err.Error())
	}
	return len(text)
}

// cut shortens the lists of a result to so many rows, and says so in meta.cut. Lists of days keep their end: users ask for the newest days.
func (t *tool) cut(c content, rows int) content {
	short := []byte(c)
	var how []string
	for _, list := range t.lists {
		all := gjson.GetBytes(c, list).Array()
		if len(all) <= rows {
			continue
		}
		kept, rest := all[:rows], t.rest(c, rows)
		if ofDays(all) {
			kept, rest = all[len(all)-rows:], t.olderThan(list, all, rows)
		}
		short = set(short, list, array(kept))
		short = set(short, "meta.cut."+sjsonKey(list), fmt.Appendf(nil, `{"shown":%d,"of":%d}`, rows, len(all)))
		if !slices.Contains(how, rest) {
			how = append(how, rest)
		}
	}
	return set(short, "meta.cut.how", encode(strings.Join(how, " ")))
}

// ofDays reports whether a list is by date, the oldest first: all lists of dated rows are.
func ofDays(rows []gjson.Result) bool { return len(rows) > 0 && rows[0].Get("date").Exists() }

// array returns the JSON of a list, whose members stay as they are.
func array(members []gjson.Result) []byte {
	text := []byte{'['}
	for i, member := range members {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, member.Raw...)
	}
	return append(text, ']')
}

// rest says how to get the rows that were cut at the end of a list.
func (t *tool) rest(c content, rows int) string {
	for _, p := range t.params {
		if p.Name == "offset" {
			return "For the next rows call again with offset " + strconv.Itoa(int(gjson.GetBytes(c, "meta.offset").Int())+rows) + "."
		}
	}
	if t.single != "" {
		return "For the other rows call " + t.single + "."
	}
	return "The REST API has the other rows."
}

// olderThan says that a list of days has only its newest rows, and how to get the others. A day may have several rows, so the last day
// of the others may be the first one of those shown.
func (t *tool) olderThan(list string, all []gjson.Result, rows int) string {
	shown := fmt.Sprintf("%s has only the newest %d of %d rows", list, rows, len(all))
	if t.older == "" {
		return shown + ": the REST API has the older ones."
	}
	return fmt.Sprintf("%s: for the older ones call %s with start_date %s and end_date %s.", shown, t.older,
		all[0].Get("date"), all[len(all)-rows-1].Get("date"))
}

// sjsonKey escapes the dots of a path for its use as one key.
func sjsonKey(path string) string { return strings.ReplaceAll(path, ".", `\.`) }

// set sets a member of valid JSON.
func set(text []byte, path string, raw []byte) []byte {
	changed, err := sjson.SetRawBytes(text, path, raw)
	if err != nil {
		panic("BUG: a path of a result: " + err.Error())
	}
	return changed
}

func encode(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic("BUG: a part of a result does not marshal: " + err.Error())
	}
	return text
}

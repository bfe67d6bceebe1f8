package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"sara/proxy/cache"
)

// rows is the data of a list.
type rows[T any] struct {
	Rows []T `json:"rows"`
}

// envelope returns the reply of an endpoint without a response cache. The client must revalidate it before each use.
func envelope(data, meta any) reply {
	head := appendJSON([]byte(`{"success":true,"data":`), data)
	head = append(head, `,"meta":`...)
	head = bytes.TrimSuffix(appendJSON(head, meta), []byte("}"))
	if head[len(head)-1] != '{' {
		head = append(head, ',')
	}
	return reply{answer: cache.NewAnswer(append(head, `"request_id":"`...), time.Time{}), cacheStatus: cacheBypass, tail: appendRequestID}
}

func appendRequestID(dst []byte, _, requestID string) []byte {
	return append(append(dst, requestID...), `"}}`...)
}

func appendJSON(dst []byte, value any) []byte {
	buffer := bytes.NewBuffer(dst)
	encoder := json.NewEncoder(buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(fmt.Sprintf("BUG: the payload %T does not marshal: %v", value, err))
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n"))
}

// appendText appends a text as a JSON string. Most texts need no escapes.
func appendText(dst []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return appendJSON(dst, text)
		}
	}
	dst = append(append(dst, '"'), text...)
	return append(dst, '"')
}

// convertAll converts a list. An empty list stays a list, which JSON needs: null would be another type.
func convertAll[From, To any](list []From, convert func(From) To) []To {
	converted := make([]To, len(list))
	for i := range list {
		converted[i] = convert(list[i])
	}
	return converted
}

// timestamp formats a time as the API does (spec: ISO 8601, UTC).
func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// optional returns nil, which JSON writes as null, for an empty string.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

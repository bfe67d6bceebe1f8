package openapi

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
)

// The examples are real: a test of proxy/check sends their requests to a demo, and compares.
//
//go:embed examples/*.json
var exampleFiles embed.FS

// example returns an example of the operation's answer as compact JSON, and the request that it answers.
func (o *Operation) example() (request string, answer []byte, err error) {
	text, err := exampleFiles.ReadFile("examples/" + o.ID + ".json")
	if err != nil {
		return "", nil, fmt.Errorf("the operation %s has no example: %w", o.ID, err)
	}
	var example struct {
		Request string          `json:"request"`
		Answer  json.RawMessage `json:"answer"`
	}
	var compact bytes.Buffer
	if err = json.Unmarshal(text, &example); err == nil {
		err = json.Compact(&compact, example.Answer)
	}
	if err != nil {
		return "", nil, fmt.Errorf("example of %s: %w", o.ID, err)
	}
	return example.Request, compact.Bytes(), nil
}

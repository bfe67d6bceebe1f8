package proxy

import (
	"embed"
	"encoding/json"
	"fmt"
)

// The examples are real: a test of cmd/sara sends their requests to a demo, and compares.
//
//go:embed examples/*.json
var exampleFiles embed.FS

// example returns the examples of the operation's answer: one, whose summary is the request that it answers.
func (r *route) example() (map[string]any, error) {
	text, err := exampleFiles.ReadFile("examples/" + r.Operation + ".json")
	if err != nil {
		return nil, fmt.Errorf("the operation %s has no example: %w", r.Operation, err)
	}
	var example struct {
		Request string          `json:"request"`
		Answer  json.RawMessage `json:"answer"`
	}
	if err := json.Unmarshal(text, &example); err != nil {
		return nil, fmt.Errorf("example of %s: %w", r.Operation, err)
	}
	return map[string]any{"demo": map[string]any{"summary": "GET " + example.Request, "value": example.Answer}}, nil
}

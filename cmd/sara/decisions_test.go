package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

// demoTime is the time of the demo whose answers the pages show: with another one the figures and the days are others. On the
// first of a month the anchor is in the month before.
var demoTime = time.Date(2026, time.November, 1, 20, 0, 0, 0, time.UTC)

// testDecisions sends every example of proxy/DECISIONS.md to the demo, so that the page cannot be wrong.
func testDecisions(t *testing.T, world demoLine) {
	text, err := os.ReadFile("../../proxy/DECISIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	// A request line, header lines, an empty line, and the status with the members of the answer that matter.
	examples := regexp.MustCompile(`(?m)^    GET (\S.*)\n((?:    [A-Z][A-Za-z-]+: .*\n)*)\n    (\d{3}) (\{.*\})$`)
	found := examples.FindAllStringSubmatch(string(text), -1)
	if sections := strings.Count(string(text), "\n### "); len(found) < sections {
		t.Errorf("%d examples for %d sections, want one each", len(found), sections)
	}
	for _, example := range found {
		status, got := sendExample(t, world, example[1], example[2])
		if status != example[3] {
			t.Errorf("GET %s: status %s, want %s", example[1], status, example[3])
		}
		var want any
		if err := json.Unmarshal([]byte(example[4]), &want); err != nil {
			t.Fatalf("the answer to GET %s is not JSON: %v", example[1], err)
		}
		if where := differs(want, got, "answer"); where != "" {
			t.Errorf("GET %s: %s", example[1], where)
		}
	}
}

// sendExample sends a request as the page writes it: the query unencoded, keys by their name in the demo.
func sendExample(t *testing.T, world demoLine, target, headers string) (status string, body any) {
	t.Helper()
	path, query, hasQuery := strings.Cut(target, "?")
	if hasQuery {
		parameters := url.Values{}
		for parameter := range strings.SplitSeq(query, "&") {
			name, value, _ := strings.Cut(parameter, "=")
			parameters.Add(name, value)
		}
		path += "?" + parameters.Encode()
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, world.BaseURL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+world.Keys["agency"])
	for line := range strings.Lines(headers) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		for key, secret := range world.Keys {
			value = strings.Replace(value, "<"+key+">", secret, 1)
		}
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
		t.Fatalf("GET %s: %v", target, err)
	}
	return fmt.Sprint(response.StatusCode), body
}

// differs names the first member of want that got has otherwise, empty if there is none. Got may have more members, and more
// elements than an array that is not empty.
func differs(want, got any, where string) string {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s is %v, want an object", where, got)
		}
		for name, value := range want {
			if _, ok := object[name]; !ok {
				return where + "." + name + " is missing"
			}
			if at := differs(value, object[name], where+"."+name); at != "" {
				return at
			}
		}
		return ""
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) < len(want) || len(want) == 0 && len(list) > 0 {
			return fmt.Sprintf("%s is %v, want %v", where, got, want)
		}
		for i := range want {
			if at := differs(want[i], list[i], fmt.Sprintf("%s[%d]", where, i)); at != "" {
				return at
			}
		}
		return ""
	}
	if !reflect.DeepEqual(want, got) {
		return fmt.Sprintf("%s is %v, want %v", where, got, want)
	}
	return ""
}

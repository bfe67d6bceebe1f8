package saratest

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

// A World is what demo --json prints.
type World struct {
	BaseURL     string                       `json:"base_url"`
	AdminURL    string                       `json:"admin_url"`
	UpstreamURL string                       `json:"upstream_url"`
	Keys        map[string]string            `json:"keys"`
	Properties  map[string]map[string]string `json:"properties"`
}

// PageTime is the time of the demo whose answers the pages show: with another one the figures and the days are others. On the first of a
// month the anchor is in the month before.
func PageTime() time.Time { return time.Date(2026, time.November, 1, 20, 0, 0, 0, time.UTC) }

// A Page shows examples: requests to a demo, and its answers.
type Page struct {
	File    string
	Section string                                // begins the title of a section, of which each has an example
	KeyOf   func(path string) string              // names the key for a path
	Run     func(t *testing.T, name, args string) // runs a command; nil: the page has none
}

// examples finds the examples of a page. One is a request line, header lines, an empty line, and the status with the members of the
// answer that matter, on one line or on further ones with more indent. Before it, commands can wait, or control the simulated Search
// Console.
func examples() *regexp.Regexp {
	const request = `GET (\S.*)\n((?:    [A-Z][A-Za-z-]+: .*\n)*)\n    (\d{3}) (\{.*(?:\n     .*)*)$`
	const command = `(sleep|curl) (.*)$`
	return regexp.MustCompile(`(?m)^    (?:` + request + `|` + command + `)`)
}

// Test sends the examples of a page to a demo of PageTime, so that the page cannot be wrong.
func (p Page) Test(t *testing.T, world World) {
	text, err := os.ReadFile(p.File)
	if err != nil {
		t.Fatal(err)
	}
	form := examples()
	for _, part := range strings.Split(string(text), "\n"+p.Section)[1:] {
		if form.MatchString(part) {
			continue
		}
		title, _, _ := strings.Cut(part, "\n")
		t.Errorf("%s: the section %q has no example", p.File, title)
	}
	for _, example := range form.FindAllStringSubmatch(string(text), -1) {
		if example[5] != "" {
			p.Run(t, example[5], example[6])
			continue
		}
		if problem := p.send(t, world, example); problem != "" {
			t.Errorf("GET %s: %s", example[1], problem)
		}
	}
}

// send sends an example, and returns what is wrong with the answer. On a machine that stands still for a moment, the simulated Search
// Console answers too late, and sara with stored figures: a wrong answer that says so gets another chance, no other one does.
func (p Page) send(t *testing.T, world World, example []string) (problem string) {
	t.Helper()
	target, headers, wantStatus := example[1], example[2], example[3]
	var want any
	if err := json.Unmarshal([]byte(example[4]), &want); err != nil {
		t.Fatalf("the answer to GET %s is not JSON: %v", target, err)
	}
	path, _, _ := strings.Cut(target, "?")
	for range 2 {
		status, got := world.ask(t, p.KeyOf(path), target, headers)
		if problem = differs(want, got, "answer"); problem == "" && status != wantStatus {
			problem = fmt.Sprintf("status %s, want %s", status, wantStatus)
		}
		if problem == "" || !isLate(got) {
			break
		}
	}
	return problem
}

// isLate reports whether an answer has stored figures because Search Console was slow.
func isLate(answer any) bool {
	object, _ := answer.(map[string]any)
	meta, _ := object["meta"].(map[string]any)
	return meta["stale_reason"] == "Search Console takes longer than usual to answer"
}

// ask sends a request as the page writes it: the query unencoded, keys by their name in the demo.
func (w World) ask(t *testing.T, key, target, headers string) (status string, body any) {
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
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.BaseURL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+w.Keys[key])
	for line := range strings.Lines(headers) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		for name, secret := range w.Keys {
			value = strings.Replace(value, "<"+name+">", secret, 1)
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

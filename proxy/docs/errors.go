package docs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
)

// An Explanation explains an error code to users.
type Explanation struct {
	Code    string
	When    string // Markdown
	Do      string // Markdown
	Request string // a request that always fails with the code; empty: there is none
	Message string // of the error
}

// An entry is the part of the page about one code, for the template.
type entry struct {
	Explanation
	Status           string
	WhenHTML, DoHTML template.HTML
	Example          string // body of the error answer
}

// explain returns an entry for each code, in the same order.
func explain(codes []Code, docsURL string) ([]entry, error) {
	texts := Explanations()
	if len(texts) > len(codes) {
		for _, text := range texts {
			if !slices.ContainsFunc(codes, func(c Code) bool { return c.Name == text.Code }) {
				return nil, fmt.Errorf("the error code %s is explained, but does not exist", text.Code)
			}
		}
	}
	markdown := newMarkdown()
	entries := make([]entry, len(codes))
	for i, code := range codes {
		at := slices.IndexFunc(texts, func(text Explanation) bool { return text.Code == code.Name })
		if at < 0 {
			return nil, fmt.Errorf("the error code %s is not explained", code.Name)
		}
		var err error
		if entries[i], err = texts[at].entry(markdown, code.Status, docsURL); err != nil {
			return nil, fmt.Errorf("error code %s: %w", code.Name, err)
		}
	}
	return entries, nil
}

func (x Explanation) entry(markdown goldmark.Markdown, status int, docsURL string) (e entry, err error) {
	e = entry{Explanation: x, Status: fmt.Sprintf("%d %s", status, http.StatusText(status))}
	if e.WhenHTML, err = prose(markdown, x.When); err != nil {
		return e, err
	}
	if e.DoHTML, err = prose(markdown, x.Do); err != nil {
		return e, err
	}
	e.Example, err = x.body(docsURL)
	return e, err
}

func prose(markdown goldmark.Markdown, text string) (template.HTML, error) {
	var out bytes.Buffer
	err := markdown.Convert([]byte(text), &out)
	return template.HTML(strings.TrimSpace(out.String())), err // safe: the text is one of this program
}

// body is the error answer as the server writes it, but indented.
func (x Explanation) body(docsURL string) (string, error) {
	type failure struct {
		Code      string `json:"code"`
		Message   string `json:"message"`
		RequestID string `json:"request_id"`
		DocsURL   string `json:"docs_url"`
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(struct {
		Success bool    `json:"success"`
		Error   failure `json:"error"`
	}{Error: failure{x.Code, x.Message, "req_6f1d0c9b8a7e4d5c3b2a190817263544", docsURL}})
	return out.String(), err
}

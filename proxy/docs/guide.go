package docs

import (
	"bytes"
	"fmt"
	"html/template"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
)

// A guide is one page of prose.
type guide struct {
	Name  string // in its path
	Title string
	About string // one line
	Body  template.HTML
}

// guideList lists the guides in the order to read them in; each is guides/NAME.md.
func guideList() []guide {
	return []guide{
		{Name: "first-request", Title: "First request", About: "In curl, Python, Go and JavaScript."},
		{Name: "dates", Title: "Dates and presets", About: "What each preset covers, and how far back you can go."},
		{Name: "filters", Title: "Filters", About: "Queries, pages, brand, page groups; how to put JSON into a URL."},
		{Name: "limits", Title: "Limits and backing off", About: "The ceilings, the headers, and a client that waits as told."},
		{Name: "numbers", Title: "What the numbers mean", About: "Anonymised traffic, the archive, and what meta says."},
	}
}

// What stands in a guide for what the pages are made for.
const (
	baseMark = "https://api.example.com"
	docsMark = "{docs}"
)

func (m *maker) readGuides() ([]guide, error) {
	guides := guideList()
	markdown := newMarkdown()
	for i := range guides {
		g := &guides[i]
		text, err := embedded.ReadFile("guides/" + g.Name + ".md")
		if err != nil {
			return nil, err
		}
		placed := strings.NewReplacer(baseMark, m.base, docsMark, m.root+Path).Replace(string(text))
		var body bytes.Buffer
		if err := markdown.Convert([]byte(placed), &body); err != nil {
			return nil, fmt.Errorf("guide %s: %w", g.Name, err)
		}
		g.Body = template.HTML(body.String()) // ours, but for the base URL, which Markdown escapes
	}
	return guides, nil
}

func newMarkdown() goldmark.Markdown {
	return goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
}

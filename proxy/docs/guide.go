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
	Name  string // last segment of its path
	Title string
	About string // one line
	Text  string // Markdown, about this server
	Body  template.HTML
}

// guideList lists the guides in reading order. The text of each is guides/NAME.md.
func guideList() []guide {
	return []guide{
		{Name: "first-request", Title: "First request", About: "In curl, Python, Go and JavaScript."},
		{Name: "dates", Title: "Dates and presets", About: "What each preset covers, and how far back you can go."},
		{Name: "filters", Title: "Filters", About: "Queries, pages, brand, page groups; how to put JSON into a URL."},
		{Name: "portfolio", Title: "Many sites at once", About: "All properties of a key in one request: what it answers, and what it costs."},
		{Name: "limits", Title: "Limits and backing off", About: "The limits, the headers, and a client that honours Retry-After."},
		{Name: "numbers", Title: "What the numbers mean", About: "Unknown days, comparisons, anonymised traffic, the archive; an answer for each."},
		{Name: "agencies", Title: "Reports of many properties", About: "For agencies: all properties as files, by cron and as an e-mail."},
		{Name: "tools", Title: "Use it from your tools", About: "CSV and NDJSON in jq, DuckDB, pandas, Sheets, Looker Studio, Grafana and Power Query."},
		{Name: "agents", Title: "Agents", About: "Add the API to Claude Code, Cursor, VS Code and others; three questions with all calls."},
		{Name: "analysis", Title: "Analyse the archive", About: "For operators: the history in DuckDB, pandas and dbt."},
		{Name: "bigquery", Title: "Years from BigQuery", About: "For operators: history from Search Console's bulk export."},
		{Name: "connect-google", Title: "Connect Google", About: "For operators: by a person's consent, or with a service account."},
	}
}

// Placeholders in the guides.
const (
	baseMark = "https://api.example.com"
	docsMark = "{docs}"
)

func (m *builder) readGuides() ([]guide, error) {
	guides := guideList()
	for i := range guides {
		g := &guides[i]
		text, err := embedded.ReadFile("guides/" + g.Name + ".md")
		if err != nil {
			return nil, err
		}
		g.Text = strings.NewReplacer(baseMark, m.base, docsMark, m.base+Path).Replace(string(text))
		placed := strings.NewReplacer(baseMark, m.base, docsMark, m.root+Path).Replace(string(text))
		var body bytes.Buffer
		if err := m.markdown.Convert([]byte(placed), &body); err != nil {
			return nil, fmt.Errorf("guide %s: %w", g.Name, err)
		}
		g.Body = template.HTML(focusable(body.String())) // safe: the text is embedded, and Markdown escapes the base URL in it
	}
	return guides, nil
}

// focusable lets the keyboard scroll samples and tables that are wider than the window. Markdown escapes what is not markup.
func focusable(body string) string {
	return strings.NewReplacer("<pre>", `<pre tabindex="0">`, "<table>", `<div class="wide" tabindex="0"><table>`,
		"</table>", "</table></div>").Replace(body)
}

func newMarkdown() goldmark.Markdown {
	return goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
}

package docs

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"path"
	"strings"
	texttemplate "text/template"

	"github.com/yuin/goldmark"
)

//go:embed page guides/*.md
var embedded embed.FS

const (
	typeHTML     = "text/html; charset=utf-8"
	typeMarkdown = "text/markdown; charset=utf-8"
	typeScript   = "text/javascript; charset=utf-8"
	typeStyle    = "text/css; charset=utf-8"
	typeText     = "text/plain; charset=utf-8"
	typeIcon     = "image/svg+xml"
)

// A builder builds the Pages.
type builder struct {
	pages    *Pages
	base     string
	root     string // path of the base URL; empty if the API is at the root
	prefill  Prefill
	markdown goldmark.Markdown
	assets   map[string]string // paths with a content hash, by file name, for the templates

	document *document
	errors   []entry
	guides   []guide
	html     *template.Template
	text     *texttemplate.Template // of the pages as Markdown
}

// addAssets adds the files that the pages load. It must run before addPages, which refers to them by their hashes.
func (m *builder) addAssets() error {
	for name, kind := range map[string]string{"page.js": typeScript, "style.css": typeStyle, "icon.svg": typeIcon} {
		content, err := embedded.ReadFile("page/" + name)
		if err != nil {
			return err
		}
		f := newFile(kind, keepAsset, content)
		extension := path.Ext(name)
		place := "/assets/" + strings.TrimSuffix(name, extension) + "." + f.tag + extension
		m.pages.files[place] = f
		m.assets[name] = m.root + Path + place
	}
	return nil
}

// parse reads what the pages are made of.
func (m *builder) parse(c *Config) (err error) {
	if m.document, err = readDocument(c.Document); err != nil {
		return fmt.Errorf("OpenAPI document: %w", err)
	}
	if m.errors, err = explain(c.Codes, c.DocsURL); err != nil {
		return err
	}
	if m.guides, err = m.readGuides(); err != nil {
		return err
	}
	if m.html, err = template.New("").ParseFS(embedded, "page/*.html"); err != nil {
		return err
	}
	m.text, err = texttemplate.New("").ParseFS(embedded, "page/*.md")
	return err
}

// A view is the data of a template.
type view struct {
	Title  string
	Place  string // of the page, below Docs
	Base   string // of the API
	Root   string // prefix of the links on the page
	Docs   string // path of the reference
	About  string // Markdown, of the API
	Groups []group
	Guides []guide
	Errors []entry
	Prefill

	Guide     *guide
	Operation *operationView
	Query     string // of a search
	Results   []result

	assets map[string]string
}

// Asset returns the path of a file that the page loads.
func (v view) Asset(name string) (string, error) {
	if path, ok := v.assets[name]; ok {
		return path, nil
	}
	return "", fmt.Errorf("there is no asset %s", name)
}

func (m *builder) view() view {
	return view{Base: m.base, Root: m.root, Docs: m.root + Path, About: m.document.About, Groups: m.document.Groups, Guides: m.guides,
		Errors: m.errors, Prefill: m.prefill, assets: m.assets}
}

func (m *builder) addPages() error {
	v := m.view()
	if err := m.add("", "reference", "API reference", v); err != nil {
		return err
	}
	if err := m.add("/errors", "errors", "Error codes", v); err != nil {
		return err
	}
	for i := range m.guides {
		v.Guide = &m.guides[i]
		if err := m.add("/guides/"+v.Guide.Name, "guide", v.Guide.Title, v); err != nil {
			return err
		}
	}
	for _, group := range m.document.Groups {
		for _, o := range group.Operations {
			var err error
			if v.Operation, err = m.viewOf(o); err != nil {
				return err
			}
			if err = m.add("/operations/"+o.ID, "operation", o.Summary, v); err != nil {
				return err
			}
		}
	}
	return m.addOthers()
}

// addOthers adds the pages that have one form only.
func (m *builder) addOthers() error {
	v := m.view()
	list, err := m.write("llms.md", v)
	if err != nil {
		return err
	}
	m.pages.files[LLMSPath] = newFile(typeText, m.keep(), list)
	v.Place, v.Title = "/not-found", "Page not found" // no link of the menu is the current one
	page, err := m.render("notfound.html", v)
	if err != nil {
		return err
	}
	m.pages.notFound = newFile(typeHTML, keepNothing, page)
	return nil
}

// add adds a page in both forms: as HTML at a place, and as Markdown at the same place followed by .md.
func (m *builder) add(place, name, title string, v view) error {
	v.Place, v.Title = place, title
	page, err := m.render(name+".html", v)
	if err != nil {
		return err
	}
	text, err := m.write(name+".md", v)
	if err != nil {
		return err
	}
	m.pages.files[place] = newFile(typeHTML, m.keep(), page)
	m.pages.files[place+".md"] = newFile(typeMarkdown, m.keep(), text)
	return nil
}

// keep is the Cache-Control of pages. A key that is filled in is another one after a restart.
func (m *builder) keep() string {
	if m.prefill.Key != "" {
		return keepNothing
	}
	return keepPage
}

func (m *builder) render(name string, v view) ([]byte, error) {
	var page bytes.Buffer
	err := m.html.ExecuteTemplate(&page, name, v)
	return page.Bytes(), err
}

func (m *builder) write(name string, v view) ([]byte, error) {
	var text bytes.Buffer
	err := m.text.ExecuteTemplate(&text, name, v)
	return text.Bytes(), err
}

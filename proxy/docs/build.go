package docs

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"path"
	"strings"
)

//go:embed page guides/*.md swagger-ui
var embedded embed.FS

const (
	typeHTML   = "text/html; charset=utf-8"
	typeScript = "text/javascript; charset=utf-8"
	typeStyle  = "text/css; charset=utf-8"
	typeText   = "text/plain; charset=utf-8"
	typeIcon   = "image/svg+xml"
)

// A builder builds the Pages.
type builder struct {
	pages  *Pages
	base   string
	root   string            // path of the base URL; empty if the API is at the root
	assets map[string]string // paths with a content hash, by file name, for the templates
}

// addAssets adds the files that the pages load. It must run before addPages, which refers to them by their hashes.
func (m *builder) addAssets() error {
	for name, kind := range map[string]string{"swagger-ui-bundle.js": typeScript, "swagger-ui.css": typeStyle} {
		packed, err := embedded.ReadFile("swagger-ui/" + name + ".gz")
		if err != nil {
			return err
		}
		m.addAsset(name, newPackedFile(kind, packed))
	}
	for name, kind := range map[string]string{"reference.js": typeScript, "page.js": typeScript, "style.css": typeStyle, "icon.svg": typeIcon} {
		content, err := embedded.ReadFile("page/" + name)
		if err != nil {
			return err
		}
		m.addAsset(name, newFile(kind, keepAsset, content))
	}
	return m.addLicences()
}

func (m *builder) addAsset(name string, f *File) {
	extension := path.Ext(name)
	place := "/assets/" + strings.TrimSuffix(name, extension) + "." + f.tag + extension
	m.pages.files[place] = f
	m.assets[name] = m.root + Path + place
}

// addLicences adds the licences of third-party files, which must accompany them.
func (m *builder) addLicences() error {
	var all bytes.Buffer
	for _, name := range []string{"NOTICE", "LICENSE", "swagger-ui-bundle.js.LICENSE.txt"} {
		content, err := embedded.ReadFile("swagger-ui/" + name)
		if err != nil {
			return err
		}
		fmt.Fprintf(&all, "%s of Swagger UI\n\n%s\n\n", name, content)
	}
	m.pages.files["/licences.txt"] = newFile(typeText, keepPage, all.Bytes())
	return nil
}

// A view is the data of a template.
type view struct {
	Title  string
	Base   string // of the API
	Root   string // prefix of the links on the page
	Docs   string // path of the reference
	Guides []guide
	Errors []entry
	Body   template.HTML // of a guide
	Name   string        // of the guide

	assets map[string]string
}

// Asset returns the path of a file that the page loads.
func (v view) Asset(name string) (string, error) {
	if path, ok := v.assets[name]; ok {
		return path, nil
	}
	return "", fmt.Errorf("there is no asset %s", name)
}

func (m *builder) addPages(entries []entry) error {
	layout, err := template.New("").ParseFS(embedded, "page/*.html")
	if err != nil {
		return err
	}
	guides, err := m.readGuides()
	if err != nil {
		return err
	}
	v := view{Base: m.base, Root: m.root, Docs: m.root + Path, Guides: guides, Errors: entries, assets: m.assets}
	if m.pages.notFound, err = v.render(layout, "notfound.html", "Page not found"); err != nil {
		return err
	}
	m.pages.notFound.Cache = keepNothing
	if m.pages.files[""], err = v.render(layout, "reference.html", "Reference"); err != nil {
		return err
	}
	for _, g := range guides {
		v.Body, v.Name = g.Body, g.Name
		if m.pages.files["/guides/"+g.Name], err = v.render(layout, "guide.html", g.Title); err != nil {
			return err
		}
	}
	return nil
}

func (v view) render(layout *template.Template, name, title string) (*File, error) {
	v.Title = title
	var page bytes.Buffer
	if err := layout.ExecuteTemplate(&page, name, v); err != nil {
		return nil, err
	}
	return newFile(typeHTML, keepPage, page.Bytes()), nil
}

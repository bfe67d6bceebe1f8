// Package docs builds the API reference for people and agents: the pages under /docs and all files that they load. The pages of the
// operations are rendered here, from the OpenAPI document that the server publishes. Each page also exists as Markdown, at its path with
// the suffix .md, and /llms.txt lists these. The pages have a script that sends a reader's trial requests; all else works without it.
//
// Pages load nothing from other hosts, which their Content-Security-Policy enforces. All pages except search results are built once,
// immutable, and safe for concurrent use. Package proxy serves them.
package docs

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"sync"
)

// Path is the path of the reference below the base URL of the API. All other files are below it.
const Path = "/docs"

// LLMSPath is the path, below the base URL, of the list of all pages for language models.
const LLMSPath = "/llms.txt"

// SearchPath is the path of the search, below Path.
const SearchPath = "/search"

// Config configures the pages.
type Config struct {
	BaseURL string // at which clients reach the API, without a trailing slash
	DocsURL string // docs_url of every error
	Codes   []Code // every error code, in display order

	Document []byte // OpenAPI, with an example of every operation
	Prefill  Prefill
}

// A Prefill is what the forms to try an operation begin with. Every reader of the pages sees it: it is for demos only.
type Prefill struct {
	Key, Property string
}

// Code is an error code and its HTTP status.
type Code struct {
	Name   string
	Status int
}

// Values of Cache-Control.
const (
	keepPage  = "public, max-age=300"                 // as the OpenAPI document that it renders
	keepAsset = "public, max-age=31536000, immutable" // its path contains a hash of its content
	// For what depends on more than the path, and for missing pages: another replica, or a later version, may have them.
	keepNothing = "no-store"
)

// Policy is the Content-Security-Policy of every file: only its own scripts, styles and API.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"font-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"

// A File is a page, or an asset that a page loads.
type File struct {
	Type  string // Content-Type
	Cache string // Cache-Control

	plain  func() []byte
	packed func() []byte // gzip
	tag    string        // a strong entity tag, without the quotes
}

// Content returns the body of the file, gzipped if packed is true, and the strong entity tag of this form in quotes. The caller
// must not change the bytes.
func (f *File) Content(packed bool) (body []byte, etag string) {
	if packed {
		return f.packed(), `"` + f.tag + `-gz"`
	}
	return f.plain(), `"` + f.tag + `"`
}

// Pages are all files by their path below Path: "" is the start, "/operations/ID" an operation, "/guides/NAME" a guide.
type Pages struct {
	files    map[string]*File
	notFound *File
	search   *search
}

// File returns the file at a path, nil when there is none.
func (p *Pages) File(path string) *File { return p.files[path] }

// NotFound returns the page for a path that has no other.
func (p *Pages) NotFound() *File { return p.notFound }

// Moved returns the body of a redirect that depends on more than its path, so no cache may keep it.
func (p *Pages) Moved() *File {
	return newFile(typeText, keepNothing, []byte("The API reference is at "+Path+".\n"))
}

// Search returns a page with the sections of the reference that have all of some words.
func (p *Pages) Search(words string) (*File, error) { return p.search.page(words) }

// New builds the pages. A code without an explanation is an error, and so is an explanation without a code.
func New(c Config) (*Pages, error) {
	base, err := url.Parse(c.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("build the API reference: base URL: %w", err)
	}
	p := &Pages{files: make(map[string]*File)}
	m := &builder{pages: p, base: c.BaseURL, root: base.Path, prefill: c.Prefill, markdown: newMarkdown(), assets: make(map[string]string)}
	for _, step := range []func() error{m.addAssets, func() error { return m.parse(&c) }, m.addPages} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("build the API reference: %w", err)
		}
	}
	p.search = newSearch(m)
	return p, nil
}

// fingerprint is a hash of content, for entity tags and paths.
func fingerprint(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:8])
}

// newFile returns a file that is compressed when the first client accepts gzip.
func newFile(kind, keep string, content []byte) *File {
	return &File{Type: kind, Cache: keep, tag: fingerprint(content),
		plain:  func() []byte { return content },
		packed: sync.OnceValue(func() []byte { return pack(content) })}
}

// pack compresses content. Writing to a bytes.Buffer does not fail.
func pack(content []byte) []byte {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(content)
	_ = w.Close()
	return packed.Bytes()
}

// Package docs is the API reference for people: the pages under /docs with everything that they need, ready to be served.
// The reference itself is drawn in the browser from the served OpenAPI document by Swagger UI, a copy of which is part of
// this package (swagger-ui/VENDOR.md); the error codes and the guides are HTML from here.
//
// Nothing on a page comes from another host, and the pages run under a Content-Security-Policy that says so. The pages do
// not change once they are made, and are safe for concurrent use. It knows nothing of HTTP servers: package proxy serves
// the files.
package docs

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/url"
	"sync"
)

// Path is where the reference is, below the base URL of the API. Every other file is below it.
const Path = "/docs"

// Config says what the pages are about.
type Config struct {
	BaseURL string // the address by which clients reach the API, without a trailing slash
	DocsURL string // docs_url of every error
	Codes   []Code // every code that an error may have, in the order to show them in
}

// Code is an error code as the server gives it.
type Code struct {
	Name   string
	Status int
}

// What a File says of how long it may be kept.
const (
	keepPage  = "public, max-age=300"                 // as long as the OpenAPI document that it draws
	keepAsset = "public, max-age=31536000, immutable" // its path names its content
	// keepNothing is for what may be there on the next replica, or tomorrow.
	keepNothing = "no-store"
)

// Policy is the Content-Security-Policy of every file: its own scripts, styles and API, and nothing else.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"font-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'"

// A File is a page or a part of one.
type File struct {
	Type  string // Content-Type
	Cache string // Cache-Control

	plain  func() []byte
	packed func() []byte // gzip
	tag    string        // a strong entity tag, without the quotes
}

// Content returns the file, in gzip if it is to be packed, and the strong entity tag of this form of it, with the quotes.
// The bytes stay the File's.
func (f *File) Content(packed bool) (body []byte, etag string) {
	if packed {
		return f.packed(), `"` + f.tag + `-gz"`
	}
	return f.plain(), `"` + f.tag + `"`
}

// Pages are all files by their path below Path: "" is the reference, "/guides/NAME" a guide.
type Pages struct {
	files  map[string]*File
	absent *File
}

// File returns the file at a path, nil when there is none.
func (p *Pages) File(path string) *File { return p.files[path] }

// NotFound returns the page of a path that has none.
func (p *Pages) NotFound() *File { return p.absent }

// New makes the pages. A code without an explanation, or an explanation without a code, is an error.
func New(c Config) (*Pages, error) {
	base, err := url.Parse(c.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("make the API reference: base URL: %w", err)
	}
	entries, err := explain(c.Codes, c.DocsURL)
	if err != nil {
		return nil, fmt.Errorf("make the API reference: %w", err)
	}
	p := &Pages{files: make(map[string]*File)}
	m := &maker{pages: p, base: c.BaseURL, root: base.Path, assets: make(map[string]string)}
	for _, step := range []func() error{m.addAssets, func() error { return m.addPages(entries) }} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("make the API reference: %w", err)
		}
	}
	return p, nil
}

// fingerprint names content in an entity tag or a path.
func fingerprint(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:8])
}

// newFile takes content that is compressed for the first client that takes gzip.
func newFile(kind, keep string, content []byte) *File {
	return &File{Type: kind, Cache: keep, tag: fingerprint(content),
		plain:  func() []byte { return content },
		packed: sync.OnceValue(func() []byte { return pack(content) })}
}

// newPackedFile takes content that is compressed already. It is unpacked for the first client that takes no gzip, of which
// there are hardly any.
func newPackedFile(kind string, packed []byte) *File {
	return &File{Type: kind, Cache: keepAsset, tag: fingerprint(packed),
		packed: func() []byte { return packed },
		plain:  sync.OnceValue(func() []byte { return unpack(packed) })}
}

// pack compresses content. Writing to a Buffer has no errors.
func pack(content []byte) []byte {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(content)
	_ = w.Close()
	return packed.Bytes()
}

// unpack returns what an embedded file holds, which a test has seen to be whole.
func unpack(packed []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		panic("BUG: an embedded file is not gzip: " + err.Error())
	}
	content, err := io.ReadAll(r)
	if err != nil {
		panic("BUG: an embedded file does not unpack: " + err.Error())
	}
	return content
}

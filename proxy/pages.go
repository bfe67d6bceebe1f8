package proxy

import (
	"strings"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"sara/proxy/docs"
)

// newPages makes the API reference.
func newPages(c *Config) (*docs.Pages, error) {
	names := errorCodes()
	codes := make([]docs.Code, len(names))
	for i, name := range names {
		codes[i] = docs.Code{Name: name, Status: statusOf(name)}
	}
	return docs.New(docs.Config{BaseURL: c.BaseURL, DocsURL: c.DocsURL, Codes: codes})
}

// routePages has the API reference served. It is no part of the API: its pages take no key, count against nobody, and are
// not in the envelope.
func (s *Server) routePages(r *router.Router) {
	pages := &route{Path: docs.Path, Open: true}
	handler := func(wire *fasthttp.RequestCtx) {
		c := s.newCall(pages, wire)
		s.sendPage(c)
		s.finish(c, nil)
	}
	for _, path := range []string{docs.Path, docs.Path + "/{path:*}"} {
		r.GET(path, handler)
		r.HEAD(path, handler)
	}
}

// sendPage answers with the file of the reference that the path names.
func (s *Server) sendPage(c *call) {
	response := &c.wire.Response
	file := s.pages.File(strings.TrimPrefix(string(c.wire.Path()), docs.Path))
	if file == nil {
		file = s.pages.Absent()
		c.wire.SetStatusCode(fasthttp.StatusNotFound)
	}
	packed := c.takesGzip()
	body, tag := file.Content(packed)
	for name, value := range map[string]string{
		"X-Request-Id": c.id, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
		"Content-Security-Policy": docs.Policy, "Cache-Control": file.Cache, "Vary": fasthttp.HeaderAcceptEncoding, "Etag": tag,
	} {
		setHeader(&response.Header, name, value)
	}
	if response.StatusCode() == fasthttp.StatusOK && c.knows(tag) {
		c.wire.SetStatusCode(fasthttp.StatusNotModified)
		return
	}
	response.Header.SetContentType(file.Type)
	if packed {
		setHeader(&response.Header, fasthttp.HeaderContentEncoding, "gzip")
	}
	response.SetBodyRaw(body)
}

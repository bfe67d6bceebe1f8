package proxy

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"sara/policy/panics"
	"sara/proxy/cache"
	"sara/proxy/docs"
	"sara/proxy/openapi"
)

// A reference describes the API to its users. It is immutable and safe for concurrent use.
type reference struct {
	document *cache.Answer // the OpenAPI document
	pages    *docs.Pages   // what people read
	root     reply         // points to both
}

// PublicConfig is what clients are told about a Server. Only BaseURL is required.
type PublicConfig struct {
	BaseURL string // at which clients reach the server: http or https, a host and perhaps a path, without a trailing slash
	DocsURL string // docs_url of every error; empty: the server's own API reference

	// Prefill is what the API reference shows filled in: the key of a demo, which is not secret.
	Prefill docs.Prefill
}

func newReference(c PublicConfig, now time.Time) (*reference, error) {
	document, err := openapi.Document(c.BaseURL)
	if err != nil {
		return nil, err
	}
	pages, err := newPages(c, document)
	if err != nil {
		return nil, err
	}
	root := envelope(struct {
		DocsURL    string `json:"docs_url"`
		OpenAPIURL string `json:"openapi_url"`
	}{c.DocsURL, c.BaseURL + openapi.Path}, struct{}{})
	return &reference{document: cache.NewAnswer(document, now), pages: pages, root: root}, nil
}

func newPages(c PublicConfig, document []byte) (*docs.Pages, error) {
	names := openapi.Codes()
	codes := make([]docs.Code, len(names))
	for i, name := range names {
		codes[i] = docs.Code{Name: name, Status: openapi.StatusOf(name)}
	}
	return docs.New(docs.Config{BaseURL: c.BaseURL, DocsURL: c.DocsURL, Codes: codes, Document: document, Prefill: c.Prefill})
}

// serveOpenAPI answers /v1/openapi.json.
func (s *Server) serveOpenAPI(context.Context, *exchange) (reply, error) {
	return reply{answer: s.document, cacheStatus: cacheBypass, maxAge: documentAge}, nil
}

// documentAge is the max-age of the document in seconds.
const documentAge = 300

// withPages is the middleware that serves the API reference. The pages are not part of the API: they need no key, count
// towards no budget and are not in the envelope. It runs before the router, which does not distinguish a path from the same
// path with a trailing slash, and answers all wrong methods alike.
func (s *Server) withPages(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	pages := &route{Path: docs.Path, Open: true}
	wrong := s.handle(&route{Path: docs.Path, Open: true, serve: wrongMethod(readMethods, "the API reference is read with GET or HEAD")})
	return func(http *fasthttp.RequestCtx) {
		read := http.IsGet() || http.IsHead()
		switch {
		case !isPage(http.URI().PathOriginal()) && !(read && isBrowserAtRoot(http)):
			next(http)
		case read:
			x := s.newExchange(pages, http)
			s.conclude(x, s.sendPage(x))
		default:
			wrong(http)
		}
	}
}

func isPage(path []byte) bool {
	below, ok := bytes.CutPrefix(path, []byte(docs.Path))
	return ok && (len(below) == 0 || below[0] == '/' || string(below) == ".md") || string(path) == docs.LLMSPath
}

// isBrowserAtRoot reports whether a person may have opened the address of the service. Programs get JSON there.
func isBrowserAtRoot(http *fasthttp.RequestCtx) bool {
	return string(http.URI().PathOriginal()) == "/" && bytes.Contains(http.Request.Header.Peek(fasthttp.HeaderAccept), []byte("text/html"))
}

// sendPage answers with the file that the path names. If it returns an error, nothing has been sent yet, so that an error can
// be sent instead.
func (s *Server) sendPage(x *exchange) (err error) {
	defer panics.Recover(&err)
	response := &x.http.Response
	file, err := s.findPage(x)
	if err != nil {
		return err
	}
	packed := x.header.gzip
	body, tag := file.Content(packed)
	header := x.commonHeader()
	for name, value := range map[string]string{
		"Referrer-Policy": "no-referrer", "Content-Security-Policy": docs.Policy, "Cache-Control": file.Cache, "Vary": fasthttp.HeaderAcceptEncoding,
		"Etag": tag,
	} {
		setHeader(header, name, value)
	}
	if response.StatusCode() == fasthttp.StatusOK && x.hasCurrent(tag) {
		x.http.SetStatusCode(fasthttp.StatusNotModified)
		return nil
	}
	header.SetContentType(file.Type)
	if packed {
		setHeader(header, fasthttp.HeaderContentEncoding, "gzip")
	}
	response.SetBodyRaw(body)
	return nil
}

// findPage returns the file that the path names, and sets the status unless it is 200. The addresses of redirects are relative, so that
// they hold behind a proxy that serves the API below another path.
func (s *Server) findPage(x *exchange) (*docs.File, error) {
	whole := string(x.http.Path())
	path := strings.TrimPrefix(whole, docs.Path)
	switch {
	case whole == "/":
		x.http.SetStatusCode(fasthttp.StatusFound)
		setHeader(&x.http.Response.Header, fasthttp.HeaderLocation, strings.TrimPrefix(docs.Path, "/"))
		return s.pages.Moved(), nil
	case path == "/":
		x.http.SetStatusCode(fasthttp.StatusPermanentRedirect)
		setHeader(&x.http.Response.Header, fasthttp.HeaderLocation, ".."+docs.Path)
		return s.pages.File(""), nil
	case path == docs.SearchPath:
		return s.pages.Search(string(x.http.QueryArgs().Peek("q")))
	}
	if file := s.pages.File(path); file != nil {
		return file, nil
	}
	x.http.SetStatusCode(fasthttp.StatusNotFound)
	return s.pages.NotFound(), nil
}

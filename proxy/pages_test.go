package proxy

import (
	"compress/gzip"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sara/proxy/docs"
	"sara/proxy/openapi"
)

// page requests a page as a browser would, with headers as name, value pairs.
func (w *world) page(method, path string, headers ...string) (*http.Response, string) {
	w.t.Helper()
	request, err := http.NewRequest(method, w.base+path, nil)
	w.must(err)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultTransport.RoundTrip(request)
	w.must(err)
	defer func() { w.must(answer.Body.Close()) }()
	body, err := io.ReadAll(answer.Body)
	w.must(err)
	return answer, string(body)
}

// wantPage checks the headers of a file of the reference.
func (w *world) wantPage(path, kind, keep string) (body string) {
	w.t.Helper()
	answer, body := w.page(http.MethodGet, path, "Accept-Encoding", "identity")
	for name, want := range map[string]string{
		"Content-Type": kind, "Cache-Control": keep, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
		"Content-Security-Policy": docs.Policy, "Vary": "Accept-Encoding", "Content-Encoding": "", "X-Ratelimit-Limit": "",
	} {
		if got := answer.Header.Get(name); got != want {
			w.t.Errorf("GET %s has the header %s: %q, want %q", path, name, got, want)
		}
	}
	tag := answer.Header.Get("Etag")
	if answer.StatusCode != http.StatusOK || body == "" || !strings.HasPrefix(tag, `"`) {
		w.t.Fatalf("GET %s is %d with %d bytes and the tag %s", path, answer.StatusCode, len(body), tag)
	}
	again, rest := w.page(http.MethodGet, path, "Accept-Encoding", "identity", "If-None-Match", tag)
	if again.StatusCode != http.StatusNotModified || rest != "" || again.Header.Get("Etag") != tag || again.Header.Get("Cache-Control") != keep {
		w.t.Errorf("GET %s with its tag is %d with %d bytes, headers %v", path, again.StatusCode, len(rest), again.Header)
	}
	head, none := w.page(http.MethodHead, path, "Accept-Encoding", "identity")
	if head.StatusCode != http.StatusOK || none != "" || head.Header.Get("Etag") != tag || head.ContentLength != int64(len(body)) {
		w.t.Errorf("HEAD %s is %d with %d bytes, headers %v", path, head.StatusCode, len(none), head.Header)
	}
	packed, content := w.page(http.MethodGet, path, "Accept-Encoding", "gzip")
	reader, err := gzip.NewReader(strings.NewReader(content))
	w.must(err)
	unpacked, err := io.ReadAll(reader)
	w.must(err)
	if string(unpacked) != body || packed.Header.Get("Content-Encoding") != "gzip" || packed.Header.Get("Etag") == tag {
		w.t.Errorf("GET %s in gzip has the headers %v", path, packed.Header)
	}
	return body
}

// The reference is public and cacheable: it needs no key, and is not counted.
func TestPagesAreServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reference := w.wantPage("/docs", "text/html; charset=utf-8", "public, max-age=300")
	for _, guide := range []string{"first-request", "dates", "filters", "portfolio", "limits", "numbers", "agencies", "agents", "tools",
		"analysis", "bigquery", "connect-google"} {
		w.wantPage("/docs/guides/"+guide, "text/html; charset=utf-8", "public, max-age=300")
	}
	for _, route := range table() {
		place := "/docs/operations/" + route.Operation
		if !route.Open {
			w.wantPage(place, "text/html; charset=utf-8", "public, max-age=300")
		} else if answer, _ := w.page(http.MethodGet, place); answer.StatusCode != http.StatusNotFound {
			t.Errorf("%s has a page, whose form asks for a key: %d", route.Operation, answer.StatusCode)
		}
	}
	w.wantPage("/docs.md", "text/markdown; charset=utf-8", "public, max-age=300")
	w.wantPage("/docs/errors.md", "text/markdown; charset=utf-8", "public, max-age=300")
	w.wantPage("/llms.txt", "text/plain; charset=utf-8", "public, max-age=300")
	if found := w.wantPage("/docs/search?q=ctr", "text/html; charset=utf-8", "no-store"); !strings.Contains(found, "/docs/operations/getSummary") {
		t.Errorf("a search for ctr does not find the summary: %s", found)
	}
	for _, code := range openapi.Codes() {
		if !strings.Contains(reference, `id="`+code+`"`) {
			t.Errorf("%s has no anchor", code)
		}
	}
	assets := regexp.MustCompile(`/docs/assets/[^"]+`).FindAllString(reference, -1)
	kinds := map[string]string{"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
	for _, asset := range slices.Compact(slices.Sorted(slices.Values(assets))) {
		w.wantPage(asset, kinds[asset[strings.LastIndexByte(asset, '.')+1:]], "public, max-age=31536000, immutable")
	}
	if len(assets) < len(kinds) {
		t.Errorf("the page loads %v only", assets)
	}
	for _, path := range []string{"/docs/x", "/docs/guides", "/docs/guides/x", "/docs/assets/style.css", "/docs/search.md", "/docs/llms.txt/",
		"/llms.txt/", "/docs/%2e%2e/v1/me"} {
		answer, body := w.page(http.MethodGet, path)
		if answer.StatusCode != http.StatusNotFound || answer.Header.Get("Cache-Control") != "no-store" && strings.HasPrefix(body, "<") {
			t.Errorf("GET %s is %d with the headers %v", path, answer.StatusCode, answer.Header)
		}
	}
	if !strings.Contains(w.logged(), `"operation":"/docs"`) {
		t.Error("the access log does not name the pages")
	}
}

func TestReferenceWithTrailingSlashRedirects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		answer, _ := w.page(method, "/docs/")
		to, err := answer.Location()
		w.must(err)
		if answer.StatusCode != http.StatusPermanentRedirect || to.String() != w.base+"/docs" ||
			answer.Header.Get("Cache-Control") != "public, max-age=300" {
			t.Errorf("%s /docs/ is %d with the headers %v", method, answer.StatusCode, answer.Header)
		}
	}
}

// A browser at the root is sent to the reference, by a relative address. Programs get what they always got.
func TestRoot302Browser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		answer, _ := w.page(method, "/", "Accept", browser)
		to, err := answer.Location()
		w.must(err)
		if answer.StatusCode != http.StatusFound || to.String() != w.base+"/docs" || answer.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s / is %d with the headers %v", method, answer.StatusCode, answer.Header)
		}
	}
	for _, accept := range []string{"*/*", "application/json", ""} {
		if answer, body := w.page(http.MethodGet, "/", "Accept", accept); answer.StatusCode != http.StatusOK || !strings.Contains(body, `"docs_url"`) {
			t.Errorf("with Accept: %s, / is %d: %s", accept, answer.StatusCode, body)
		}
	}
	if answer, _ := w.page(http.MethodPost, "/", "Accept", browser); answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST / is %d", answer.StatusCode)
	}
}

// Pages accept only GET and HEAD.
func TestPagesRefuseOtherMethods(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, path := range []string{"/docs", "/docs/", "/docs/guides/dates", "/docs/x", "/llms.txt"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions, "PROPFIND"} {
			answer, body := w.page(method, path)
			if answer.StatusCode != http.StatusMethodNotAllowed || answer.Header.Get("Allow") != "GET, HEAD" ||
				!strings.Contains(body, `"METHOD_NOT_ALLOWED"`) || !strings.Contains(body, "GET or HEAD") {
				t.Errorf("%s %s is %d with the headers %v: %s", method, path, answer.StatusCode, answer.Header, body)
			}
		}
	}
}

// docs_url of an error is the configured address, else that of the reference (spec: Errors).
func TestErrorsNameTheReference(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	docsURL := func(w *world) any {
		failure, _ := w.get("", "/v1/me").json["error"].(map[string]any)
		return failure["docs_url"]
	}
	if got := docsURL(w); got != publicURL+"/docs" {
		t.Errorf("docs_url is %v", got)
	}
	elsewhere := w.replica(func(c *Config) { c.Public.DocsURL = "https://example.com/help" })
	if got := docsURL(elsewhere); got != "https://example.com/help" {
		t.Errorf("docs_url is %v where it is configured", got)
	}
}

// The example errors of the reference are real: the server answers their requests with the same code and words.
func TestExampleErrorsAreReal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	callers := map[string]string{"INVALID_API_KEY": "", "API_KEY_REVOKED": "revoked", "API_KEY_EXPIRED": "expired",
		"ADDRESS_NOT_ALLOWED": "elsewhere", "API_ACCESS_REQUIRED": "trial", "INSUFFICIENT_SCOPE": "properties_only"}
	varies := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|[0-9TZ:-]{10,}`)
	for _, x := range docs.Explanations() {
		if x.Request == "" {
			continue
		}
		caller, special := callers[x.Code]
		if !special {
			caller = "pro"
		}
		r := w.get(caller, x.Request)
		failure, _ := r.json["error"].(map[string]any)
		message, _ := failure["message"].(string)
		if r.code() != x.Code || r.status != openapi.StatusOf(x.Code) ||
			varies.ReplaceAllString(message, "…") != varies.ReplaceAllString(x.Message, "…") {
			t.Errorf("GET %s is %d %s: %s\nthe reference says %d %s: %s", x.Request, r.status, r.code(), message, openapi.StatusOf(x.Code), x.Code, x.Message)
		}
	}
}

// A panic fails the request, not the process.
func TestPages500Panic(t *testing.T) {
	w := newWorld(t)
	w.server.reference = new(reference) // without pages
	ctx := w.request(docs.Path)
	w.server.edge.Handler(ctx)
	body := string(ctx.Response.Body())
	if ctx.Response.StatusCode() != http.StatusInternalServerError || !strings.Contains(body, openapi.CodeInternal) ||
		ctx.Response.Header.Peek("Etag") != nil {
		t.Errorf("answers %d %s with %s", ctx.Response.StatusCode(), body, &ctx.Response.Header)
	}
}

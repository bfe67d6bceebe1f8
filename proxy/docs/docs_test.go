package docs

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// codes are those of the explanations, so that New accepts them.
func codes() (list []Code) {
	for _, x := range Explanations() {
		list = append(list, Code{Name: x.Code, Status: 400})
	}
	return list
}

const publishedFile = "../openapi/testdata/openapi.json"

// published is the OpenAPI document that package proxy publishes.
func published(tb testing.TB) []byte {
	tb.Helper()
	text, err := os.ReadFile(publishedFile)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

func pages(t *testing.T, base string) *Pages {
	t.Helper()
	p, err := New(Config{BaseURL: base, DocsURL: base + Path, Codes: codes(), Document: published(t)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// exampleBase is the base URL of the pages that tests share: nothing changes pages, and to make them takes longer than most tests.
const exampleBase = "https://example.org/api"

var examplePages = sync.OnceValues(func() (*Pages, error) {
	document, err := os.ReadFile(publishedFile)
	if err != nil {
		return nil, err
	}
	return New(Config{BaseURL: exampleBase, DocsURL: exampleBase + Path, Codes: codes(), Document: document})
})

func sharedPages(t *testing.T) *Pages {
	t.Helper()
	p, err := examplePages()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func plain(f *File) string {
	body, _ := f.Content(false)
	return string(body)
}

// Every code has an explanation, and every explanation a code.
func TestEveryCodeIsExplained(t *testing.T) {
	all := codes()
	for name, list := range map[string][]Code{
		"is not explained": append(codes(), Code{Name: "NEW_CODE", Status: 400}),
		"does not exist":   all[1:],
	} {
		_, err := New(Config{BaseURL: "https://api.example.com", Codes: list, Document: published(t)})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("New returns the error %v, want one that says: %s", err, name)
		}
	}
	for _, x := range Explanations() {
		if x.When == "" || x.Do == "" || x.Message == "" {
			t.Errorf("the explanation of %s is incomplete: %+v", x.Code, x)
		}
	}
}

// The codes can be linked to, on their own page and on the first one, with or without scripts.
func TestEveryCodeHasAnAnchor(t *testing.T) {
	p := sharedPages(t)
	for _, code := range codes() {
		for _, place := range []string{"", "/errors"} {
			if strings.Count(plain(p.File(place)), ` id="`+code.Name+`"`) != 1 {
				t.Errorf("%s has no anchor on %s%s", code.Name, Path, place)
			}
		}
	}
}

// Everything that a page links to or loads exists, in both of its forms, and only links that a reader may follow lead to other hosts.
func TestLinksAreNotBroken(t *testing.T) {
	p := sharedPages(t)
	inHTML := regexp.MustCompile(`<(\w+) (?:[^<>]*\s)?(?:href|src|action)="([^"]*)"`)
	inMarkdown := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for place, f := range p.files {
		if f.Type != typeHTML && f.Type != typeMarkdown && place != LLMSPath {
			continue
		}
		text := plain(f)
		for _, found := range inHTML.FindAllStringSubmatch(text, -1) {
			p.checkLink(t, place, found[2], found[1] == "a")
		}
		for _, found := range inMarkdown.FindAllStringSubmatch(text, -1) {
			p.checkLink(t, place, found[1], true)
		}
	}
}

// checkLink checks an address on the page at a place, of pages whose base URL is https://example.org/api. One that a reader may follow, and
// that the page does not load, may be of another host.
func (p *Pages) checkLink(t *testing.T, place, target string, followed bool) {
	t.Helper()
	whole := target
	target = strings.TrimPrefix(target, "https://example.org")
	target, anchor, _ := strings.Cut(target, "#")
	switch below, ours := strings.CutPrefix(target, "/api"); {
	case target == "":
		below = Path + place
		fallthrough
	case ours:
		if below == "/v1/openapi.json" || below == Path+SearchPath {
			return
		}
		to := p.File(strings.TrimPrefix(below, Path))
		if to == nil || anchor != "" && to.Type == typeHTML && !strings.Contains(plain(to), ` id="`+anchor+`"`) {
			t.Errorf("%s%s links to %s, which is not there", Path, place, whole)
		}
	case !followed || !strings.HasPrefix(target, "https://"):
		t.Errorf("%s%s has the address %s of another host", Path, place, whole)
	}
}

// Every page but the search exists as Markdown, and the list for language models has them all.
func TestPagesAreMarkdownToo(t *testing.T) {
	p := sharedPages(t)
	list := plain(p.File(LLMSPath))
	for place, f := range p.files {
		if f.Type != typeHTML {
			continue
		}
		text := p.File(place + ".md")
		if text == nil || text.Type != typeMarkdown || !strings.HasPrefix(plain(text), "# ") || strings.Contains(plain(text), "&#3") {
			t.Errorf("%s%s.md is no page of Markdown", Path, place)
		}
		if place != "" && !strings.Contains(list, "(https://example.org/api"+Path+place+".md)") {
			t.Errorf("%s lacks %s", LLMSPath, place)
		}
	}
}

// The page of an operation begins with what it is for, and ends with what can go wrong.
func TestOperationPage(t *testing.T) {
	p := sharedPages(t)
	for place, parts := range map[string][]string{
		"": {"<h1>Totals of a period", "/v1/properties/{id}/summary", "performance:read", `name="id"`, `name="compare"`, "previous_period",
			`id="answer"`, "impressions", "VALIDATION_ERROR"},
		".md": {"# Totals of a period", "`GET /v1/properties/{id}/summary`", "performance:read", "`compare`", "curl -H", `"success": true`,
			"`data.totals.ctr` (number)", "`VALIDATION_ERROR`"},
	} {
		rest := plain(p.File("/operations/getSummary" + place))
		for _, part := range parts {
			at := strings.Index(rest, part)
			if at < 0 {
				t.Errorf("getSummary%s lacks %s, or has it earlier", place, part)
				continue
			}
			rest = rest[at:]
		}
	}
}

// A key that is filled in is on the pages, which no cache keeps. Without one, there is none.
func TestPrefill(t *testing.T) {
	p, err := New(Config{BaseURL: "http://127.0.0.1:8080", Codes: codes(), Document: published(t),
		Prefill: Prefill{Key: "sara_live_demo", Property: "shop.example"}})
	if err != nil {
		t.Fatal(err)
	}
	f := p.File("/operations/getSummary")
	if page := plain(f); f.Cache != keepNothing || !strings.Contains(page, `value="sara_live_demo"`) ||
		!strings.Contains(page, `value="shop.example"`) || !strings.Contains(page, "Bearer sara_live_demo") {
		t.Errorf("with Cache-Control %s: %s", f.Cache, page)
	}
	if page := plain(pages(t, "http://127.0.0.1:8080").File("/operations/getSummary")); !strings.Contains(page, "$API_KEY") {
		t.Error("without a key, the command does not name a variable")
	}
}

// A document that is no OpenAPI, that lacks an example, or that has an unknown code is refused.
func TestUnusableDocumentsAreRefused(t *testing.T) {
	whole := string(published(t))
	for name, text := range map[string]string{
		"OpenAPI document": "nonsense",
		"no known tag":     strings.ReplaceAll(whole, `"name": "Indexing"`, `"name": "Other"`),
		"no example":       strings.ReplaceAll(whole, `"examples": {`, `"others": {`),
		"unknown error":    strings.ReplaceAll(whole, `"NOT_FOUND"`, `"NOT_KNOWN"`),
	} {
		_, err := New(Config{BaseURL: "https://api.example.com", Codes: codes(), Document: []byte(text)})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("New returns %v, want an error about %s", err, name)
		}
	}
}

// The policy forbids inline scripts and styles.
func TestNothingIsInline(t *testing.T) {
	inline := regexp.MustCompile(`<style|<script>|\sstyle=|\son[a-z]+=|javascript:`)
	p := sharedPages(t)
	for place, f := range p.files {
		if found := inline.FindString(plain(f)); f.Type == typeHTML && found != "" {
			t.Errorf("%s%s has %q", Path, place, found)
		}
	}
}

func TestPagesNameTheBaseURL(t *testing.T) {
	p := pages(t, "https://search.example.org/api")
	for _, place := range []string{"", "/guides/first-request", "/guides/limits", "/guides/limits.md", "/operations/getAccount", LLMSPath} {
		text := plain(p.File(place))
		if !strings.Contains(text, "https://search.example.org/api") || strings.Contains(text, baseMark) || strings.Contains(text, docsMark) {
			t.Errorf("%s%s is not about its own base URL", Path, place)
		}
	}
}

// Both forms of a file have the same content, and different tags.
func TestGzipAndPlainFormsAgree(t *testing.T) {
	for place, f := range sharedPages(t).files {
		body, tag := f.Content(false)
		packed, packedTag := f.Content(true)
		if !bytes.Equal(unpack(t, packed), body) || len(body) == 0 {
			t.Errorf("%s%s in gzip differs from the plain form", Path, place)
		}
		if tag == packedTag || !strings.HasPrefix(tag, `"`) {
			t.Errorf("%s%s has the tags %s and %s", Path, place, tag, packedTag)
		}
	}
}

func unpack(t *testing.T, packed []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func BenchmarkNew(b *testing.B) {
	all, text := codes(), published(b)
	for b.Loop() {
		if _, err := New(Config{BaseURL: "https://api.example.com", DocsURL: "https://api.example.com/docs", Codes: all, Document: text}); err != nil {
			b.Fatal(err)
		}
	}
}

// The menu marks the page that is shown, and no page where there is none.
func TestMenuMarksThePage(t *testing.T) {
	p := sharedPages(t)
	for name, c := range map[string]struct {
		file *File
		want int
	}{"start": {p.File(""), 1}, "not found": {p.NotFound(), 0}} {
		if n := strings.Count(plain(c.file), `aria-current="page"`); n != c.want {
			t.Errorf("%s: %d links are the current page, want %d", name, n, c.want)
		}
	}
}

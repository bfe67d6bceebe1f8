package check

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// A crawl follows the links of the reference, each once.
type crawl struct {
	t     *testing.T
	base  *url.URL
	demo  demo
	pages map[string]string // bodies by path and query
}

// Every address on every page of the reference, as HTML and as Markdown, leads to something: no page has a broken link or fragment.
func testLinksOfTheReference(t *testing.T, d demo) {
	base, err := url.Parse(d.BaseURL)
	if err != nil {
		t.Fatal(err)
	}
	c := crawl{t, base, d, map[string]string{}}
	open := []string{"/docs", "/llms.txt", "/docs/search?q=ctr"}
	for len(open) > 0 {
		from := open[0]
		open = append(open[1:], c.visit(from)...)
	}
	if len(c.pages) < 50 {
		t.Errorf("only %d pages are linked to", len(c.pages))
	}
}

// visit reads a page, unless it was read before, and returns where its links lead.
func (c *crawl) visit(address string) (next []string) {
	c.t.Helper()
	if _, seen := c.pages[address]; seen {
		return nil
	}
	_, answer, body := c.demo.get(c.t, http.MethodGet, address, "", nil)
	c.pages[address] = string(body)
	if answer.StatusCode != http.StatusOK {
		c.t.Errorf("GET %s is %s", address, answer.Status)
	}
	kind := answer.Header.Get("Content-Type")
	link := regexp.MustCompile(`\b(?:href|src|action)="([^"]*)"`)
	switch {
	case address == "/llms.txt", strings.HasPrefix(kind, "text/markdown"):
		link = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	case !strings.HasPrefix(kind, "text/html"):
		return nil
	}
	at := &url.URL{Scheme: c.base.Scheme, Host: c.base.Host, Path: address}
	if path, query, ok := strings.Cut(address, "?"); ok {
		at.Path, at.RawQuery = path, query
	}
	for _, found := range link.FindAllStringSubmatch(string(body), -1) {
		to, err := at.Parse(strings.ReplaceAll(found[1], "&amp;", "&"))
		if err != nil {
			c.t.Errorf("%s links to %q: %v", address, found[1], err)
			continue
		}
		if to.Host != c.base.Host {
			continue // another site, which may be down
		}
		next = append(next, to.RequestURI())
		c.checkFragment(address, to)
	}
	return next
}

// checkFragment checks that the page of HTML that a link leads to has the element.
func (c *crawl) checkFragment(from string, to *url.URL) {
	c.t.Helper()
	if to.Fragment == "" {
		return
	}
	page, seen := c.pages[to.RequestURI()]
	if !seen {
		_, _, body := c.demo.get(c.t, http.MethodGet, to.RequestURI(), "", nil)
		page = string(body)
	}
	if strings.HasPrefix(page, "<!doctype html>") && !strings.Contains(page, ` id="`+to.Fragment+`"`) {
		c.t.Errorf("%s links to %s, which has no such part", from, to)
	}
}

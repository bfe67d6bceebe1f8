package docs

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
)

// Bounds of a search, so that it costs little: it needs no key.
const (
	maxSearch  = 100 // bytes
	maxWords   = 6
	maxResults = 40
	// excerptBefore and excerptAfter are how much of a text is shown around the first word found.
	excerptBefore, excerptAfter = 60, 140
)

// A search finds the sections of the reference that have all words of a query: operations, sections of guides, error codes. It compares
// substrings without case; a reference has some hundred kilobytes of text, so no index is needed.
type search struct {
	builder  *builder
	links    *regexp.Regexp // of Markdown, with their texts as the submatch
	sections []section
}

// A section is what a result leads to.
type section struct {
	Kind, Title string
	Place       string // path below Path
	Text        string // plain

	title, text string // folded
}

// A result is a section with the part of its text that has the first word found.
type result struct {
	section
	Before, Match, After string
}

func newSearch(m *builder) *search {
	s := &search{builder: m, links: regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)}
	for _, group := range m.document.Groups {
		for _, o := range group.Operations {
			s.addOperation(o)
		}
	}
	for i := range m.guides {
		s.addGuide(&m.guides[i])
	}
	for _, e := range m.errors {
		s.add("Error code", e.Code, "/errors#"+e.Code, e.Status+". "+e.When+" "+e.Do)
	}
	return s
}

func (s *search) addOperation(o *operation) {
	text := []string{o.Path, o.Description}
	for _, p := range o.Parameters {
		text = append(text, p.Name+": "+p.Description)
	}
	for _, m := range s.builder.document.members(o) {
		text = append(text, m.Name+": "+m.About)
	}
	s.add("Operation", o.Summary, "/operations/"+o.ID, strings.Join(text, " · "))
}

// addGuide adds the sections of a guide. Their ids are those that the Markdown renderer gives the headings.
func (s *search) addGuide(g *guide) {
	ids := parser.NewContext().IDs()
	title, anchor := g.Title, ""
	var text strings.Builder
	fenced := false
	for line := range strings.Lines(g.Text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		heading, isHeading := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if !isHeading || !strings.HasPrefix(line, "#") || fenced {
			text.WriteString(line)
			continue
		}
		s.add("Guide", title, "/guides/"+g.Name+anchor, text.String())
		text.Reset()
		heading = strings.TrimSpace(heading)
		id := string(ids.Generate([]byte(heading), ast.KindHeading))
		title, anchor = g.Title+": "+heading, "#"+id
		if strings.HasPrefix(line, "# ") {
			title, anchor = g.Title, ""
		}
	}
	s.add("Guide", title, "/guides/"+g.Name+anchor, text.String())
}

func (s *search) add(kind, title, place, markdown string) {
	if strings.TrimSpace(markdown) == "" {
		return
	}
	text := s.links.ReplaceAllString(markdown, "$1")
	text = strings.Join(strings.Fields(strings.NewReplacer("`", "", "|", " ", "---", "").Replace(text)), " ")
	title = strings.ReplaceAll(title, "`", "")
	s.sections = append(s.sections, section{Kind: kind, Title: title, Place: place, Text: text, title: fold(title), text: fold(text)})
}

// fold lowers ASCII letters only, so that an index into the result is one into the original.
func fold(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}

// find returns what has all words, sections with one in the title first.
func (s *search) find(query string) (results []result) {
	words := strings.Fields(fold(strings.ToValidUTF8(query[:min(len(query), maxSearch)], "")))
	words = words[:min(len(words), maxWords)]
	if len(words) == 0 {
		return nil
	}
	for _, section := range s.sections {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(section.title+" "+section.text, word) }) {
			results = append(results, section.excerpt(words))
		}
	}
	inTitle := func(r result) int {
		return cmp.Compare(0, len(slices.DeleteFunc(slices.Clone(words), func(word string) bool { return !strings.Contains(r.title, word) })))
	}
	slices.SortStableFunc(results, func(a, b result) int { return cmp.Compare(inTitle(a), inTitle(b)) })
	return results[:min(len(results), maxResults)]
}

// excerpt cuts the text around the first of the words that it has.
func (s section) excerpt(words []string) result {
	r := result{section: s}
	for _, word := range words {
		at := strings.Index(s.text, word)
		if at < 0 {
			continue
		}
		r.Match = s.Text[at : at+len(word)]
		r.Before, r.After = s.Text[:at], s.Text[at+len(word):]
		if len(r.Before) > excerptBefore {
			_, rest, _ := strings.Cut(r.Before[len(r.Before)-excerptBefore:], " ")
			r.Before = "… " + rest
		}
		break
	}
	if r.Match == "" {
		r.After = s.Text
	}
	if len(r.After) > excerptAfter {
		r.After = r.After[:strings.LastIndexByte(r.After[:excerptAfter], ' ')+1] + "…"
	}
	return r
}

// page returns the results as a page.
func (s *search) page(query string) (*File, error) {
	v := s.builder.view()
	v.Place, v.Title, v.Query, v.Results = SearchPath, "Search", query, s.find(query)
	page, err := s.builder.render("search.html", v)
	if err != nil {
		return nil, err
	}
	return newFile(typeHTML, keepNothing, page), nil
}

package sqlstore

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"sara/translate"
)

func testBrandTerms(t *testing.T, f *fixture) {
	f.acme()
	p := f.property("google", "sc-domain:example.com")
	f.property("google", "sc-domain:other.example")
	term := func(s string) translate.BrandTerm { return value(translate.ParseBrandTerm(s))(t) }
	equal(t, value(f.BrandTerms(f.ctx, p.ID))(t), []translate.BrandTerm{})

	first := value(f.SetBrandTerms(f.ctx, "example.com", []translate.BrandTerm{term("acme"), term("exact:acme"), term("regex:^ac+me")}))(t)
	equal(t, names(first, func(t translate.BrandTerm) string { return t.MatchType + ":" + t.Term }),
		[]string{"contains:acme", "exact:acme", "regex:^ac+me"})
	value(f.SetBrandTerms(f.ctx, "other.example", []translate.BrandTerm{term("acme")}))(t)

	f.time = f.time.Add(time.Hour)
	second := value(f.SetBrandTerms(f.ctx, p.ID, []translate.BrandTerm{term("regex:^ac+me"), term("ACME"), term("acme")}))(t)
	equal(t, value(f.BrandTerms(f.ctx, p.ID))(t), second)
	equal(t, second[0], first[2])
	equal(t, second[2], first[0])
	equal(t, second[1], translate.BrandTerm{ID: second[1].ID, Term: "ACME", MatchType: "contains", CreatedAt: f.time})

	for _, terms := range [][]translate.BrandTerm{
		{term("acme"), term("acme")}, {{Term: "acme", MatchType: "is"}}, {{Term: "", MatchType: "exact"}}, {{Term: "  ", MatchType: "exact"}},
		{{Term: "(", MatchType: "regex"}}, {{Term: "a\x00", MatchType: "exact"}}, {{Term: strings.Repeat("a", 201), MatchType: "exact"}},
		make([]translate.BrandTerm, translate.MaxBrandTerms+1),
	} {
		_, err := f.SetBrandTerms(f.ctx, p.ID, terms)
		equal(t, refusal[*InputError](t, err).Field, "brand terms")
	}
	equal(t, value(f.BrandTerms(f.ctx, p.ID))(t), second)
	equal(t, value(f.SetBrandTerms(f.ctx, p.ID, nil))(t), []translate.BrandTerm{})
	_, err := f.SetBrandTerms(f.ctx, "nothing", nil)
	refused[*NotFoundError](t, err)
}

func testPageGroups(t *testing.T, f *fixture) {
	f.acme()
	p := f.property("google", "sc-domain:example.com")
	group := func(name string, values ...string) translate.PageGroup {
		g := translate.PageGroup{Name: name}
		for _, v := range values {
			g.Rules = append(g.Rules, translate.PageRule{Type: "prefix", Value: v})
		}
		return g
	}
	equal(t, value(f.PageGroups(f.ctx, p.ID))(t), []translate.PageGroup{})
	first := value(f.SetPageGroups(f.ctx, "example.com", []translate.PageGroup{group("blog", "/blog/", "/<news>/"), group("shop", "/shop/")}))(t)
	equal(t, first[0], translate.PageGroup{ID: first[0].ID, Name: "blog", Rules: group("", "/blog/", "/<news>/").Rules, CreatedAt: f.time})

	f.time = f.time.Add(time.Hour)
	second := value(f.SetPageGroups(f.ctx, p.ID, []translate.PageGroup{group("shop", "/store/"),
		group("blog", "/blog/", "/<news>/"), group("new", "/")}))(t)
	equal(t, value(f.PageGroups(f.ctx, p.ID))(t), second)
	equal(t, second[1], first[0])
	// A group keeps its identity when its rules change.
	equal(t, second[0], translate.PageGroup{ID: first[1].ID, Name: "shop", Rules: group("", "/store/").Rules, CreatedAt: first[1].CreatedAt})
	equal(t, second[2].CreatedAt, f.time)

	for _, groups := range [][]translate.PageGroup{{group("a", "/"), group("a", "/")}, {group("a")}, {group("", "/")}} {
		_, err := f.SetPageGroups(f.ctx, p.ID, groups)
		equal(t, refusal[*InputError](t, err).Field, "page groups")
	}
	equal(t, value(f.PageGroups(f.ctx, p.ID))(t), second)
	equal(t, value(f.SetPageGroups(f.ctx, p.ID, nil))(t), []translate.PageGroup{})
	_, err := f.SetPageGroups(f.ctx, "nothing", nil)
	refused[*NotFoundError](t, err)
}

func testAnnotations(t *testing.T, f *fixture) {
	f.acme()
	p := f.property("google", "sc-domain:example.com")
	f.property("google", "sc-domain:other.example")
	day := translate.NewDate(2026, 3, 1)
	add := func(property string, date translate.Date, title, color string) Annotation {
		return value(f.AddAnnotation(f.ctx, property, Annotation{Date: date, Title: title, Note: "why\nand how", Color: color}))(t)
	}
	later := add(p.ID, day+1, "later", "#00ff7F")
	first := add("example.com", day, "first", "")
	same := add("example-com", day, "same day", "red")
	add("other.example", day, "elsewhere", "red")
	equal(t, first, Annotation{ID: first.ID, Date: day, Title: "first", Note: "why\nand how", Color: "blue", CreatedAt: f.time})

	list := func(from, to *translate.Date) []Annotation { return value(f.Annotations(f.ctx, p.ID, from, to))(t) }
	equal(t, list(nil, nil), []Annotation{first, same, later})
	next, before := day+1, day-1
	equal(t, list(&next, nil), []Annotation{later})
	equal(t, list(nil, &day), []Annotation{first, same})
	equal(t, list(&day, &next), []Annotation{first, same, later})
	equal(t, list(nil, &before), []Annotation{})

	for _, bad := range []Annotation{{Title: ""}, {Title: strings.Repeat("é", 201)}, {Title: "a\nb"}, {Title: "a", Color: "mauve"},
		{Title: "a", Color: "#12345g"}, {Title: "a", Color: "#123"}, {Title: "a", Note: "\x00"}, {Title: "a", Note: strings.Repeat("a", 2001)}} {
		_, err := f.AddAnnotation(f.ctx, p.ID, bad)
		refused[*InputError](t, err)
	}
	wantNil(t, f.RemoveAnnotation(f.ctx, first.ID))
	refused[*NotFoundError](t, f.RemoveAnnotation(f.ctx, first.ID))
	equal(t, list(nil, nil), []Annotation{same, later})
	_, err := f.AddAnnotation(f.ctx, "nothing", Annotation{Title: "a"})
	refused[*NotFoundError](t, err)
}

// Of lists that are set at the same time, one remains: not parts of both.
func testSetListsAtOnce(t *testing.T, f *fixture) {
	f.acme()
	stores := []*Store{f.Store, f.open(nil)}
	for _, site := range numbered("sc-domain:%d.example", 5) {
		p := f.property("google", site)
		var setters sync.WaitGroup
		for i, s := range stores {
			setters.Go(func() {
				var terms []translate.BrandTerm
				var groups []translate.PageGroup
				for _, text := range numbered(fmt.Sprint("list ", i, " %d"), 3) {
					terms = append(terms, translate.BrandTerm{Term: text, MatchType: "exact"})
					groups = append(groups, translate.PageGroup{Name: text, Rules: []translate.PageRule{{Type: "prefix", Value: "/"}}})
				}
				_, err := s.SetBrandTerms(f.ctx, p.ID, terms)
				if err == nil {
					_, err = s.SetPageGroups(f.ctx, p.ID, groups)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		setters.Wait()
		equal(t, len(value(f.BrandTerms(f.ctx, p.ID))(t)), 3)
		equal(t, len(value(f.PageGroups(f.ctx, p.ID))(t)), 3)
	}
}

package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const (
	idA = "0b7a5c1e-3f7e-4d58-9a55-0d2c3b0a9a01"
	idB = "0b7a5c1e-3f7e-4d58-9a55-0d2c3b0a9a02"
	idC = "0b7a5c1e-3f7e-4d58-9a55-0d2c3b0a9a03"
)

func TestReferenceResolvesInOrderIDSiteSlugHost(t *testing.T) {
	// Each matches the same reference by another field.
	byID := Property{ID: idA, Site: "sc-domain:a.example", Type: "domain", Host: "a.example", Slug: "a"}
	bySite := Property{ID: idB, Site: idA, Type: "domain", Host: "b.example", Slug: "b"}
	bySlug := Property{ID: idC, Site: "sc-domain:c.example", Type: "domain", Host: "c.example", Slug: idA}
	byHost := Property{ID: "d", Site: "sc-domain:d.example", Type: "domain", Host: idA, Slug: "d"}
	for order := []Property{byHost, bySlug, bySite, byID}; len(order) > 0; order = order[:len(order)-1] {
		last := order[len(order)-1]
		if got, denial := resolve(idA, order); denial != nil || *got != last {
			t.Errorf("among %d: %+v, %v, want %+v", len(order), got, denial, last)
		}
	}
}

func TestReferenceForms(t *testing.T) {
	domain := Property{ID: idA, Site: "sc-domain:shop.example", Type: "domain", Host: "shop.example", Slug: "shop"}
	prefix := Property{ID: idB, Site: "https://www.shop.example/Store/", Type: "url_prefix", Host: "www.shop.example", Slug: "store"}
	missing := ""
	f := func(reference, wantID string) {
		t.Helper()
		got, denial := resolve(reference, []Property{domain, prefix})
		if wantID == missing {
			wantDenial(t, denial, CodeNotFound, `there is no property "`+reference+`" that this key can reach`)
		} else if denial != nil || got.ID != wantID {
			t.Errorf("%s: %+v, %v, want %s", reference, got, denial, wantID)
		}
	}
	f(idA, idA)
	f(strings.ToUpper(idA), idA)
	f(idC, missing)

	f("sc-domain:shop.example", idA)
	f("SC-Domain:SHOP.example", idA)
	f("https://www.shop.example/Store/", idB)
	f("https://www.shop.example/store/", missing)
	f("https://WWW.Shop.example/Store/", idB)
	f("HTTPS://www.shop.example/Store/", idB)
	f("https://www.shop.example/Store", missing)
	f("http://www.shop.example/Store/", missing)

	f("shop", idA)
	f("store", idB)
	f("Shop", missing)

	f("shop.example", idA)
	f("Shop.Example", idA)
	f("www.shop.example", idB)
	f("WWW.shop.example", idB)
	f("blog.shop.example", missing)
	f("", missing)
}

func TestAmbiguousReferenceListsTheIDs(t *testing.T) {
	domain := Property{ID: idA, Site: "sc-domain:shop.example", Type: "domain", Host: "shop.example", Slug: "one"}
	twin := Property{ID: idB, Site: "sc-domain:shop.example", Type: "domain", Host: "shop.example", Slug: "two"}
	prefix := Property{ID: idC, Site: "https://shop.example/", Type: "url_prefix", Host: "shop.example", Slug: "two", Archived: true}
	candidates := []Property{domain, twin, prefix}
	f := func(reference, message string) {
		t.Helper()
		got, denial := resolve(reference, candidates)
		wantDenial(t, denial, CodePropertyAmbiguous, message)
		if got != nil {
			t.Errorf("%s: both %+v and a denial", reference, got)
		}
	}
	f("shop.example", `"shop.example" matches 2 properties: use one of the ids `+idA+", "+idB)
	f("sc-domain:shop.example", `"sc-domain:shop.example" matches 2 properties: use one of the ids `+idA+", "+idB)
	if got, denial := resolve("two", candidates); denial != nil || *got != twin {
		t.Errorf("beside an archived property, the slug means %+v, %v", got, denial)
	}
	candidates[2].Archived = false
	f("two", `"two" matches 2 properties: use one of the ids `+idB+", "+idC)
	f("Shop.Example", `"Shop.Example" matches 3 properties: use one of the ids `+idA+", "+idB+", "+idC)
	for i := range candidates {
		candidates[i].Archived = true
	}
	f("shop.example", `"shop.example" matches 3 properties: use one of the ids `+idA+", "+idB+", "+idC)
	for _, p := range candidates {
		if got, denial := resolve(p.ID, candidates); denial != nil || *got != p {
			t.Errorf("by the id %s: %+v, %v", p.ID, got, denial)
		}
	}
}

// The message must not reveal whether the property exists.
func TestForeignPropertyReadsLikeAMissingOne(t *testing.T) {
	w := newFixture(t)
	w.directory.properties[propertyQuery{"p2", "", "foreign"}] = []Property{{ID: idB, Slug: "foreign"}}
	key := validKey()
	_, foreign := w.Property(t.Context(), &Grant{Key: &key}, "foreign")
	wantDenial(t, foreign, CodeNotFound, `there is no property "foreign" that this key can reach`)
	delete(w.directory.properties, propertyQuery{"p2", "", "foreign"})
	_, missing := newFixture(t).Property(t.Context(), &Grant{Key: &key}, "foreign")
	if missing == nil || missing.Error() != foreign.Error() {
		t.Errorf("missing: %v, foreign: %v", missing, foreign)
	}
}

func TestLongReferenceIsTruncatedInMessages(t *testing.T) {
	_, denial := resolve(strings.Repeat("é", 300), nil)
	wantDenial(t, denial, CodeNotFound, `there is no property "`+strings.Repeat("é", 100)+`" that this key can reach`)
}

// A memo keeps a property for as long as its requests come: not a thousand archived ones of the same host with it.
func TestResolvedPropertyKeepsNoOthersInMemory(t *testing.T) {
	candidates := []Property{{ID: idA, Host: "shop.example", Archived: true}, {ID: idB, Host: "shop.example"}}
	got, denial := resolve("shop.example", candidates)
	if denial != nil || *got != candidates[1] || got == &candidates[1] {
		t.Errorf("got %+v, %v, one of the candidates: %t", got, denial, got == &candidates[1])
	}
}

// Each spelling of a host is cached apart, with all properties of the host.
func TestCachedPropertiesAreBounded(t *testing.T) {
	w := newFixture(t)
	found := make([]Property, maxCachedAnswers/10)
	for i := range 100 {
		host := fmt.Sprint(i, ".example")
		w.directory.properties[propertyQuery{"p1", "", host}] = found
		wantCode(t, CodeNotFound, nil)(w.find(t.Context(), host))
	}
	cached := 0
	for _, a := range w.properties.positive.All() {
		cached += len(a.value)
	}
	if cached < len(found) || cached > maxCachedAnswers {
		t.Errorf("%d properties are cached, want %d to %d", cached, len(found), maxCachedAnswers)
	}
}

func TestAccessProblem(t *testing.T) {
	for _, c := range []struct {
		healthy         bool
		note, own, want string
	}{
		{true, "", "", ""},
		{true, "old", "", ""},
		{true, "", "no permission", "no permission"},
		{false, "token revoked", "", "token revoked"},
		{false, "token revoked", "no permission", "token revoked"},
	} {
		p := Property{AccessNote: c.own, Connection: Connection{Healthy: c.healthy, Note: c.note}}
		if got := p.AccessProblem(); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// FuzzResolve compares resolve with a reference that ranks each candidate by itself.
func FuzzResolve(f *testing.F) {
	f.Add("shop", "1|sc-domain:shop|shop|shop\n2|https://shop/|x|shop")
	f.Add("SHOP", "shop|x|shop|y\nSHOP|shop|x|Shop")
	f.Add("", "|||\n|||")
	f.Add("B", "1|b")
	f.Add("HTTPS://Shop/A", "1|https://shop/A\n2|https://shop/a")
	f.Fuzz(func(t *testing.T, reference, text string) {
		var candidates []Property
		for line := range strings.SplitSeq(text, "\n") {
			fields := append(strings.Split(line, "|"), "", "", "")
			candidates = append(candidates, Property{ID: fields[0], Site: foldHost(fields[1]), Slug: fields[2], Host: fields[3], Type: "domain"})
		}
		rank := func(p Property) int {
			return slices.Index([]bool{strings.EqualFold(p.ID, reference), p.Site == foldHost(reference),
				p.Slug == reference, strings.EqualFold(p.Host, reference)}, true)
		}
		ranks := make([][]Property, 4)
		for _, p := range candidates {
			if r := rank(p); r >= 0 {
				ranks[r] = append(ranks[r], p)
			}
		}
		var meant []Property
		for r := len(ranks) - 1; r >= 0; r-- {
			if len(ranks[r]) > 0 {
				meant = ranks[r]
			}
		}
		got, denial := resolve(reference, candidates)
		switch {
		case len(meant) == 1 && (denial != nil || *got != meant[0]):
			t.Errorf("%q is %+v, %v; want %+v", reference, got, denial, meant[0])
		case len(meant) == 0 && (denial == nil || denial.Code != CodeNotFound):
			t.Errorf("%q is %+v, %v; want none", reference, got, denial)
		case len(meant) > 1:
			if denial == nil || denial.Code != CodePropertyAmbiguous {
				t.Fatalf("%q is %+v, %v; want it ambiguous", reference, got, denial)
			}
			for _, p := range meant {
				if !strings.Contains(denial.Message, p.ID) {
					t.Errorf("%s does not list %q", denial.Message, p.ID)
				}
			}
		}
	})
}

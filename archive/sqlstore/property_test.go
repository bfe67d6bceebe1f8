package sqlstore

import (
	"slices"
	"strings"
	"testing"

	"sara/policy"
)

func testAddProperty(t *testing.T, f *fixture) {
	_, c := f.acme()
	p := value(f.AddProperty(f.ctx, PropertySpec{Connection: "main/google", Site: "sc-domain:Example.com",
		PermissionLevel: "siteOwner"}))(t)
	equal(t, p, Property{
		Property: policy.Property{
			ID: p.ID, Site: "sc-domain:example.com", Host: "example.com", Type: policy.DomainProperty, DisplayName: "example.com",
			Slug: "example-com", Connection: policy.Connection{ID: c.ID, Revision: 1, Healthy: true},
		},
		WorkspaceID: c.WorkspaceID, PermissionLevel: "siteOwner", CreatedAt: f.time,
	})
	equal(t, value(f.Property(f.ctx, p.ID))(t), p)

	// A derived slug that is in use gets a number.
	equal(t, f.property("google", "https://example.com/").Slug, "example-com-2")
	equal(t, f.property("google", "http://example.com/").Slug, "example-com-3")
	equal(t, f.property("google", "https://www.example.com/blog/").Slug, "www-example-com-blog")
	long := "https://" + strings.Repeat("a", 60) + ".example/" + strings.Repeat("b", 60) + "/"
	first, second := f.property("google", long).Slug, f.property("google", long+"c/").Slug
	equal(t, []int{len(first), len(second)}, []int{80, 80})
	equal(t, strings.HasSuffix(second, "-2"), true)
	equal(t, f.property("google", "https://0190a8f0-0000-7000-8000-000000000000/").Slug, "site-0190a8f0-0000-7000-8000-000000000000")

	named := value(f.AddProperty(f.ctx, PropertySpec{Connection: "google", Site: "sc-domain:shop.example", DisplayName: "Läden",
		Slug: "shops"}))(t)
	equal(t, []string{named.DisplayName, named.Slug}, []string{"Läden", "shops"})
	for _, spec := range []PropertySpec{
		{Site: "example.com"},
		{Site: "sc-domain:a.example", Slug: "Shop"},
		{Site: "sc-domain:a.example", Slug: strings.Repeat("a", 81)},
		{Site: "sc-domain:a.example", Slug: "0190a8f0-0000-7000-8000-000000000000"},
		{Site: "sc-domain:a.example", DisplayName: "\x00"},
		{Site: "sc-domain:a.example", DisplayName: strings.Repeat("a", 201)},
		{Site: "sc-domain:a.example", PermissionLevel: "\n"},
	} {
		spec.Connection = "google"
		_, err := f.AddProperty(f.ctx, spec)
		refused[*InputError](t, err)
	}
	_, err := f.AddProperty(f.ctx, PropertySpec{Connection: "nothing", Site: "sc-domain:a.example"})
	refused[*NotFoundError](t, err)
}

func testTakenProperty(t *testing.T, f *fixture) {
	f.acme()
	f.connection("main", "second")
	f.account("globex", "pro")
	f.workspace("globex", "other")
	f.connection("other", "third")
	f.property("google", "sc-domain:example.com")
	_, err := f.AddProperty(f.ctx, PropertySpec{Connection: "google", Site: "sc-domain:EXAMPLE.com"})
	equal(t, refusal[*ExistsError](t, err), &ExistsError{"property", "sc-domain:example.com"})
	_, err = f.AddProperty(f.ctx, PropertySpec{Connection: "second", Site: "sc-domain:a.example", Slug: "example-com"})
	equal(t, refusal[*ExistsError](t, err), &ExistsError{"slug", "example-com"})
	// Another connection may have the same site; another workspace may have the same slug.
	equal(t, f.property("second", "sc-domain:example.com").Slug, "example-com-2")
	equal(t, f.property("third", "sc-domain:example.com").Slug, "example-com")
}

func testFindProperty(t *testing.T, f *fixture) {
	f.acme()
	domain := f.property("google", "sc-domain:example.com")
	blog := f.property("google", "https://www.example.com/blog/")
	shop := f.property("google", "https://www.example.com/shop/")
	decoy := value(f.AddProperty(f.ctx, PropertySpec{Connection: "google", Site: "sc-domain:decoy.example", Slug: "www"}))(t)
	for reference, want := range map[string]Property{
		domain.ID: domain, strings.ToUpper(domain.ID): domain, "sc-domain:EXAMPLE.com": domain, "Example.com": domain,
		"example-com": domain, "HTTPS://www.example.com/blog/": blog, "www-example-com-blog": blog, "www": decoy,
	} {
		equal(t, value(f.Property(f.ctx, reference))(t), want)
	}
	_, err := f.Property(f.ctx, "www.example.com")
	equal(t, refusal[*AmbiguousError](t, err).Candidates, []Candidate{{blog.ID, blog.Site}, {shop.ID, shop.Site}})
	for _, reference := range []string{"", "com", "https://www.example.com/", "Example-com", "'"} {
		_, err := f.Property(f.ctx, reference)
		refused[*NotFoundError](t, err)
	}
}

func testPropertyFlags(t *testing.T, f *fixture) {
	f.acme()
	p := f.property("google", "sc-domain:example.com")
	p.Archived = true
	equal(t, value(f.SetArchived(f.ctx, "example.com", true))(t), p)
	p.Starred = true
	equal(t, value(f.SetStarred(f.ctx, p.ID, true))(t), p)
	p.Archived = false
	equal(t, value(f.SetArchived(f.ctx, p.ID, false))(t), p)
	equal(t, value(f.Properties(f.ctx))(t), []Property{p})
	_, err := f.SetArchived(f.ctx, "nothing", true)
	refused[*NotFoundError](t, err)
}

func testReachable(t *testing.T, f *fixture) {
	p, _ := f.acme()
	f.account("globex", "pro")
	f.workspace("globex", "other")
	f.connection("other", "third")
	second := f.workspace("acme", "second")
	f.connection("second", "second")
	wantNil(t, f.JoinWorkspace(f.ctx, p.ID, "second"))
	f.person("globex", "gus@globex.example", "other", "main") // shares a workspace: no row may come twice
	f.property("third", "sc-domain:foreign.example")

	// Names sort by the bytes of their lower-case form, not by a language's rules.
	sorted := []string{"-dash", "1", "a b", "a-b", "a_c", "AB", "ab", "abc", "Zoo", "äh", "öh"}
	for i, name := range slices.Backward(sorted) {
		connection := []string{"google", "second"}[i%2]
		value(f.AddProperty(f.ctx, PropertySpec{Connection: connection, Site: "https://" + string(rune('a'+i)) + ".example/",
			DisplayName: name}))(t)
	}
	all := func(workspaceID string, archived bool, limit, offset int) ([]string, int) {
		reach := Reach{PersonID: p.ID, WorkspaceID: workspaceID, Archived: archived}
		page := value(f.ReachableProperties(f.ctx, reach, limit, offset))(t)
		return names(page, func(p Property) string { return p.DisplayName }), value(f.CountReachable(f.ctx, reach))(t)
	}
	// Equal names are ordered by id; "ab" was added before "AB".
	sorted[5], sorted[6] = sorted[6], sorted[5]
	got, total := all("", false, 50, 0)
	equal(t, got, sorted)
	equal(t, total, len(sorted))
	got, total = all("", false, 3, 2)
	equal(t, got, sorted[2:5])
	equal(t, total, len(sorted))
	got, total = all("", false, 3, 100)
	equal(t, got, []string{})
	equal(t, total, len(sorted))
	_, total = all(second.ID, false, 50, 0)
	equal(t, total, len(sorted)/2)

	zoo := value(f.Property(f.ctx, "i.example"))(t)
	value(f.SetArchived(f.ctx, zoo.ID, true))(t)
	got, total = all("", false, 50, 0)
	equal(t, slices.Contains(got, "Zoo"), false)
	equal(t, total, len(sorted)-1)
	_, total = all("", true, 50, 0)
	equal(t, total, len(sorted))

	wantNil(t, f.LeaveWorkspace(f.ctx, p.ID, "second"))
	_, total = all(second.ID, true, 50, 0)
	equal(t, total, 0)
}

func testFindReachable(t *testing.T, f *fixture) {
	p, c := f.acme()
	second := f.workspace("acme", "second")
	f.connection("second", "second")
	f.account("globex", "pro")
	f.workspace("globex", "other")
	f.connection("other", "third")
	f.person("globex", "gus@globex.example", "other", "main")
	wantNil(t, f.JoinWorkspace(f.ctx, p.ID, "second"))
	twinA, twinB := f.property("google", "sc-domain:example.com"), f.property("second", "sc-domain:example.com")
	foreign := f.property("third", "sc-domain:example.com")
	named := value(f.AddProperty(f.ctx, PropertySpec{Connection: "google", Site: "https://www.example.com/", Slug: "short"}))(t)

	find := func(workspaceID, reference string) []string {
		found := value(f.FindProperties(f.ctx, p.ID, workspaceID, reference))(t)
		return names(found, func(p policy.Property) string { return p.ID })
	}
	equal(t, find("", "example.com"), []string{twinA.ID, twinB.ID})
	equal(t, find("", "EXAMPLE.com"), []string{twinA.ID, twinB.ID})
	equal(t, find("", "sc-domain:example.com"), []string{twinA.ID, twinB.ID})
	equal(t, find(second.ID, "sc-domain:example.com"), []string{twinB.ID})
	equal(t, find("", "example-com"), []string{twinA.ID, twinB.ID})
	equal(t, find("", strings.ToUpper(twinA.ID)), []string{twinA.ID})
	equal(t, find(second.ID, twinA.ID), []string{})
	equal(t, find("", foreign.ID), []string{})
	equal(t, find("", "short"), []string{named.ID})
	equal(t, find("", "www.example.com"), []string{named.ID})
	for _, reference := range []string{"", "%", "example", "Short", "sc-domain:EXAMPLE.com", "\x01"} {
		equal(t, find("", reference), []string{})
	}

	// A property has the state of its connection, and is found even if it is archived.
	value(f.SetConnectionHealth(f.ctx, c.ID, c.Revision, "revoked"))(t)
	value(f.SetArchived(f.ctx, named.ID, true))(t)
	named.Archived, named.Connection.Healthy, named.Connection.Note = true, false, "revoked"
	equal(t, value(f.FindProperties(f.ctx, p.ID, "", "short"))(t), []policy.Property{named.Property})

	wantNil(t, f.LeaveWorkspace(f.ctx, p.ID, "main"))
	equal(t, find("", "example.com"), []string{twinB.ID})
}

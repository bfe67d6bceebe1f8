package proxy

import (
	"context"
	"time"

	"sara/archive/sqlstore"
	"sara/policy"
	"sara/proxy/upstream/gscsim"
	"sara/translate"
)

// The users of the simulator: one that works, and one whose access was revoked.
func simUser(name string, revoked bool, sites ...gscsim.Site) gscsim.User {
	return gscsim.User{Email: name, RefreshToken: "refresh-" + name, ClientID: "client-" + name, ClientSecret: "secret-" + name,
		Revoked: revoked, Sites: sites}
}

func users() []gscsim.User {
	small := func(site string) gscsim.Site { return gscsim.Site{URL: site, Queries: 300, Pages: 60} }
	return []gscsim.User{
		simUser("owner", false,
			gscsim.Site{URL: "sc-domain:example.com", Brand: "example"},
			small("https://www.example.org/shop/"), small("sc-domain:archived.example"), small("sc-domain:twin.example"),
			// It has figures since August only, because to compute 16 months of so many queries takes seconds.
			gscsim.Site{URL: "sc-domain:large.example", Queries: 40_000, Pages: 3000, FirstDay: "2026-08-01"},
			gscsim.Site{URL: "sc-domain:empty.example", FirstDay: "2026-11-20"}),
		simUser("second", false, small("sc-domain:twin.example"), small("sc-domain:foreign.example")),
		simUser("gone", true, small("sc-domain:gone.example")),
	}
}

// seed adds the test data through the store's own methods.
func (w *world) seed() {
	ctx := context.Background()
	for _, a := range []struct {
		name, plan string
		until      *translate.Date
	}{{"Pro", "pro", nil}, {"Agency", "agency", nil}, {"Trial", "trial", nil}, {"Lapsed", "pro", dateOf(w.t, "2026-11-20")}, {"Other", "pro", nil}} {
		_, err := w.store.AddAccount(ctx, a.name, a.plan, a.until)
		w.must(err)
	}
	for _, name := range []string{"Main", "Rest"} {
		_, err := w.store.AddWorkspace(ctx, "Pro", name)
		w.must(err)
	}
	_, err := w.store.AddWorkspace(ctx, "Other", "Elsewhere")
	w.must(err)
	for _, p := range []struct {
		account, email string
	}{{"Pro", "pro@example.com"}, {"Agency", "agency@example.com"}, {"Trial", "trial@example.com"}, {"Lapsed", "lapsed@example.com"}} {
		_, err := w.store.AddPerson(ctx, p.account, p.email, []string{"Main", "Rest"})
		w.must(err)
	}
	_, err = w.store.AddPerson(ctx, "Other", "other@example.com", []string{"Elsewhere"})
	w.must(err)
	w.seedProperties(ctx)
	w.seedSegments(ctx)
	w.seedKeys(ctx)
}

func (w *world) seedProperties(ctx context.Context) {
	connections := map[string]string{}
	for _, c := range []struct{ workspace, name, user string }{
		{"Main", "main", "owner"}, {"Rest", "rest", "owner"}, {"Rest", "second", "second"}, {"Rest", "gone", "gone"}, {"Elsewhere", "foreign", "second"},
	} {
		credentials, err := simUser(c.user, false).AuthorizedUserJSON()
		w.must(err)
		added, err := w.store.AddConnection(ctx, c.workspace, c.name, credentials)
		w.must(err)
		connections[c.name] = added.ID
	}
	for _, p := range []struct{ name, connection, site, display, slug string }{
		{"main", "main", "sc-domain:example.com", "Example", "main"},
		{"prefix", "rest", "https://www.example.org/shop/", "Shop", "shop"},
		{"archived", "rest", "sc-domain:archived.example", "Archived", ""},
		{"twin_a", "rest", "sc-domain:twin.example", "Twin A", "twin-a"},
		{"twin_b", "second", "sc-domain:twin.example", "Twin B", "twin-b"},
		{"large", "rest", "sc-domain:large.example", "Large", ""},
		{"empty", "rest", "sc-domain:empty.example", "Empty", ""},
		{"forbidden", "rest", "sc-domain:forbidden.example", "Forbidden", ""},
		{"disconnected", "gone", "sc-domain:gone.example", "Gone", ""},
		{"foreign", "foreign", "sc-domain:foreign.example", "Foreign", "foreign"},
	} {
		added, err := w.store.AddProperty(ctx, sqlstore.PropertySpec{Connection: connections[p.connection], Site: p.site,
			DisplayName: p.display, Slug: p.slug, PermissionLevel: "siteOwner"})
		w.must(err)
		w.properties[p.name] = added
	}
	_, err := w.store.SetArchived(ctx, w.properties["archived"].ID, true)
	w.must(err)
	_, err = w.store.SetStarred(ctx, w.properties["main"].ID, true)
	w.must(err)
}

func (w *world) seedSegments(ctx context.Context) {
	id := w.properties["main"].ID
	var terms []translate.BrandTerm
	for _, text := range []string{"example", "exact:exmaple", "regex:^ex[a-z]+ple shop"} {
		term, err := translate.ParseBrandTerm(text)
		w.must(err)
		terms = append(terms, term)
	}
	_, err := w.store.SetBrandTerms(ctx, id, terms)
	w.must(err)
	_, err = w.store.SetPageGroups(ctx, id, []translate.PageGroup{
		{Name: "Blog", Rules: []translate.PageRule{{Type: "prefix", Value: "/blog/"}, {Type: "contains", Value: "guide"}}},
		{Name: "Home", Rules: []translate.PageRule{{Type: "equals", Value: "/"}}},
		{Name: "Numbers", Rules: []translate.PageRule{{Type: "regex", Value: "[0-9]$"}}},
	})
	w.must(err)
	for _, a := range []sqlstore.Annotation{
		{Date: *dateOf(w.t, "2026-10-01"), Title: "Relaunch", Note: "New templates", Color: "green"},
		{Date: *dateOf(w.t, "2026-11-02"), Title: "Core update"},
	} {
		_, err := w.store.AddAnnotation(ctx, id, a)
		w.must(err)
	}
}

func (w *world) seedKeys(ctx context.Context) {
	all := policy.AllScopes.Names()
	past := noon().Add(-time.Hour)
	for _, k := range []struct {
		name, email string
		scopes      []string
		workspace   string
		expires     *time.Time
	}{
		{"elsewhere", "agency@example.com", all, "", nil}, // restricted below
		{"pro", "pro@example.com", all, "", nil},
		{"agency", "agency@example.com", all, "", nil},
		{"properties_only", "agency@example.com", []string{"properties:read"}, "", nil},
		{"performance_only", "agency@example.com", []string{"performance:read"}, "", nil},
		{"indexing_only", "agency@example.com", []string{"indexing:read"}, "", nil},
		{"config_only", "agency@example.com", []string{"config:read"}, "", nil},
		{"workspace_scoped", "agency@example.com", all, "Main", nil},
		{"trial", "trial@example.com", all, "", nil},
		{"lapsed", "lapsed@example.com", all, "", nil},
		{"revoked", "pro@example.com", all, "", nil},
		{"expired", "pro@example.com", all, "", &past},
		{"other", "other@example.com", all, "", nil},
	} {
		key, hash := policy.NewKey("sara")
		added, err := w.store.CreateKey(ctx, sqlstore.KeySpec{Person: k.email, Name: k.name, Scopes: k.scopes, Workspace: k.workspace,
			Hash: hash, ExpiresAt: k.expires}, func(string) int { return 10 })
		w.must(err)
		w.keys[k.name], w.keyIDs[k.name] = key, added.ID
	}
	_, err := w.store.RevokeKey(ctx, w.keyIDs["revoked"])
	w.must(err)
	_, err = w.store.RestrictKey(ctx, w.keyIDs["elsewhere"], policy.StoredAddresses("192.0.2.0/24 2001:db8::/32"))
	w.must(err)
}

func keySpec(email, name string, hash policy.Hash, expires *time.Time) sqlstore.KeySpec {
	return sqlstore.KeySpec{Person: email, Name: name, Scopes: policy.AllScopes.Names(), Hash: hash, ExpiresAt: expires}
}

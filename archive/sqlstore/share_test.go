package sqlstore

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"sara/policy"
)

func testShares(t *testing.T, f *fixture) {
	p, _ := f.acme()
	shop, blog := f.property("google", "sc-domain:shop.example"), f.property("google", "sc-domain:blog.example")
	f.account("client", "pro")
	first, second := f.workspace("client", "first"), f.workspace("client", "second")
	reader := f.person("client", "cleo@client.example", "first", "second")

	reached := func(person Person, workspace string) []string {
		t.Helper()
		reach := Reach{PersonID: person.ID, WorkspaceID: workspace}
		page := value(f.ReachableProperties(f.ctx, reach, 50, 0))(t)
		equal(t, value(f.CountReachable(f.ctx, reach))(t), len(page))
		sites := names(page, func(p Property) string { return p.Site })
		for _, property := range []Property{shop, blog} {
			found := value(f.FindProperties(f.ctx, person.ID, workspace, property.Host))(t)
			listed := false
			for _, site := range sites {
				listed = listed || site == property.Site
			}
			equal(t, len(found) == 1, listed)
			equal(t, names(found, func(p policy.Property) string { return p.Site }),
				names(value(f.FindProperties(f.ctx, person.ID, workspace, property.ID))(t), func(p policy.Property) string { return p.Site }))
		}
		return sites
	}
	equal(t, reached(reader, ""), []string{})
	wantNil(t, f.ShareProperty(f.ctx, shop.ID, "client/first"))
	wantNil(t, f.ShareProperty(f.ctx, shop.ID, "client/first")) // changes nothing
	wantNil(t, f.ShareProperty(f.ctx, "shop.example", second.ID))
	equal(t, reached(reader, ""), []string{shop.Site})
	equal(t, reached(reader, second.ID), []string{shop.Site})
	wantNil(t, f.JoinWorkspace(f.ctx, p.ID, "client/first"))
	equal(t, reached(p, ""), []string{blog.Site, shop.Site}) // once, though through two workspaces
	equal(t, reached(p, first.ID), []string{shop.Site})
	equal(t, names(value(f.PropertyShares(f.ctx))(t), func(s Share) string { return s.PropertyID + " " + s.Workspace.Name }),
		[]string{shop.ID + " first", shop.ID + " second"})

	refused[*ConflictError](t, f.ShareProperty(f.ctx, shop.ID, "acme/main"))
	refused[*NotFoundError](t, f.ShareProperty(f.ctx, shop.ID, "nowhere"))
	refused[*NotFoundError](t, f.ShareProperty(f.ctx, "nothing", "client/first"))

	wantNil(t, f.UnshareProperty(f.ctx, shop.ID, "client/first"))
	wantNil(t, f.UnshareProperty(f.ctx, shop.ID, "client/first")) // changes nothing
	equal(t, reached(p, first.ID), []string{})
	equal(t, f.audited(AuditFilter{Limit: 4}), []string{"property.unshare", "workspace.member.add", "property.share", "property.share"})
	// Workspaces and properties can be removed although they are shared.
	value(f.Remove(f.ctx, KindWorkspace, second.ID))(t)
	equal(t, reached(reader, ""), []string{})
	wantNil(t, f.ShareProperty(f.ctx, blog.ID, first.ID))
	value(f.Remove(f.ctx, KindProperty, blog.ID))(t)
	equal(t, value(f.PropertyShares(f.ctx))(t), []Share{})
}

func testMoveProperty(t *testing.T, f *fixture) {
	_, google := f.acme()
	shop := f.property("google", "sc-domain:shop.example")
	client := f.workspace("acme", "client")
	own := f.connection("client", "own")
	wantNil(t, f.ShareProperty(f.ctx, shop.ID, client.ID))
	value(f.SetPropertyAccess(f.ctx, shop.ID, "no access"))(t)
	taken := value(f.AddProperty(f.ctx, PropertySpec{Connection: "own", Site: "sc-domain:other.example", Slug: shop.Slug}))(t)

	moved := value(f.MoveProperty(f.ctx, shop.ID, "own", "siteFullUser"))(t)
	shop.Connection, shop.WorkspaceID, shop.PermissionLevel, shop.Slug = own.Connection, client.ID, "siteFullUser", taken.Slug+"-2"
	equal(t, moved, shop)
	equal(t, value(f.Property(f.ctx, shop.ID))(t), shop)
	equal(t, value(f.PropertyShares(f.ctx))(t), []Share{}) // it is the property's own workspace now
	equal(t, f.audited(AuditFilter{Limit: 2}), []string{"property.move", "property.add"})

	f.account("globex", "pro")
	f.workspace("globex", "theirs")
	f.connection("theirs", "other")
	value(f.MoveProperty(f.ctx, taken.ID, "other", ""))(t)
	for _, account := range []string{"acme", "globex"} { // both see it
		last := value(f.AuditLog(f.ctx, AuditFilter{Account: account, Limit: 1}))(t)[0]
		equal(t, []string{last.Action, last.Subject}, []string{"property.move", taken.ID})
	}

	_, err := f.MoveProperty(f.ctx, shop.ID, "own", "")
	refused[*ConflictError](t, err)
	f.property("google", "sc-domain:shop.example")
	_, err = f.MoveProperty(f.ctx, shop.ID, google.ID, "")
	equal(t, refusal[*ExistsError](t, err), &ExistsError{"property", "sc-domain:shop.example"})
}

// A property that moves while its connection is removed stays, or is removed before it moves.
func testMoveWhileRemoving(t *testing.T, f *fixture) {
	f.acme()
	f.connection("main", "next")
	other := f.open(nil)
	for _, name := range numbered("old %d", 10) {
		f.connection("main", name)
		p := f.property(name, "sc-domain:"+strings.ReplaceAll(name, " ", "")+".example")
		var removal sync.WaitGroup
		removal.Go(func() {
			if _, err := other.Remove(f.ctx, KindConnection, name); err != nil {
				t.Error(err)
			}
		})
		_, err := f.MoveProperty(f.ctx, p.ID, "next", "")
		removal.Wait()
		_, findErr := f.Property(f.ctx, p.ID)
		if err != nil && !errors.As(err, new(*NotFoundError)) || (err == nil) != (findErr == nil) {
			t.Fatalf("%s: the move returned %v, and the property is found with %v", name, err, findErr)
		}
	}
}

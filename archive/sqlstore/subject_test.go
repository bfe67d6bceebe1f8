package sqlstore

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sara/policy"
	"sara/translate"
)

// A tenant has two of everything, with some stored data about each.
type tenant struct {
	account     Account
	workspaces  [2]Workspace
	people      [2]Person // members of both workspaces
	keys        [4]APIKey // two of each person
	connections [2]Connection
	properties  [2]Property // of the first connection, and shared with the second workspace
}

// newTenant adds a tenant. Tenants are equal except for what must differ.
func newTenant(f *fixture, name string) (t tenant) {
	f.t.Helper()
	t.account = f.account(name, "pro")
	for i, workspace := range []string{"main", "second"} {
		t.workspaces[i] = value(f.AddWorkspace(f.ctx, t.account.ID, workspace))(f.t)
	}
	for i := range t.people {
		t.people[i] = f.person(name, fmt.Sprintf("p%d@%s.example", i, name), t.workspaces[0].ID, t.workspaces[1].ID)
		for k := range 2 {
			spec := keySpec(t.people[i].ID, fmt.Sprint(name, i, k))
			spec.Name, spec.Workspace = fmt.Sprint("key ", k), t.workspaces[0].ID
			t.keys[2*i+k] = value(f.CreateKey(f.ctx, spec, unlimited))(f.t)
		}
	}
	for i := range t.connections {
		t.connections[i] = f.connection(t.workspaces[0].ID, fmt.Sprint("google ", i))
	}
	for i, site := range []string{"sc-domain:shop.example", "https://www.shop.example/"} {
		t.properties[i] = f.property(t.connections[0].ID, site)
		f.describe(t.properties[i].ID)
		wantNil(f.t, f.ShareProperty(f.ctx, t.properties[i].ID, t.workspaces[1].ID))
	}
	f.use(t.account.ID, 1)
	return t
}

// describe stores one of each kind of data about a property.
func (f *fixture) describe(id string) {
	f.t.Helper()
	first, last := translate.Date(20_000), translate.Date(20_100)
	value(f.SetBrandTerms(f.ctx, id, []translate.BrandTerm{{Term: "b", MatchType: "exact"}, {Term: "a", MatchType: "exact"}}))(f.t)
	value(f.SetPageGroups(f.ctx, id, []translate.PageGroup{
		{Name: "b", Rules: []translate.PageRule{{Type: "prefix", Value: "/b"}}},
		{Name: "a", Rules: []translate.PageRule{{Type: "prefix", Value: "/"}}}}))(f.t)
	for range 2 {
		value(f.AddAnnotation(f.ctx, id, Annotation{Date: first, Title: "launch"}))(f.t)
	}
	value(f.SetPropertyAccess(f.ctx, id, "no access"))(f.t)
	wantNil(f.t, f.SaveArchiveState(f.ctx, ArchiveState{PropertyID: id, First: &first, Last: &last, Note: "a note"}))
	in := []int32{0}
	f.discover(id, Discovery{Sitemaps: []DiscoveredSitemap{{Path: "https://www.shop.example/sitemap.xml"}}, URLs: []DiscoveredURL{
		{URL: "https://www.shop.example/1", Sitemaps: in}, {URL: "https://www.shop.example/2", Sitemaps: in}, {URL: "https://www.shop.example/3"}}})
	f.inspect(id, "Submitted and indexed", "https://www.shop.example/1")
	f.publish(id)
	f.inspect(id, "Submitted and indexed", "https://www.shop.example/1", "https://www.shop.example/2")
	wantNil(f.t, f.SaveIndexDay(f.ctx, id, IndexDay{Date: indexDay - 1, URLs: 3}))
}

// use stores usage of an account.
func (f *fixture) use(account string, n int) {
	f.t.Helper()
	count := policy.UsageCount{AccountID: account, Hour: 500_001, Day: 20_833, InHour: n, InDay: n}
	wantNil(f.t, f.SaveUsage(f.ctx, []policy.UsageCount{count}))
	wantNil(f.t, only(f.SaveReplicaUsage(f.ctx, []policy.ReplicaUsage{{Replica: "r1", Used: count, Local: count, Seen: count},
		{Replica: "r2", Used: count, Local: count, Seen: count}})))
}

// owned returns the rows of all tables that belong to a customer, with the number of a property replaced by its ID.
func (f *fixture) owned() map[string]bool {
	f.t.Helper()
	tables, owned, properties := f.rows(), map[string]bool{}, map[string]string{}
	for _, row := range tables["index_states"] {
		properties[row["number"]] = row["property_id"]
	}
	for table, rows := range tables {
		switch table {
		case "audit_log", "edition", "removed_properties", "status_look", "coverage_labels", "goose_db_version":
			continue
		}
		for _, row := range rows {
			if id := properties[row["number"]]; id != "" {
				row["number"] = "of " + id
			}
			owned[fmt.Sprint(table, " ", row)] = true
		}
	}
	return owned
}

// A subject is a set of texts that all rows about it contain.
type subject []string

// touches fails the test if a change adds, changes or deletes a row that is about none of the subjects, or changes nothing at all.
func (f *fixture) touches(what string, change func() error, subjects ...subject) {
	f.t.Helper()
	before := f.owned()
	if err := change(); err != nil {
		f.t.Fatalf("%s: %v", what, err)
	}
	after, touched := f.owned(), 0
	for _, side := range [][2]map[string]bool{{before, after}, {after, before}} {
		for row := range side[0] {
			if side[1][row] {
				continue
			}
			touched++
			if !slices.ContainsFunc(subjects, func(s subject) bool {
				return !slices.ContainsFunc(s, func(text string) bool { return !strings.Contains(row, text) })
			}) {
				f.t.Errorf("%s touches %s", what, row)
			}
		}
	}
	if touched == 0 {
		f.t.Errorf("%s touches nothing", what)
	}
}

// only drops the value of a call.
func only[T any](_ T, err error) error { return err }

func rotated(_, _ APIKey, err error) error { return err }

// A change of one thing affects neither others of the same customer nor those of another.
func testSubjects(t *testing.T, f *fixture) {
	globex := newTenant(f, "globex")
	acme := newTenant(f, "acme")
	wantNil(t, f.ShareProperty(f.ctx, acme.properties[0].ID, globex.workspaces[1].ID))
	for _, of := range []tenant{acme, globex} {
		keys := value(f.AccountKeys(f.ctx, of.account.ID))(t)
		equal(t, names(keys, func(k AccountKey) string { return k.ID }), names(of.keys[:], func(k APIKey) string { return k.ID }))
	}
	f.time = f.time.Add(time.Hour)
	of := AuditFilter{Account: globex.account.ID}
	recorded := f.audited(of)
	f.changeAccount(acme)
	f.changeProperty(acme)
	f.removeEach(acme)
	equal(t, f.audited(of), recorded)
}

func (f *fixture) changeAccount(acme tenant) {
	t, ctx, p, w, key := f.t, f.ctx, acme.people[0], acme.workspaces[1], acme.keys[0]
	c := acme.connections[0]
	f.touches("SetPlan", func() error { return only(f.SetPlan(ctx, acme.account.ID, "solo", nil)) }, subject{acme.account.ID})
	f.touches("SaveUsage", func() error { f.use(acme.account.ID, 2); return nil }, subject{acme.account.ID})
	f.touches("DeleteReplicaUsage", func() error {
		used := value(f.ReplicaUsage(ctx, "", 20_833, policy.ReplicaAccount{}, 9))(t)
		used = slices.DeleteFunc(used, func(u policy.ReplicaUsage) bool { return u.Used.AccountID != acme.account.ID || u.Replica != "r1" })
		return f.DeleteReplicaUsage(ctx, used, 20_833)
	}, subject{acme.account.ID, "replica:r1"})

	f.touches("RestrictKey", func() error {
		return only(f.RestrictKey(ctx, key.ID, value(policy.ParseAddresses([]string{"10.0.0.1"}))(t)))
	}, subject{key.ID})
	f.touches("RecordKeyUses", func() error { return f.RecordKeyUses(ctx, map[string]time.Time{key.ID: f.time}) }, subject{key.ID})
	f.touches("RotateKey", func() error {
		return rotated(f.RotateKey(ctx, acme.keys[1].ID, keySpec("", "rotated").Hash, time.Hour, 0))
	}, subject{acme.keys[1].ID}, subject{"api_keys map", p.ID, acme.keys[1].Name})
	f.touches("RevokeKey", func() error {
		k, err := f.RevokeKey(ctx, key.ID)
		equal(t, k.ID, key.ID)
		return err
	}, subject{key.ID})
	f.touches("RevokeKeys", func() error {
		revoked, err := f.RevokeKeys(ctx, acme.people[1].ID)
		equal(t, names(revoked, func(k APIKey) string { return k.ID }), names(acme.keys[2:], func(k APIKey) string { return k.ID }))
		return err
	}, subject{"api_keys map", acme.people[1].ID})
	f.touches("LeaveWorkspace", func() error { return f.LeaveWorkspace(ctx, p.ID, w.ID) }, subject{p.ID, w.ID})
	f.touches("JoinWorkspace", func() error { return f.JoinWorkspace(ctx, p.ID, w.ID) }, subject{p.ID, w.ID})

	f.touches("ReplaceCredentials", func() error { return only(f.ReplaceCredentials(ctx, c.ID, serviceAccountJSON)) },
		subject{"connections map", c.ID}, subject{"properties map", c.ID})
	f.touches("SetConnectionHealth", func() error { return only(f.SetConnectionHealth(ctx, c.ID, c.Revision+1, "gone")) },
		subject{"connections map", c.ID})
}

func (f *fixture) changeProperty(acme tenant) {
	t, ctx, id, w := f.t, f.ctx, acme.properties[0].ID, acme.workspaces[1]
	page, note := "https://www.shop.example/", value(f.Annotations(ctx, id, nil, nil))(t)[0]
	f.touches("SetArchived", func() error { return only(f.SetArchived(ctx, id, true)) }, subject{"properties map", id})
	f.touches("SetStarred", func() error { return only(f.SetStarred(ctx, id, true)) }, subject{"properties map", id})
	f.touches("SetPropertyAccess", func() error { return only(f.SetPropertyAccess(ctx, id, "no access")) }, subject{"properties map", id})
	f.touches("UnshareProperty", func() error { return f.UnshareProperty(ctx, id, w.ID) }, subject{id, w.ID})
	f.touches("ShareProperty", func() error { return f.ShareProperty(ctx, id, w.ID) }, subject{id, w.ID})
	f.touches("SetBrandTerms", func() error {
		return only(f.SetBrandTerms(ctx, id, []translate.BrandTerm{{Term: "a", MatchType: "exact"}}))
	}, subject{"brand_terms", id})
	f.touches("SetPageGroups", func() error {
		return only(f.SetPageGroups(ctx, id, []translate.PageGroup{{Name: "a", Rules: []translate.PageRule{{Type: "prefix", Value: "/a"}}}}))
	}, subject{"page_groups", id})
	f.touches("RemoveAnnotation", func() error { return f.RemoveAnnotation(ctx, note.ID) }, subject{note.ID})
	f.touches("SaveArchiveState", func() error { return f.SaveArchiveState(ctx, ArchiveState{PropertyID: id}) }, subject{"archive_states", id})
	f.touches("RecordArchiveChange", func() error {
		return f.RecordArchiveChange(ctx, ArchiveState{PropertyID: id, Failures: 1}, "archive.import", nil)
	},
		subject{"archive_states", id})
	f.touches("SaveIndexRun", func() error { return f.SaveIndexRun(ctx, IndexState{PropertyID: id, Failures: 1}) }, subject{"index_states", id})
	f.touches("SaveIndexDay", func() error { return f.SaveIndexDay(ctx, id, IndexDay{Date: indexDay, URLs: 9}) }, subject{"index_days", id})
	f.touches("StageInspection", func() error { f.inspect(id, "Unknown to Google", page+"3"); return nil }, subject{"staged_inspections", id})
	f.touches("PublishInspections", func() error { f.publish(id); return nil }, subject{"of " + id}, subject{"index_states", id})
	f.inspect(id, "Submitted and indexed", page+"1")
	f.touches("SaveDiscovery", func() error { f.discover(id, Discovery{URLs: urlsOf(page + "2")}); return nil }, subject{"of " + id},
		subject{"index_states", id})
	third := f.connection(w.ID, "third")
	for _, to := range []string{acme.connections[1].ID, third.ID, acme.connections[1].ID} { // in its workspace, to the other, and back
		f.touches("MoveProperty", func() error {
			p, err := f.MoveProperty(ctx, id, to, "")
			equal(t, p.Slug, acme.properties[0].Slug) // globex has it too, in its own workspaces
			return err
		}, subject{"properties map", id}, subject{"property_shares", id, w.ID})
	}
}

func (f *fixture) removeEach(acme tenant) {
	main, second, people := acme.workspaces[0].ID, acme.workspaces[1].ID, acme.people
	for _, step := range []struct {
		kind, id string
		below    []subject
	}{
		{KindProperty, acme.properties[0].ID, nil},
		{KindConnection, acme.connections[0].ID, []subject{{acme.properties[1].ID}}},
		{KindPerson, people[0].ID, nil},
		{KindWorkspace, main, nil},
		{KindAccount, acme.account.ID, []subject{{second}, {people[1].ID}}},
	} {
		f.touches("Remove "+step.kind, func() error { return only(f.Remove(f.ctx, step.kind, step.id)) }, append(step.below, subject{step.id})...)
	}
}

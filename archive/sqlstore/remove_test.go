package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"sara/translate"
)

// A removable is a world with two accounts, one of which has something of every kind.
type removable struct {
	*fixture
	account    Account
	workspace  Workspace
	person     Person
	connection Connection
	property   Property
	other      Property // of another connection in the same workspace
	key, guest APIKey   // guest: a key of the other account's person, restricted to the workspace
}

func newRemovable(f *fixture) *removable {
	f.t.Helper()
	r := &removable{fixture: f}
	r.person, r.connection = f.acme()
	r.account, r.workspace = value(f.Account(f.ctx, "acme"))(f.t), value(f.Workspace(f.ctx, "main"))(f.t)
	f.connection("main", "second")
	r.property, r.other = f.property("google", "sc-domain:acme.example"), f.property("second", "sc-domain:other.example")
	r.key = f.key(r.person.Email, "key")
	f.account("globex", "pro")
	f.person("globex", "gus@globex.example", "main")
	spec := keySpec("gus@globex.example", "guest")
	spec.Workspace = "main"
	r.guest = value(f.CreateKey(f.ctx, spec, unlimited))(f.t)
	value(f.SetBrandTerms(f.ctx, r.property.ID, []translate.BrandTerm{{Term: "acme", MatchType: "exact"}}))(f.t)
	value(f.SetPageGroups(f.ctx, r.property.ID, []translate.PageGroup{
		{Name: "blog", Rules: []translate.PageRule{{Type: "prefix", Value: "/blog"}}}}))(f.t)
	value(f.AddAnnotation(f.ctx, r.property.ID, Annotation{Date: 20000, Title: "launch"}))(f.t)
	page := "https://www.acme.example/blog"
	f.discover(r.property.ID, Discovery{URLs: urlsOf(page, page+"/2")})
	f.inspect(r.property.ID, "Submitted and indexed", page)
	f.publish(r.property.ID)
	f.inspect(r.property.ID, "Submitted and indexed", page+"/2")
	look := fmt.Sprint(r.account.ID, r.workspace.ID, r.connection.ID, r.property.ID)
	wantNil(f.t, f.SaveStatusLook(f.ctx, StatusLook{At: f.time, Counts: []byte(look)}))
	return r
}

// rows returns the rows of all tables, as texts by column.
func (f *fixture) rows() map[string][]map[string]string {
	f.t.Helper()
	list := "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name"
	if f.dialect == postgresDialect {
		list = "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() ORDER BY table_name"
	}
	found := map[string][]map[string]string{}
	for _, table := range value(all(f.ctx, f.overview, scalar[string], list))(f.t) {
		rows, err := f.changes.QueryContext(f.ctx, "SELECT * FROM "+table)
		wantNil(f.t, err)
		columns := value(rows.Columns())(f.t)
		for rows.Next() {
			values := make([]sql.NullString, len(columns))
			into := make([]any, len(columns))
			for i := range values {
				into[i] = &values[i]
			}
			wantNil(f.t, rows.Scan(into...))
			row := map[string]string{}
			for i, v := range values {
				row[columns[i]] = v.String
			}
			found[table] = append(found[table], row)
		}
		wantNil(f.t, rows.Err())
		wantNil(f.t, rows.Close())
	}
	return found
}

// rowsWith names the tables with rows that contain a text, except tables whose rows outlive what they are about.
func (r *removable) rowsWith(text string) (tables []string) {
	r.t.Helper()
	for table, rows := range r.rows() {
		has := slices.ContainsFunc(rows, func(row map[string]string) bool { return strings.Contains(fmt.Sprint(row), text) })
		if has && table != "audit_log" && table != "removed_properties" {
			tables = append(tables, table)
		}
	}
	return tables
}

// gone fails the test with the first thing that is still stored.
func (r *removable) gone(ids ...string) {
	r.t.Helper()
	for _, id := range ids {
		if tables := r.rowsWith(id); len(tables) > 0 {
			r.t.Errorf("%s is still in %v", id, tables)
		}
	}
}

func testRemoveProperty(t *testing.T, f *fixture) {
	r := newRemovable(f)
	removal := value(f.Remove(f.ctx, KindProperty, "acme.example"))(t)
	equal(t, removal.Properties, []string{r.property.ID})
	r.gone(r.property.ID)
	equal(t, names(value(f.Properties(f.ctx))(t), func(p Property) string { return p.ID }), []string{r.other.ID})
	equal(t, f.audited(AuditFilter{Account: "acme", Limit: 1}), []string{"property.remove"})
	equal(t, value(f.RemovedProperties(f.ctx))(t), []RemovedProperty{{r.property.ID, f.time}})
	value(f.Remove(f.ctx, KindProperty, r.other.ID))(t)
	wantNil(t, f.ForgetRemoved(f.ctx, r.property.ID))
	equal(t, value(f.RemovedProperties(f.ctx))(t), []RemovedProperty{{r.other.ID, f.time}})
	for table, rows := range map[string]int{"index_states": 0, "indexed_urls": 0, "brand_terms": 0, "page_groups": 0, "annotations": 0, "api_keys": 2} {
		equal(t, value(one(f.ctx, f.overview, scalar[int], "SELECT count(*) FROM "+table))(t), rows)
	}
	_, err := f.Remove(f.ctx, KindProperty, "acme.example")
	refused[*NotFoundError](t, err)
}

func testRemoveConnection(t *testing.T, f *fixture) {
	r := newRemovable(f)
	plan := value(f.PlanRemoval(f.ctx, KindConnection, "google"))(t)
	equal(t, value(f.Remove(f.ctx, KindConnection, "google"))(t), plan)
	r.gone(r.connection.ID, r.property.ID)
	_, err := f.Credentials(f.ctx, r.connection.ID)
	refused[*NotFoundError](t, err)
	equal(t, value(f.Properties(f.ctx))(t)[0].ID, r.other.ID)
	equal(t, f.audited(AuditFilter{Limit: 2}), []string{"connection.remove", "property.remove"})
}

func testRemovePerson(t *testing.T, f *fixture) {
	r := newRemovable(f)
	equal(t, value(f.Remove(f.ctx, KindPerson, "ann@acme.example"))(t).Keys, []string{r.key.ID})
	r.gone(r.person.ID, r.key.ID)
	equal(t, len(value(f.Properties(f.ctx))(t)), 2)
	equal(t, f.audited(AuditFilter{Limit: 2}), []string{"person.remove", "key.remove"})
}

func testRemoveWorkspace(t *testing.T, f *fixture) {
	r := newRemovable(f)
	removal := value(f.Remove(f.ctx, KindWorkspace, "acme/main"))(t)
	equal(t, []int{len(removal.Connections), len(removal.Properties), len(removal.Keys)}, []int{2, 2, 1})
	r.gone(r.workspace.ID, r.connection.ID, r.property.ID, r.other.ID, r.guest.ID)
	equal(t, len(value(f.Keys(f.ctx, r.person.ID))(t)), 1)
	// The account that owned the guest's key can see what happened to it.
	last := value(f.AuditLog(f.ctx, AuditFilter{Account: "globex", Limit: 1}))(t)[0]
	equal(t, []string{last.Action, last.Subject}, []string{"key.remove", r.guest.ID})
	if details := string(last.Details); !strings.Contains(details, `"with":"workspace main"`) || !strings.Contains(details, "gus@globex.example") {
		t.Errorf("the details are %s", details)
	}
}

func testRemoveAccount(t *testing.T, f *fixture) {
	r := newRemovable(f)
	edition := value(f.Edition(f.ctx))(t)
	spec := keySpec(r.person.Email, "restricted") // below the person, and below the workspace
	spec.Workspace = "main"
	restricted := value(f.CreateKey(f.ctx, spec, unlimited))(t)
	equal(t, value(f.Remove(f.ctx, KindAccount, "acme"))(t).Keys, slices.Sorted(slices.Values([]string{r.key.ID, r.guest.ID, restricted.ID})))
	r.gone(restricted.ID, r.account.ID, r.workspace.ID, r.person.ID, r.connection.ID, r.property.ID, r.other.ID, r.key.ID, r.guest.ID, "acme")
	if now := value(f.Edition(f.ctx))(t); now <= edition {
		t.Errorf("the edition is %d, and was %d", now, edition)
	}
	equal(t, len(value(f.People(f.ctx))(t)), 1)
	// Its entries remain under its ID.
	equal(t, f.audited(AuditFilter{Account: r.account.ID, Limit: 1}), []string{"account.remove"})
	_, err := f.AuditLog(f.ctx, AuditFilter{Account: "acme", Limit: 1})
	refused[*NotFoundError](t, err)
	_, err = f.Remove(f.ctx, KindAccount, "acme")
	refused[*NotFoundError](t, err)
}

// A property is removed while it is inspected: the inspector writes below it in other transactions.
func testRemoveWhileInspecting(t *testing.T, f *fixture) {
	f.acme()
	urls := numbered("https://example.com/%d", 200)
	for range 3 {
		site := f.property("google", "sc-domain:example.com")
		f.discover(site.ID, Discovery{URLs: urlsOf(urls...)})
		inspecting, stop := context.WithCancel(f.ctx)
		var inspectors sync.WaitGroup
		for i := range 4 {
			inspectors.Go(func() {
				for n := 0; inspecting.Err() == nil; n++ {
					// All of them fail once the property is removed.
					_ = f.StageInspection(f.ctx, site.ID, Inspection{URL: urls[(n*4+i)%len(urls)], CoverageState: "Submitted and indexed",
						Bucket: translate.BucketIndexed, At: f.time})
				}
			})
		}
		inspectors.Go(func() {
			for inspecting.Err() == nil {
				_, _ = f.PublishInspections(f.ctx, site.ID, indexDay, f.time)
				_ = f.SaveDiscovery(f.ctx, site.ID, Discovery{URLs: urlsOf(urls...), At: f.time})
			}
		})
		_, err := f.Remove(f.ctx, KindProperty, site.ID)
		stop()
		inspectors.Wait()
		wantNil(t, err)
		equal(t, value(one(f.ctx, f.overview, scalar[int], "SELECT count(*) FROM staged_inspections"))(t), 0)
	}
}

// A change that waits for a removal finds that what it is about no longer exists.
func testChangeWhileRemoving(t *testing.T, f *fixture) {
	f.acme()
	other := f.open(nil)
	for what, change := range map[string]func(property string) error{
		"an annotation": func(property string) error {
			return second(f.AddAnnotation(f.ctx, property, Annotation{Title: "launch"}))
		},
		"a discovery": func(property string) error { return f.SaveDiscovery(f.ctx, property, Discovery{At: f.time}) },
		"inspections": func(property string) error { return second(f.PublishInspections(f.ctx, property, indexDay, f.time)) },
		"a run":       func(property string) error { return f.SaveIndexRun(f.ctx, IndexState{PropertyID: property}) },
		"a state":     func(property string) error { return f.SaveArchiveState(f.ctx, ArchiveState{PropertyID: property}) },
	} {
		site := f.property("google", "sc-domain:example.com")
		ended := make(chan error)
		wantNil(t, other.transact(f.ctx, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "DELETE FROM properties WHERE id = $1", site.ID)
			go func() { ended <- change(site.ID) }()
			f.waitForBlocked(t)
			return err
		}))
		if err := <-ended; !errors.As(err, new(*NotFoundError)) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// If the name of what is removed becomes that of something else before the account is locked, nothing is removed.
func testRemoveRenamed(t *testing.T, f *fixture) {
	if f.dialect != postgresDialect {
		return // has one writer at a time
	}
	f.account("acme", "pro")
	first := f.workspace("acme", "main")
	globex := f.account("globex", "pro")
	ended := make(chan error)
	wantNil(t, f.open(nil).transact(f.ctx, func(ctx context.Context, tx *sql.Tx) error {
		value(lockAccount(ctx, tx, first.AccountID))(t)
		go func() { ended <- second(f.Remove(f.ctx, KindWorkspace, "main")) }()
		f.waitForBlocked(t)
		_, err := tx.ExecContext(ctx, "DELETE FROM workspaces WHERE id = $1", first.ID)
		_, addErr := tx.ExecContext(ctx, "INSERT INTO workspaces (id, account_id, name, created_at) VALUES ($1, $2, 'main', 0)", newID(), globex.ID)
		return errors.Join(err, addErr)
	}))
	refused[*NotFoundError](t, <-ended)
	equal(t, value(f.Workspace(f.ctx, "main"))(t).AccountID, globex.ID)
}

// Reseal locks connections in the order of their IDs. A removal in another order could deadlock with it.
func testRemovalOrdersConnections(t *testing.T, f *fixture) {
	f.account("acme", "pro")
	for _, workspace := range []string{"first", "second"} {
		f.workspace("acme", workspace)
	}
	var want []string
	for i, workspace := range []string{"second", "first", "second"} {
		c := value(f.AddConnection(f.ctx, "acme/"+workspace, fmt.Sprint("google ", i), serviceAccountJSON))(t)
		want = append(want, c.ID)
	}
	equal(t, value(f.PlanRemoval(f.ctx, KindAccount, "acme"))(t).Connections, want)
}

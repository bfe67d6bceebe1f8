package sqlstore

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sara/policy"
	"sara/translate"
)

// dumped returns the lines of a dump, sorted: databases return rows in any order. It leaves out the entries of loads in the audit log.
func dumped(t *testing.T, s *Store, f *fixture) (text string, lines []string) {
	t.Helper()
	var out bytes.Buffer
	d := value(s.Dump(f.ctx, &out))(t)
	for line := range strings.Lines(out.String()) {
		edition := strings.HasPrefix(line, `[`) && strings.Count(line, ",") == 0 // it advances
		if !edition && !strings.Contains(line, `"database.restore"`) {
			lines = append(lines, line)
		}
	}
	rows := 0
	for _, n := range d.Rows {
		rows += n
	}
	equal(t, rows+len(d.Rows), strings.Count(out.String(), "\n"))
	slices.Sort(lines)
	return out.String(), lines
}

// fillAllColumns stores a value in every column of every table that is dumped.
func (f *fixture) fillAllColumns() {
	f.t.Helper()
	tenant := newTenant(f, "globex")
	day, at := translate.Date(20_100), f.time
	value(f.SetPlan(f.ctx, tenant.account.ID, "agency", &day))(f.t)
	spec := keySpec(tenant.people[0].ID, "ends")
	spec.ExpiresAt = &at
	value(f.CreateKey(f.ctx, spec, unlimited))(f.t)
	for _, key := range tenant.keys {
		value(f.RestrictKey(f.ctx, key.ID, policy.StoredAddresses("192.0.2.1/32")))(f.t)
	}
	value(f.RevokeKey(f.ctx, tenant.keys[0].ID))(f.t)
	wantNil(f.t, f.RecordKeyUses(f.ctx, map[string]time.Time{tenant.keys[1].ID: at}))
	value(f.SetConnectionHealth(f.ctx, tenant.connections[0].ID, 1, "revoked"))(f.t)
	id := tenant.properties[0].ID
	value(f.SetStarred(f.ctx, id, true))(f.t)
	value(f.MoveProperty(f.ctx, id, tenant.connections[1].ID, "siteOwner"))(f.t)
	value(f.SetPropertyAccess(f.ctx, id, "no access"))(f.t)
	value(f.AddAnnotation(f.ctx, id, Annotation{Title: "launch", Note: "of the shop"}))(f.t)
	wantNil(f.t, f.SaveArchiveState(f.ctx, ArchiveState{PropertyID: id, First: &day, Last: &day, Gaps: []translate.Date{day.MonthStart()},
		CollectedAt: &at, CooldownUntil: &at, Failures: 3, Note: "over quota"}))
	longest := "https://www.shop.example/" + strings.Repeat("X", maxURL-len("https://www.shop.example/"))
	f.discover(id, Discovery{Source: "sitemap", Capped: true, Sitemaps: []DiscoveredSitemap{{Path: "https://www.shop.example/sitemap.xml",
		LastDownloaded: &at, IsPending: new(true), Warnings: new(int64(1)), Errors: new(int64(2)), Problem: "it is empty"}},
		URLs: []DiscoveredURL{{URL: "https://www.shop.example/Upper", Clicks: 7, Sitemaps: []int32{0}}, {URL: longest}}})
	for range 2 { // the second one stays staged
		f.publish(id)
		wantNil(f.t, f.StageInspection(f.ctx, id, Inspection{URL: longest, CoverageState: "Soft 404", Bucket: translate.BucketError, Verdict: "FAIL",
			LastCrawl: &at, At: at}))
	}
	wantNil(f.t, f.SaveIndexRun(f.ctx, IndexState{PropertyID: id, InspectedAt: &at, CooldownUntil: &at, Failures: 1, Note: "over quota"}))
	value(f.TakeInspection(f.ctx, "sc-domain:shop.example", day, 1))(f.t)
	value(f.Remove(f.ctx, KindProperty, tenant.properties[1].ID))(f.t)
}

// wantAllColumns fails the test unless every column of every table that is dumped has a value.
func (f *fixture) wantAllColumns() {
	f.t.Helper()
	stored := f.rows()
	for _, table := range dumpedTables() {
		if len(stored[table]) == 0 {
			f.t.Errorf("table %s has no row", table)
			continue
		}
		for column := range stored[table][0] {
			if !slices.ContainsFunc(stored[table], func(row map[string]string) bool { return row[column] != "" }) {
				f.t.Errorf("column %s of table %s has no value", column, table)
			}
		}
	}
}

func testBackup(t *testing.T, f *fixture) {
	p, c := f.acme()
	site := f.property("google", "sc-domain:example.com")
	f.discover(site.ID, Discovery{URLs: urlsOf("https://example.com/a", "https://example.com/b")})
	f.inspect(site.ID, "Soft 404", "https://example.com/a")
	f.key(p.Email, "text")
	value(f.AddAnnotation(f.ctx, site.ID, Annotation{Title: `"quoted", with a line` + " and \U0001F600"}))(t)
	f.fillAllColumns()
	f.wantAllColumns()
	edition := value(f.Edition(f.ctx))(t)
	text, want := dumped(t, f.Store, f)
	if strings.Contains(text, "BEGIN PRIVATE") || strings.Contains(text, "-----PRIVATE") {
		t.Error("credentials are in the dump in clear")
	}

	other := value(Open(f.ctx, Config{URL: "sqlite:" + filepath.Join(t.TempDir(), "other.db"), Keyring: newRing(t, testKey)}))(t)
	defer func() { wantNil(t, other.Close()) }()
	equal(t, value(other.IsEmpty(f.ctx))(t), true)
	f.account("later", "pro")
	for _, s := range []*Store{other, f.Store} { // also over what is there, and into the other kind of database
		wantNil(t, s.Load(f.ctx, strings.NewReader(text), value(schemaOf(f))(t)))
		_, got := dumped(t, s, f)
		equal(t, got, want)
		equal(t, value(s.IsEmpty(f.ctx))(t), false)
		credentials, err := s.Credentials(f.ctx, c.ID)
		wantNil(t, err)
		equal(t, string(credentials), string(serviceAccountJSON))
		loaded := value(s.AuditLog(f.ctx, AuditFilter{Limit: 1}))(t)[0] // the log itself was replaced
		equal(t, loaded.Action, "database.restore")
		equal(t, loaded.Actor, s.actor)
		equal(t, string(loaded.Details), fmt.Sprintf(`{"schema":%d}`, value(schemaOf(f))(t)))
	}
	if after := value(f.Edition(f.ctx))(t); after <= edition {
		t.Errorf("the edition is %d after the load, %d before: servers would take one for the other", after, edition)
	}

	edition = value(other.Edition(f.ctx))(t)
	for _, damage := range []struct{ old, new, want string }{
		{`"table":"people"`, `"table":"goose_db_version"`, "there is no table"},
		{`"columns":["id","account_id"`, `"columns":["id; DROP TABLE people; --","account_id"`, "no such column"},
		{`["` + p.ID, `[17,"` + p.ID, "values, not"},
	} {
		err := other.Load(f.ctx, strings.NewReader(strings.Replace(text, damage.old, damage.new, 1)), value(schemaOf(f))(t))
		if err == nil || !strings.Contains(err.Error(), damage.want) {
			t.Errorf("%s: %v, want %q", damage.new, err, damage.want)
		}
	}
	wantNil(t, other.Load(f.ctx, strings.NewReader(text), value(schemaOf(f))(t))) // after a failure
	if after := value(other.Edition(f.ctx))(t); after <= edition {
		t.Errorf("the edition is %d after the failures and a load, %d before", after, edition)
	}

	// This program cannot drop the tables of a newer one: they stay.
	version := value(schemaOf(f))(t)
	value(affected(f.ctx, f.changes, "INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, $2)", version+1, true))(t)
	if err := f.Load(f.ctx, strings.NewReader(text), version); err == nil || !strings.Contains(err.Error(), "restore into an empty database") {
		t.Errorf("over a newer schema: %v", err)
	}
	value(affected(f.ctx, f.changes, "DELETE FROM goose_db_version WHERE version_id = $1", version+1))(t)
	_, got := dumped(t, f.Store, f)
	equal(t, got, want)
}

// A load that cannot drop the tables drops none.
func testLoadThatCannotDrop(t *testing.T, f *fixture) {
	p, _ := f.acme()
	f.property("google", "sc-domain:example.com")
	f.key(p.Email, "text")
	text, want := dumped(t, f.Store, f)
	for _, statement := range []string{"CREATE TABLE another (person TEXT REFERENCES people (id))", "INSERT INTO another SELECT id FROM people"} {
		value(f.changes.ExecContext(f.ctx, statement))(t)
	}
	if err := f.Load(f.ctx, strings.NewReader(text), value(schemaOf(f))(t)); err == nil {
		t.Error("a table that another one refers to is dropped")
	}
	_, got := dumped(t, f.Store, f)
	equal(t, got, want)
}

func schemaOf(f *fixture) (int64, error) {
	version, _, err := f.SchemaVersion(f.ctx)
	return version, err
}

// A table that a later migration adds must be in the dump, after those that it refers to.
func TestDumpHasAllTables(t *testing.T) {
	f := newFixture(t, "sqlite::memory:")
	tables := value(all(f.ctx, f.changes, scalar[string], "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"))(t)
	want := slices.DeleteFunc(tables, func(name string) bool { return slices.Contains(tablesLeftOut(), name) })
	got := dumpedTables()
	for i, table := range got {
		for _, parent := range value(all(f.ctx, f.changes, scalar[string], "SELECT \"table\" FROM pragma_foreign_key_list('"+table+"')"))(t) {
			if !slices.Contains(got[:i], parent) {
				t.Errorf("%s comes before %s, to which it refers", table, parent)
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	equal(t, got, want)
}

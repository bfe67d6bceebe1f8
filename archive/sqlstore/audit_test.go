package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sara/policy"
	"sara/translate"
)

// audited lists the actions in the audit log, newest first.
func (f *fixture) audited(filter AuditFilter) (actions []string) {
	f.t.Helper()
	if filter.Limit == 0 {
		filter.Limit = 1000
	}
	return names(value(f.AuditLog(f.ctx, filter))(f.t), func(e AuditEntry) string { return e.Action })
}

func testAuditActions(t *testing.T, f *fixture) {
	p, c := f.acme()
	property := f.property("google", "sc-domain:example.com")
	key := f.key(p.Email, "first")
	value(f.ReplaceCredentials(f.ctx, c.ID, authorizedUserJSON))(t)
	value(f.SetPlan(f.ctx, "acme", "agency", nil))(t)
	value(f.SetArchived(f.ctx, property.ID, true))(t)
	value(f.SetArchived(f.ctx, property.ID, false))(t)
	value(f.SetStarred(f.ctx, property.ID, true))(t)
	value(f.SetBrandTerms(f.ctx, property.ID, []translate.BrandTerm{{Term: "acme", MatchType: "exact"}}))(t)
	value(f.SetPageGroups(f.ctx, property.ID, nil))(t)
	note := value(f.AddAnnotation(f.ctx, property.ID, Annotation{Date: 20000, Title: "launch"}))(t)
	wantNil(t, f.RemoveAnnotation(f.ctx, note.ID))
	wantNil(t, f.JoinWorkspace(f.ctx, p.ID, "main")) // changes nothing
	wantNil(t, f.LeaveWorkspace(f.ctx, p.ID, "main"))
	value(f.RevokeKey(f.ctx, key.ID))(t)
	value(f.RevokeKey(f.ctx, key.ID))(t) // changes nothing
	equal(t, f.audited(AuditFilter{}), []string{"key.revoke", "workspace.member.remove", "annotation.remove", "annotation.add", "page_groups.set",
		"brand_terms.set", "property.star", "property.restore", "property.archive", "account.plan", "connection.update", "key.create", "property.add",
		"connection.add", "person.add", "workspace.member.add", "workspace.add", "account.add"})
	for _, e := range value(f.AuditLog(f.ctx, AuditFilter{Limit: 100}))(t) {
		equal(t, e.AccountID, p.AccountID)
		equal(t, e.Actor, "cli:ann")
		equal(t, e.At, f.time)
		if strings.HasPrefix(e.Action, "annotation.") { // what was removed is in the log too
			equal(t, string(e.Details), `{"date":"2024-10-04","property":"sc-domain:example.com","title":"launch"}`)
		}
		if !json.Valid(e.Details) {
			t.Errorf("the details of %s are %s", e.Action, e.Details)
		}
		for _, secret := range []string{"PRIVATE", "private", "secret", "token"} {
			if strings.Contains(string(e.Details), secret) {
				t.Errorf("the details of %s contain %s: %s", e.Action, secret, e.Details)
			}
		}
	}
}

// After a removal, the audit log is all that is left: each entry has the account, the subject and the details.
func testAuditDetails(t *testing.T, f *fixture) {
	r := newRemovable(f)
	globex := value(f.Account(f.ctx, "globex"))(t)
	spec := keySpec(r.person.Email, "ending")
	spec.ExpiresAt = new(f.time.Add(time.Hour))
	key := value(f.CreateKey(f.ctx, spec, unlimited))(t)
	value(f.RevokeKey(f.ctx, key.ID))(t)
	ben := f.person("acme", "ben@acme.example")
	f.workspace("globex", "other")
	for range 2 { // the second time changes nothing
		wantNil(t, f.ShareProperty(f.ctx, r.property.ID, "globex/other"))
	}
	value(f.MoveProperty(f.ctx, r.property.ID, r.other.Connection.ID, ""))(t)
	value(f.Remove(f.ctx, KindConnection, r.other.Connection.ID))(t)

	var got []string
	for _, e := range value(f.AuditLog(f.ctx, AuditFilter{Limit: 9}))(t) {
		owner := map[string]string{r.account.ID: "acme", globex.ID: "globex"}[e.AccountID]
		subject := map[string]string{r.property.ID: "the property", r.other.ID: "the other", r.other.Connection.ID: "the second", key.ID: "the key",
			ben.ID: "ben"}[e.Subject]
		got = append(got, strings.Join([]string{owner, e.Action, subject, string(e.Details)}, " "))
	}
	at := f.time.Format(time.RFC3339)
	expires := f.time.Add(time.Hour).Format(time.RFC3339)
	ofKey := `{"email":"ann@acme.example","expires_at":"` + expires + `","name":"ending","person":"` + r.person.ID + `",`
	scopes := `"scopes":["` + strings.Join(key.Scopes, `","`) + `"]}`
	site := `"site":"sc-domain:acme.example"`
	equal(t, got[:4], []string{
		`acme connection.remove the second {"connections":1,"keys":0,"name":"second","people":0,"properties":2,"workspaces":0}`,
		got[1], got[2], // in the order of their ids
		`acme property.move the property {"connection":"` + r.other.Connection.ID + `","from":"` + r.connection.ID + `",` + site + `}`,
	})
	equal(t, slices.Sorted(slices.Values(got[1:3])), []string{
		`acme property.remove the other {"name":"sc-domain:other.example","with":"connection second"}`,
		`acme property.remove the property {"name":"sc-domain:acme.example","with":"connection second"}`,
	})
	equal(t, got[4], `acme property.share the property {"connection":"`+r.connection.ID+`","shared_with":"globex/other",`+site+`}`)
	equal(t, got[6:], []string{ // after the workspace
		`acme person.add ben {"email":"ben@acme.example"}`,
		`acme key.revoke the key ` + ofKey + `"revoked_at":"` + at + `",` + scopes,
		`acme key.create the key ` + ofKey + scopes,
	})
}

func testAuditPages(t *testing.T, f *fixture) {
	f.account("acme", "pro")
	f.time = f.time.Add(24 * time.Hour)
	globex := f.account("globex", "pro")
	f.workspace("acme", "main")
	f.workspace("globex", "main")
	equal(t, f.audited(AuditFilter{Account: "acme"}), []string{"workspace.add", "account.add"})
	equal(t, f.audited(AuditFilter{Account: globex.ID}), []string{"workspace.add", "account.add"})
	_, err := f.AuditLog(f.ctx, AuditFilter{Account: "unknown", Limit: 10})
	equal(t, refusal[*NotFoundError](t, err), &NotFoundError{"account", "unknown"})
	equal(t, len(f.audited(AuditFilter{Since: &f.time})), 3)
	all := value(f.AuditLog(f.ctx, AuditFilter{Limit: 10}))(t)
	var paged []AuditEntry
	for page := (AuditFilter{Limit: 3}); ; page.Before = paged[len(paged)-1].ID {
		next := value(f.AuditLog(f.ctx, page))(t)
		if len(next) == 0 {
			break
		}
		paged = append(paged, next...)
	}
	equal(t, paged, all)
}

// A change that fails leaves no entry, and the database refuses to change entries.
func testAuditAppendOnly(t *testing.T, f *fixture) {
	f.account("acme", "pro")
	_, err := f.AddAccount(f.ctx, "acme", "pro", nil)
	refused[*ExistsError](t, err)
	equal(t, f.audited(AuditFilter{}), []string{"account.add"})
	statements := []string{"UPDATE audit_log SET actor = 'another'", "DELETE FROM audit_log"}
	if f.dialect == sqliteDialect {
		statements = append(statements, "REPLACE INTO audit_log SELECT id, at, 'another', action, subject, account_id, details, keep_until FROM audit_log")
	}
	for _, statement := range statements {
		if _, err := f.changes.ExecContext(f.ctx, statement); err == nil || !strings.Contains(err.Error(), "append-only") {
			t.Errorf("%s: %v", statement, err)
		}
	}
	equal(t, len(f.audited(AuditFilter{})), 1)
}

// Entries are removed by the first change after their retention. The database's clock cannot be moved, so the
// store's clock begins in the past.
func testAuditRetention(t *testing.T, f *fixture) {
	f.time = time.Now().Add(-2 * DefaultAuditRetention)
	f.account("old", "pro")
	f.time = time.Now().Add(time.Minute)
	f.account("new", "pro")
	entries := value(f.AuditLog(f.ctx, AuditFilter{Limit: 10}))(t)
	if len(entries) != 1 || !strings.Contains(string(entries[0].Details), "new") {
		t.Errorf("after the retention there are %d entries: %v", len(entries), entries)
	}
}

// Every change looks for old entries, so it must not read the whole log.
func testAuditRetentionPlan(t *testing.T, f *fixture) {
	var entries [][]any
	for _, id := range numbered("entry %d", 2000) {
		entries = append(entries, []any{id, 1, "", "old", "", "", "{}", f.time.Add(DefaultAuditRetention).UnixMilli()})
	}
	wantNil(t, f.transact(f.ctx, func(ctx context.Context, tx *sql.Tx) error {
		return eachBatch(entries, func(values string, args []any) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO audit_log (id, at, actor, action, subject, account_id, details, keep_until)"+
				" VALUES "+values, args...)
			return err
		})
	}))
	value(f.changes.ExecContext(f.ctx, "ANALYZE audit_log"))(t)
	for _, plan := range f.plans(f.dialect.deleteOldEntries()) {
		if !strings.Contains(plan, "audit_log_keep_until") {
			t.Errorf("old entries are found without their index:\n%s", plan)
		}
	}
}

// Changes that are recorded while others hold rows do not wait for each other to remove old entries.
func testAuditRetentionRace(t *testing.T, f *fixture) {
	f.account("acme", "pro")
	f.workspace("acme", "main")
	other := f.open(nil)
	for _, name := range numbered("ann%d@acme.example", 12) {
		p := f.person("acme", name, "main")
		var keys []APIKey
		for _, text := range numbered(name+" key %d", 8) {
			keys = append(keys, f.key(p.Email, text))
		}
		value(affected(f.ctx, f.changes, "INSERT INTO audit_log (id, at, actor, action, subject, account_id, details, keep_until)"+
			" VALUES ($1, 1, '', 'old', '', '', '{}', 1)", name))(t)
		var changes sync.WaitGroup
		for _, k := range keys {
			changes.Go(func() {
				if _, err := other.RestrictKey(f.ctx, k.ID, policy.StoredAddresses("192.0.2.1/32")); err != nil {
					t.Error(err)
				}
			})
		}
		_, err := f.RevokeKeys(f.ctx, p.Email)
		changes.Wait()
		wantNil(t, err)
	}
}

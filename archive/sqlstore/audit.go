package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"
)

// An AuditEntry is one administrative change, as recorded in its transaction. Entries cannot be changed, nor removed
// before the end of their retention.
type AuditEntry struct {
	ID        string
	At        time.Time
	Actor     string // who made the change, such as cli:root
	Action    string // such as key.create
	Subject   string // id of what was changed, which may no longer exist; empty if it was the whole database
	AccountID string // owner of the subject; empty if none
	Details   json.RawMessage
}

// A change is what an administrative write did. The zero value is no change, and is not recorded.
type change struct {
	action    string
	subject   string  // id of what was changed
	account   string  // id of its account; empty if workspace identifies it
	workspace string  // id of its workspace, which still exists at the end of the transaction
	details   details // for people; never a secret
}

// details are names and values of a change.
type details map[string]any

// record adds a change to the audit log, in the transaction of the change.
func (s *Store) record(ctx context.Context, tx *sql.Tx, c change) error {
	if c.action == "" {
		return nil
	}
	if c.details == nil {
		c.details = details{}
	}
	text, err := json.Marshal(c.details)
	if err != nil {
		return fmt.Errorf("write the details of %s: %w", c.action, err)
	}
	now := s.clock()
	_, err = tx.ExecContext(ctx, "INSERT INTO audit_log (id, at, actor, action, subject, account_id, details, keep_until)"+
		" VALUES ($1, $2, $3, $4, $5, coalesce((SELECT account_id FROM workspaces WHERE id = $6), $7), $8, $9)",
		newID(), now.UnixMilli(), s.actor, c.action, c.subject, c.workspace, c.account, string(text), now.Add(s.auditRetention).UnixMilli())
	if err != nil {
		return fmt.Errorf("record %s: %w", c.action, err)
	}
	return nil
}

// removeOldEntries removes entries past their retention: by the database's clock, like the trigger. If this process's clock were ahead, the
// trigger would refuse, and the change would fail.
func (s *Store) removeOldEntries(ctx context.Context, tx *sql.Tx) (err error) {
	defer wrap(&err, "remove old entries of the audit log")
	_, err = tx.ExecContext(ctx, s.dialect.deleteOldEntries())
	return err
}

func (d dialect) deleteOldEntries() string {
	return "DELETE FROM audit_log WHERE keep_until <= " + d.nowMillis()
}

// AuditFilter selects entries of the audit log.
type AuditFilter struct {
	Account string     // name or id; a removed account only by its id. Empty: all
	Since   *time.Time // nil: from the first
	Before  string     // the id of an entry: only older ones; empty: from the newest
	Limit   int        // maximum number of entries
}

// AuditLog lists entries of the audit log, newest first. An account that neither exists nor has entries is a *NotFoundError: an empty list
// would say that nothing has been changed.
func (s *Store) AuditLog(ctx context.Context, f AuditFilter) (_ []AuditEntry, err error) {
	defer wrap(&err, "read the audit log")
	account := ""
	if f.Account != "" {
		account, err = find(ctx, s.overview, scalar[string], &NotFoundError{"account", f.Account}, "SELECT id FROM accounts WHERE id = $1 OR name = $1"+
			" UNION ALL SELECT account_id FROM audit_log WHERE account_id = $1 LIMIT 1", f.Account)
		if err != nil {
			return nil, err
		}
	}
	since := int64(0)
	if f.Since != nil {
		since = f.Since.UnixMilli()
	}
	return all(ctx, s.overview, scanAuditEntry, "SELECT id, at, actor, action, subject, account_id, details FROM audit_log"+
		" WHERE ($1 = '' OR account_id = $1) AND at >= $2 AND ($3 = '' OR id < $3) ORDER BY id DESC LIMIT $4",
		account, since, f.Before, f.Limit)
}

func scanAuditEntry(row scanner, e *AuditEntry) error {
	var text string
	err := row.Scan(&e.ID, instant{&e.At}, &e.Actor, &e.Action, &e.Subject, &e.AccountID, &text)
	e.Details = json.RawMessage(text)
	return err
}

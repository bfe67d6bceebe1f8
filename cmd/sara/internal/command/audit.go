package command

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/console"
)

type auditCommands struct {
	List auditList `cmd:"" help:"List administrative changes, newest first: who did what to what, and when." example:"sara audit list --account Acme --since 2026-01-01"`
}

type auditRecord struct {
	ID        string          `json:"id"`
	At        string          `json:"at"`
	Actor     string          `json:"actor"`
	Action    string          `json:"action"`
	Subject   string          `json:"subject"` // id of what was changed
	AccountID string          `json:"account_id"`
	Details   json.RawMessage `json:"details"`
}

func (r auditRecord) Columns() []console.Column {
	return []console.Column{{"AT", r.At}, {"ACTOR", r.Actor}, {"ACTION", r.Action}, {"SUBJECT", r.Subject},
		{"DETAILS", strings.Trim(string(r.Details), "{}")}, {"ID", r.ID}}
}

func recordOfChange(e sqlstore.AuditEntry) auditRecord {
	return auditRecord{ID: e.ID, At: console.Timestamp(e.At), Actor: e.Actor, Action: e.Action, Subject: e.Subject,
		AccountID: e.AccountID, Details: e.Details}
}

type auditList struct {
	recordFlags
	Account string `placeholder:"ACCOUNT" help:"Only changes of this account: its name or id, or the id of a removed one."`
	Since   *date  `placeholder:"DATE" help:"Only changes since this day, YYYY-MM-DD, in UTC."`
	Before  string `placeholder:"ID" help:"Only changes before this one, for the next page: the last id of the page before."`
	Limit   int    `default:"100" help:"Maximum number of changes; default: ${default}."`
}

// Validate implements kong's check of a command line.
func (c *auditList) Validate() error {
	const most = 10_000
	if c.Limit < 1 || c.Limit > most {
		return fmt.Errorf("--limit %d is not a number of 1 to %d", c.Limit, most)
	}
	if c.Before != "" {
		id, err := uuid.Parse(c.Before)
		if err != nil {
			return fmt.Errorf("--before %q is not a change id", c.Before)
		}
		c.Before = id.String() // ids are compared as text: in another form, it would select any page
	}
	return nil
}

func (c *auditList) Run(ctx context.Context, con *console.Console) error {
	return list(ctx, con, c.recordFlags, func(store *sqlstore.Store) ([]auditRecord, error) {
		filter := sqlstore.AuditFilter{Account: c.Account, Before: c.Before, Limit: c.Limit}
		if c.Since != nil {
			filter.Since = new(c.Since.Time())
		}
		entries, err := store.AuditLog(ctx, filter)
		return console.Each(entries, recordOfChange), err
	}, "no change matches; list those of all accounts.", console.CommandLine("audit", "list"))
}

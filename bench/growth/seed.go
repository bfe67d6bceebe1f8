package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	_ "modernc.org/sqlite" // the database driver
)

// A seeder copies rows in sara's database file, because sara's commands would take hours for so many. The originals come from
// sara's commands. IDs are UUIDs, keys are stored as SHA-256, and names sort as sara sorts them.
type seeder struct {
	db                   *sql.DB
	properties, accounts int // seeded so far
}

func newSeeder(file string) (*seeder, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=synchronous(NORMAL)")
	if err != nil {
		return nil, err
	}
	return &seeder{db: db}, nil
}

func (s *seeder) close() error { return s.db.Close() }

// numbers starts a query with a table n of the numbers from $1 to below $2.
const numbers = "WITH RECURSIVE n(i) AS (SELECT $1 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < $2) "

const copyProperties = numbers + `INSERT INTO properties (id, connection_id, workspace_id, site, host, type, display_name, name_order, slug,
	permission_level, starred, archived, access_note, created_at)
	SELECT id, connection_id, workspace_id, 'sc-domain:' || name, name, type, name, CAST(name || char(0) || id AS BLOB), slug,
	permission_level, starred, archived, access_note, created_at FROM (
		SELECT *, printf('%08x-0000-7000-8000-%012x', i, i) AS id, 'seeded-' || i || '.example' AS name, 'seeded-' || i AS slug
		FROM n, (SELECT connection_id, workspace_id, type, permission_level, starred, archived, access_note, created_at
			FROM properties WHERE host = $3))`

// growProperties copies a property until there are this many copies, all in its workspace.
func (s *seeder) growProperties(ctx context.Context, template string, to int) error {
	if to <= s.properties {
		return nil
	}
	if _, err := s.db.ExecContext(ctx, copyProperties, s.properties, to, template); err != nil {
		return fmt.Errorf("seed %d properties: %w", to, err)
	}
	s.properties = to
	return nil
}

// accountOf and personOf are the ids of the seeded accounts, and of their only persons.
const (
	accountOf = "printf('%08x-0000-7000-9000-%012x', i, i)"
	personOf  = "printf('%08x-0000-7000-a000-%012x', i, i)"
)

// copyAccounts are the steps that copy the account of the key with the hash $3.
func copyAccounts() []string {
	const template = " FROM n, (SELECT a.plan, a.until_day, a.created_at, p.id AS person FROM api_keys k JOIN people p ON p.id = k.person_id" +
		" JOIN accounts a ON a.id = p.account_id WHERE k.hash = $3)"
	return []string{
		numbers + "INSERT INTO accounts (id, name, plan, until_day, created_at) SELECT " + accountOf +
			", 'seeded-' || i, plan, until_day, created_at" + template,
		numbers + "INSERT INTO people (id, account_id, email, created_at) SELECT " + personOf + ", " + accountOf +
			", 'seeded-' || i || '@example.com', created_at" + template,
		numbers + "INSERT INTO memberships (person_id, workspace_id) SELECT " + personOf + ", m.workspace_id" + template +
			" JOIN memberships m ON m.person_id = person",
	}
}

const copyKey = "INSERT INTO api_keys (id, person_id, workspace_id, name, scopes, hash, created_at, expires_at, revoked_at)" +
	" SELECT printf('%08x-0000-7000-b000-%012x', i, i), " + personOf + ", workspace_id, name, scopes, $2, created_at, expires_at, revoked_at" +
	" FROM (SELECT $1 AS i), api_keys WHERE hash = $3"

// growAccounts copies the account of a key until there are this many copies, each with its own person and key. The
// people are members of the original's workspaces, so all accounts share the answers in memory, while look-ups and
// budgets are separate.
func (s *seeder) growAccounts(ctx context.Context, template string, to int) (err error) {
	if to <= s.accounts {
		return nil
	}
	hash := sha256.Sum256([]byte(template))
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("seed %d accounts: %w", to, errors.Join(err, tx.Rollback()))
		}
	}()
	for _, step := range copyAccounts() {
		if _, err := tx.ExecContext(ctx, step, s.accounts, to, hash[:]); err != nil {
			return err
		}
	}
	insert, err := tx.PrepareContext(ctx, copyKey)
	if err != nil {
		return err
	}
	for i := s.accounts; i < to; i++ {
		own := sha256.Sum256([]byte(seededKey(i)))
		if _, err := insert.ExecContext(ctx, i, own[:], hash[:]); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	s.accounts = to
	return nil
}

// seededKey returns the key of a seeded account, in the form without a checksum.
func seededKey(account int) string {
	return "sara_live_" + strings.NewReplacer("0", "A", "1", "B", "8", "I", "9", "J").Replace(fmt.Sprintf("%052d", account))
}

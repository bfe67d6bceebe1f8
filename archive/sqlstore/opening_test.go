package sqlstore

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"sara/policy"
)

// A store of New refuses every use until its schema has been checked and migrated.
func TestNewIsNotOpenBeforeMigrate(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "sara.db")
	s := value(New(Config{URL: url}))(t)
	defer func() { equal(t, s.Close(), nil) }()
	wantClosed := func(why string) {
		t.Helper()
		_, edition := s.Edition(t.Context())
		_, keys := s.FindKeys(t.Context(), []policy.Hash{{1}})
		_, added := s.AddAccount(t.Context(), "Acme", "pro", nil)
		for _, err := range []error{s.Ping(t.Context()), edition, keys, added} {
			if !errors.Is(err, ErrNotOpen) || !strings.Contains(err.Error(), why) {
				t.Errorf("got %v, want that it is not open: %s", err, why)
			}
		}
	}
	wantClosed("")

	other := value(Open(t.Context(), Config{URL: url}))(t)
	value(other.Migrate(t.Context()))(t)
	const newer int64 = 9999
	value(other.changes.ExecContext(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, true)", newer))(t)
	_, err := s.Migrate(t.Context())
	equal(t, refusal[*SchemaError](t, err).Current, newer)
	wantClosed("the database has schema version 9999")

	value(other.changes.ExecContext(t.Context(), "DELETE FROM goose_db_version WHERE version_id = $1", newer))(t)
	equal(t, other.Close(), nil)
	equal(t, value(s.Migrate(t.Context()))(t), 0)
	equal(t, s.Ping(t.Context()), nil)
	value(s.AddAccount(t.Context(), "Acme", "pro", nil))(t)
}

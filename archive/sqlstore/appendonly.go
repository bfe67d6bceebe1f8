package sqlstore

import (
	"context"
	"database/sql"

	"github.com/pressly/goose/v3"
)

// appendOnlyVersion is the version of the migration that makes the audit log append-only.
const appendOnlyVersion = 12

// appendOnly returns the migration that makes the database refuse to change entries of the audit log, or to remove them before the
// end of their retention. It protects against mistakes and against bugs in sara; an owner of the tables can drop the triggers.
func (d dialect) appendOnly() *goose.Migration {
	up := []string{refuseUpdate, refuseDelete}
	down := []string{"DROP TRIGGER audit_log_update", "DROP TRIGGER audit_log_delete"}
	if d == postgresDialect {
		up = []string{postgresRefusal, postgresRefuseUpdate, postgresRefuseDelete, postgresRefuseTruncate}
		down = []string{"DROP FUNCTION refuse_audit_log_change CASCADE"}
	}
	return goose.NewGoMigration(appendOnlyVersion, &goose.GoFunc{RunTx: runAll(up)}, &goose.GoFunc{RunTx: runAll(down)})
}

// nowMillis is the database's clock in whole Unix milliseconds, as an expression. It is constant within a statement. PostgreSQL would use no
// index to compare a BIGINT with its fractions.
func (d dialect) nowMillis() string {
	if d == postgresDialect {
		return "CAST(floor(" + postgresMillis + ") AS BIGINT)"
	}
	return sqliteMillis
}

func runAll(statements []string) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		for _, statement := range statements {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	}
}

// One statement each, because not every driver accepts several at once.
const (
	sqliteMillis   = "(unixepoch() * 1000)"
	postgresMillis = "(extract(epoch FROM now()) * 1000)"

	refuseUpdate = `CREATE TRIGGER audit_log_update BEFORE UPDATE ON audit_log BEGIN
		SELECT RAISE(ABORT, 'the audit log is append-only');
	END`
	refuseDelete = `CREATE TRIGGER audit_log_delete BEFORE DELETE ON audit_log WHEN OLD.keep_until > ` + sqliteMillis + ` BEGIN
		SELECT RAISE(ABORT, 'the audit log is append-only');
	END`

	postgresRefusal = `CREATE FUNCTION refuse_audit_log_change() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN RAISE EXCEPTION 'the audit log is append-only'; END
	$$`
	postgresRefuseUpdate = `CREATE TRIGGER audit_log_update BEFORE UPDATE ON audit_log FOR EACH ROW EXECUTE FUNCTION refuse_audit_log_change()`
	postgresRefuseDelete = `CREATE TRIGGER audit_log_delete BEFORE DELETE ON audit_log FOR EACH ROW
		WHEN (OLD.keep_until > ` + postgresMillis + `) EXECUTE FUNCTION refuse_audit_log_change()`
	postgresRefuseTruncate = `CREATE TRIGGER audit_log_truncate BEFORE TRUNCATE ON audit_log
		FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_log_change()`
)

-- Administrative changes, for the audit log. account_id refers to no account, because entries outlive it. An id sorts by its time.
-- The triggers that keep entries from being changed differ between the databases: see appendOnly.

-- +goose Up
CREATE TABLE audit_log (
    id         TEXT   NOT NULL PRIMARY KEY,
    at         BIGINT NOT NULL,
    actor      TEXT   NOT NULL,
    action     TEXT   NOT NULL,
    subject    TEXT   NOT NULL,
    account_id TEXT   NOT NULL,
    details    TEXT   NOT NULL,
    keep_until BIGINT NOT NULL
);
CREATE INDEX audit_log_account ON audit_log (account_id, id);
CREATE INDEX audit_log_keep_until ON audit_log (keep_until);

-- Removed properties whose history may still be in the archive.
CREATE TABLE removed_properties (
    id         TEXT   NOT NULL PRIMARY KEY,
    removed_at BIGINT NOT NULL
);

-- +goose Down
DROP TABLE removed_properties;
DROP TABLE audit_log;

-- The usage of accounts in the current hour and day. A process that counts in memory saves it here, so that it survives a restart.
-- Hours and days are numbered since 1970, in UTC.

-- +goose Up
CREATE TABLE usage_counts (
    account_id  TEXT    NOT NULL PRIMARY KEY REFERENCES accounts (id),
    hour        BIGINT  NOT NULL,
    day         BIGINT  NOT NULL,
    in_hour     INTEGER NOT NULL,
    in_day      INTEGER NOT NULL,
    calls       INTEGER NOT NULL
);
CREATE INDEX usage_counts_day ON usage_counts (day);

-- +goose Down
DROP TABLE usage_counts;

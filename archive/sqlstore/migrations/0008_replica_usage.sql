-- What a replica has admitted while it could not count in Redis, so that it survives a restart. The numbers of the account's hour
-- and day (since 1970, in UTC): what the replica has admitted itself, the part of it that Redis does not have, and what all
-- replicas had admitted when it last saw Redis; and the limits, negative for none.

-- +goose Up
CREATE TABLE replica_usage (
    replica        TEXT    NOT NULL,
    account_id     TEXT    NOT NULL,
    hour           BIGINT  NOT NULL,
    day            BIGINT  NOT NULL,
    in_hour        INTEGER NOT NULL,
    in_day         INTEGER NOT NULL,
    calls          INTEGER NOT NULL,
    returned       INTEGER NOT NULL,
    local_in_hour  INTEGER NOT NULL,
    local_in_day   INTEGER NOT NULL,
    local_calls    INTEGER NOT NULL,
    local_returned INTEGER NOT NULL,
    seen_in_hour   INTEGER NOT NULL,
    seen_in_day    INTEGER NOT NULL,
    seen_calls     INTEGER NOT NULL,
    per_hour       INTEGER NOT NULL,
    per_day        INTEGER NOT NULL,
    calls_per_day  INTEGER NOT NULL,
    PRIMARY KEY (replica, account_id)
);

-- +goose Down
DROP TABLE replica_usage;

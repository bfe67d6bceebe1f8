-- The leases of jobs, and a summary of each property's archive for operators and the API. The archive's objects are the source of
-- truth. Days are counted from 1970-01-01. rests_until is the end of a cooldown.

-- +goose Up
CREATE TABLE leases (
    name       TEXT   NOT NULL PRIMARY KEY,
    holder     TEXT   NOT NULL,
    expires_at BIGINT NOT NULL
);

CREATE TABLE archive_states (
    property_id  TEXT    NOT NULL PRIMARY KEY REFERENCES properties (id),
    first_day    INTEGER,
    last_day     INTEGER,
    collected_at BIGINT,
    rests_until  BIGINT,
    failures     INTEGER NOT NULL,
    note         TEXT    NOT NULL
);

-- +goose Down
DROP TABLE archive_states;
DROP TABLE leases;
